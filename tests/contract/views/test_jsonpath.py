"""Printer columns' JSONPaths give what Kubernetes gives, the same on both dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from syncd.app.viewing import show
from syncd.views.expression import Type
from syncd.views.jsonpath import expression
from syncd.views.rendering import RENDERERS
from tests.contract.mirror_case import Place, item, opened
from tests.contract.views.case import rows

OBJECT: dict[str, Any] = {
    "metadata": {
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "annotations": {"foo.bar/baz": "dotted", 'with"quote': "q", "it's": "apostrophe"},
    },
    "spec": {
        "foo": "bar",
        "on": True,
        "off": False,
        "nothing": None,
        "replicas": 3,
        "share": 0.5,
        "big": 123456789012,
        "when": "2026-01-02T03:04:05.25+02:00",
        "list": [{"x": "first"}, {"x": "last"}],
        "names": ["a", "b"],
        "empty": [],
        "numbers": [7, "8", True],
        "map": {"b": 1, "a": {"z": [1, "é"], "y": None}},
        "mixed": ["plain", {"x": "deep"}, [1], {"x": None}],
        "matrix": [{"row": [{"n": "1"}, {"n": "2"}]}, {"row": [{"n": "3", "ok": True}]}],
    },
    "status": {
        "conditions": [
            {"type": "Synced"},
            {"type": "Synced", "status": "False", "n": 1},
            {"type": "Ready", "status": "True", "n": 2, "ok": True, "at": "2026-01-02T03:04:05Z"},
        ]
    },
}

CASES: list[tuple[str, Type, Any]] = [
    (".spec.foo", Type.TEXT, "bar"),
    ("$.spec.foo", Type.TEXT, "bar"),
    ("spec.foo", Type.TEXT, "bar"),
    (".spec['foo']", Type.TEXT, "bar"),
    ('.spec["foo"]', Type.TEXT, "bar"),
    (".spec.on", Type.TEXT, "true"),
    (".spec.off", Type.TEXT, "false"),
    (".spec.on", Type.BOOLEAN, 1),
    (".spec.off", Type.BOOLEAN, 0),
    (".spec.foo", Type.BOOLEAN, None),
    (".spec.nothing", Type.TEXT, None),
    (".spec.missing.far", Type.TEXT, None),
    (".spec.foo.below", Type.TEXT, None),
    (".spec.replicas", Type.INTEGER, 3),
    (".spec.replicas", Type.TEXT, "3"),
    (".spec.replicas", Type.NUMBER, 3),
    (".spec.share", Type.NUMBER, 0.5),
    (".spec.share", Type.TEXT, "0.5"),
    (".spec.share", Type.INTEGER, None),
    (".spec.foo", Type.INTEGER, None),
    (".spec.big", Type.INTEGER, 123456789012),
    (".spec.when", Type.TIME, "2026-01-02 01:04:05.250000"),
    (".spec.foo", Type.TIME, None),
    (".metadata.creationTimestamp", Type.TIME, "2026-01-02 03:04:05.000000"),
    (r".metadata.annotations.foo\.bar/baz", Type.TEXT, "dotted"),
    (".metadata.annotations['foo.bar/baz']", Type.TEXT, "dotted"),
    (".metadata.annotations.it's", Type.TEXT, "apostrophe"),
    (".spec.list[0].x", Type.TEXT, "first"),
    (".spec.list[-1].x", Type.TEXT, "last"),
    (".spec.list[9].x", Type.TEXT, None),
    (".spec.list[-1:].x", Type.TEXT, "last"),
    (".spec.list[0:1].x", Type.TEXT, "first"),
    (".spec.list[-2:-1].x", Type.TEXT, "first"),
    (".spec.mixed[0:].x", Type.TEXT, "deep"),
    (".spec.empty[-1:]", Type.TEXT, None),
    (".spec.list[*].x", Type.TEXT, "first"),
    (".spec.names", Type.TEXT, '["a","b"]'),
    (".spec.names[*]", Type.TEXT, "a"),
    (".spec.names[1]", Type.TEXT, "b"),
    (".spec.empty", Type.TEXT, "[]"),
    (".spec.empty[*]", Type.TEXT, None),
    (".spec.numbers[*]", Type.INTEGER, 7),
    (".spec.numbers[0]", Type.TEXT, "7"),
    (".spec.map", Type.TEXT, '{"a":{"y":null,"z":[1,"é"]},"b":1}'),
    (".spec.mixed[*].x", Type.TEXT, "deep"),
    (".spec.foo[*].x", Type.TEXT, None),
    (".spec.matrix[*].row[*].n", Type.TEXT, "1"),
    (".spec.matrix[1].row[0].n", Type.TEXT, "3"),
    (".spec.matrix[-1].row[*].n", Type.TEXT, "3"),
    (".spec.matrix[*].row[?(@.ok==true)].n", Type.TEXT, "3"),
    ('.status.conditions[?(@.type=="Ready")].status', Type.TEXT, "True"),
    (".status.conditions[?(@.type == 'Ready')].status", Type.TEXT, "True"),
    ('.status.conditions[?( @.type=="Ready" )].at', Type.TIME, "2026-01-02 03:04:05.000000"),
    # The first that has the field, as the server leaves out what is missing.
    ('.status.conditions[?(@.type=="Synced")].status', Type.TEXT, "False"),
    ('.status.conditions[?(@.type!="Synced")].status', Type.TEXT, "True"),
    ('.status.conditions[?(@.type=="None")].status', Type.TEXT, None),
    (".status.conditions[?(@.n==2)].type", Type.TEXT, "Ready"),
    (".status.conditions[?(@.ok)].type", Type.TEXT, "Ready"),
    ('.spec.numbers[?(@=="8")]', Type.TEXT, "8"),
    ('.spec.foo[?(@.x=="y")]', Type.TEXT, None),
]


async def test_what_a_path_leads_to(place: Place) -> None:
    renderer = RENDERERS[place.dialect]()
    asked = []
    for number, (text, kind, _) in enumerate(CASES):
        found = expression(text, kind)
        assert found is not None, text
        assert found.type is kind
        asked.append(f"{renderer.render(found)} AS c{number}")
    async with opened(place) as mirror:
        document = json.dumps(OBJECT, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        await mirror.open(item("shop/web", 1, document=document))
        await show(mirror.database)  # and the functions that expressions call
        [row] = rows(place, f"SELECT {', '.join(asked)} FROM syncd_objects o")
    found_values = {(text, kind): row[f"c{number}"] for number, (text, kind, _) in enumerate(CASES)}
    assert found_values == {(text, kind): value for text, kind, value in CASES}


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "$",
        "..spec",
        ".spec..foo",
        ".spec.list[0:2].x",
        ".spec.list[1:].x",
        ".spec.list[-1:0].x",
        ".spec.list[0,1].x",
        ".spec['a','b']",
        ".spec.list[?(@.n>1)].x",
        '.spec.list[?(@.x=="a" && @.y=="b")].x',
        '.spec.list[?(@.x=="a"',
        '.metadata.annotations.with"quote',
        ".spec.a b",
        "{.spec.foo}",
        ".spec.foo}{.spec.bar",
    ],
)
def test_what_cannot_be_said(text: str) -> None:
    assert expression(text, Type.TEXT) is None
