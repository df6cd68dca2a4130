"""What is kept of a definition: little, and whatever came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from syncd.core.definition import definition, sentence
from syncd.core.errors import ProtocolError

SPEC: dict[str, Any] = {
    "group": "example.com",
    "scope": "Cluster",
    "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
    "conversion": {"strategy": "None"},
    "versions": [
        {"name": "v1", "served": False, "storage": False, "schema": {}},
        {
            "name": "v2",
            "served": True,
            "storage": True,
            "additionalPrinterColumns": [
                {
                    "name": "Size",
                    "type": "integer",
                    "jsonPath": ".spec.size",
                    "priority": 1,
                    "description": "How large.",
                }
            ],
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "description": "A widget.",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["size"],
                            "properties": {
                                "size": {"type": "integer", "format": "int32", "minimum": 1},
                                "port": {"anyOf": [{}], "x-kubernetes-int-or-string": True},
                                "deep": {"type": "object", "properties": {"x": {"type": "string"}}},
                            },
                        },
                        "metadata": {"type": "object"},
                    },
                }
            },
        },
    ],
}


def body(**changes: Any) -> bytes:
    metadata = {"name": "widgets.example.com", "uid": "u1", "generation": 3, "managedFields": []}
    return json.dumps({"metadata": metadata, "spec": SPEC, "status": {}, **changes}).encode()


def test_what_shapes_a_table_is_kept() -> None:
    found = definition(body())
    assert (found.name, found.uid, found.generation) == ("widgets.example.com", "u1", 3)
    assert found.document == {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [
                {
                    "name": "v2",
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [
                        {
                            "name": "Size",
                            "type": "integer",
                            "jsonPath": ".spec.size",
                            "description": "How large.",
                        }
                    ],
                    "schema": {
                        "openAPIV3Schema": {
                            "properties": {
                                "spec": {
                                    "properties": {
                                        "size": {"type": "integer", "format": "int32"},
                                        "port": {"x-kubernetes-int-or-string": True},
                                        "deep": {"type": "object"},
                                    }
                                }
                            }
                        }
                    },
                }
            ],
        },
    }


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"[]",
        b"null",
        b'"\xff"',
        b"{}",
        b'{"metadata": {"name": "a.b"}, "spec": {}}',
        b'{"metadata": {"name": "a.b", "uid": "u"}, "spec": {}}',
        b'{"metadata": {"name": "a.b", "uid": "u", "generation": "three"}, "spec": {"group": "b"}}',
        b'{"metadata": {"name": "a.b", "uid": "u"}, "spec": []}',
        b"[" * 100_000,
    ],
)
def test_what_is_none_is_told(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        definition(raw)


def test_odd_parts_are_left_out() -> None:
    versions = [None, 3, {"served": True}, {"name": "v1", "served": True, "schema": []}]
    odd = {"group": "b", "names": [], "versions": versions}
    document = definition(body(spec=odd)).document
    [version] = document["spec"]["versions"]
    assert version["schema"] == {"openAPIV3Schema": {"properties": {}}}
    assert document["spec"]["names"] == {}


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ("Its color.", "Its color."),
        ("Its color\nand shade. Any will do.", "Its color and shade."),
        ("From 1.5 to 2.5, e.g. this", "From 1.5 to 2.5, e.g."),
        ("No end", "No end"),
        ("NUL\0 here", "NUL\ufffd here"),
        ("x" * 300, "x" * 237 + "..."),
        (None, ""),
        (7, ""),
    ],
)
def test_a_description_is_a_sentence(description: object, said: str) -> None:
    assert sentence(description) == said
