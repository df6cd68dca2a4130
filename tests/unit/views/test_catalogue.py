"""The catalogue against what Kubernetes says of itself: its schemas, and the headings that kubectl prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path as File
from typing import Any

import kubernetes_validate
import pytest

from syncd.core.relation import relation_name
from syncd.views.expression import Key, Listing, Over, Path, Type
from syncd.views.kinds import CATALOGUE
from syncd.views.postgresql import FUNCTIONS
from syncd.views.rendering import relations
from syncd.views.view import View

DATA = File(__file__).parents[2] / "data"
SCHEMAS = File(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
VERSIONS = ("v1.37.0-local", "v1.36.0-local", "v1.28.0-local")  # what has gone since then is in the last
HEADINGS: dict[str, list[dict[str, Any]]] = json.loads((DATA / "kubectl_columns.json").read_text())
# How kubectl_columns.json names kinds that it does not name by their singular.
KINDS = {
    "Endpoints": "endpoint",
    "RoleBinding": "roleBindings",
    "ClusterRoleBinding": "clusterRoleBindings",
    "MutatingWebhookConfiguration": "mutatingWebhook",
    "ValidatingWebhookConfiguration": "validatingWebhook",
    "PriorityLevelConfiguration": "priorityLevel",
    "ResourceSlice": "nodeResourceSlice",
    "DeviceTaintRule": "deviceTaint",
    "CSINode": "csiNode",
    "CSIDriver": "csiDriver",
    "CSIStorageCapacity": "csiStorageCapacity",
    "ServiceCIDR": "serviceCIDR",
    "IPAddress": "ipAddress",
}
# Subresources and answers, which are no objects.
NOT_OBJECTS = {"status", "scale"}
# What printPod and others of that file print, but an extract of its columns does not have.
WITHOUT_HEADINGS = {
    "APIService",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
}


def ids(view: View) -> str:
    return view.long_name


def test_every_kind_that_kubectl_prints_has_a_view() -> None:
    named = {_heading_name(view) for view in CATALOGUE if view.kind not in WITHOUT_HEADINGS}
    assert named == set(HEADINGS) - NOT_OBJECTS


@pytest.mark.parametrize("view", CATALOGUE, ids=ids)
def test_the_headings_are_kubectls(view: View) -> None:
    if view.kind in WITHOUT_HEADINGS:
        return
    expected = [column["name"] for column in HEADINGS[_heading_name(view)]]
    found = [cell.heading for cell in view.cells if cell.heading != "Namespace"]
    # The extract lacks what CSIDriver's printer appends by a condition.
    assert found[: len(expected)] == expected
    assert found == expected or view.kind == "CSIDriver"


def _heading_name(view: View) -> str:
    return KINDS.get(view.kind) or view.kind[0].lower() + view.kind[1:]


def test_names_are_reserved_nowhere_and_columns_are_told_once() -> None:
    words = {
        word
        for database in ("postgresql", "sqlite", "mysql")
        for word in (DATA / "reserved" / f"{database}.txt").read_text(encoding="utf-8").lower().split()
    }
    for view in CATALOGUE:
        names = [column.name for column in view.columns]
        assert len(set(names)) == len(names), view.long_name
        assert names[:4] == ["cluster", "namespace", "name", "uid"]
        assert names[-4:] == ["labels", "annotations", "object", "stream_id"]
        assert not words & {view.short_name, view.long_name, *names}, view.long_name
        assert all(column.description.endswith((".", "…")) for column in view.columns), view.long_name


def test_every_view_has_both_its_names_once() -> None:
    for dialect in ("sqlite", "postgresql"):
        names = [relation.name for relation in relations(CATALOGUE, dialect).views]
        assert len(set(names)) == len(names)
        assert {"pods", "pods_core", "deployments", "deployments_apps", "events", "events_core"} <= set(names)


def test_a_long_name_is_cut_and_keeps_a_hash() -> None:
    long = relation_name("certificates" * 6, "cert-manager.io")
    assert relation_name("Certificates", "cert-manager.io") == "certificates_cert_manager_io"
    assert len(long) == 63
    assert long.startswith(("certificates" * 6)[:54] + "_")
    assert long != relation_name("certificates" * 6, "cert-manager.com")


# --- every path is in the schema ------------------------------------------------------------------


def test_every_path_is_in_a_schema_of_its_kind() -> None:
    for view in CATALOGUE:
        roots = _schemas(view)
        assert roots, f"no schema of {view.kind}"
        read = {path for member in view.members for path in _paths(member.value, ())}
        lost = [
            path for path in read if not any(_leads(root, definitions, path) for root, definitions in roots)
        ]
        assert lost == [], view.long_name


def _schemas(view: View) -> list[tuple[Any, dict[str, Any]]]:
    wanted = {(group, view.kind) for group in _groups(view)}
    return [
        (definition, definitions)
        for definitions in (_definitions(version) for version in VERSIONS)
        for definition in definitions.values()
        for about in definition.get("x-kubernetes-group-version-kind", ())
        if (about["group"], about["kind"]) in wanted
    ]


@cache
def _definitions(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / version / "_definitions.json").read_text())["$defs"]
    return found


def _groups(view: View) -> tuple[str, ...]:
    """An event's view reads both shapes."""
    return ("", "events.k8s.io") if view.resource == "events" else view.groups


def _paths(node: Any, items: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, ...]]:
    """Every path that an expression reads, from the root, `[]` being an item and `{}` an entry."""
    if isinstance(node, Path):
        yield _whole(node, items)
    elif isinstance(node, Over):
        inner = items
        for listing in node.lists:
            place = _whole(listing.path, inner)
            yield place
            inner = (*inner, (*place, "{}" if listing.entries else "[]"))
        for part in (node.value, node.where, node.order):
            yield from _paths(part, inner)
    elif isinstance(node, tuple):
        for part in node:
            yield from _paths(part, items)
    elif is_dataclass(node) and not isinstance(node, (Key, Listing)):
        for field in fields(node):
            yield from _paths(getattr(node, field.name), items)


def _whole(path: Path, items: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    base = () if path.root or not items else items[-1 - path.up]
    return (*base, *("[]" if isinstance(key, int) else key for key in path.keys))


def _leads(schema: Any, definitions: dict[str, Any], path: tuple[str, ...]) -> bool:
    for step in path:
        schema = _resolved(schema, definitions)
        properties = schema.get("properties", {})
        if step == "[]":
            schema = schema.get("items")
        elif step in properties:
            schema = properties[step]
        else:
            schema = schema.get("additionalProperties") if isinstance(schema, dict) else None
            schema = schema if isinstance(schema, dict) else None
        if schema is None:
            return False
    return True


def _resolved(schema: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema or ("oneOf" in schema and "properties" not in schema and "items" not in schema):
        if "$ref" in schema:
            schema = definitions[schema["$ref"].rpartition("/")[2]]
        else:
            [schema] = [one for one in schema["oneOf"] if one.get("type") != "null"]
    return dict(schema)


def test_a_path_that_is_in_no_schema_is_noticed() -> None:
    pods = CATALOGUE[0]
    for wrong in (("spec", "nodName"), ("spec", "containers", "name"), ("status", "podIPs", "[]", "port")):
        assert not any(_leads(root, definitions, wrong) for root, definitions in _schemas(pods))


def test_types_are_told_as_users_know_them() -> None:
    assert {column.type for view in CATALOGUE for column in view.columns} == set(Type)


def test_no_function_keeps_a_parallel_query_from_answering() -> None:
    # A block with EXCEPTION is a subtransaction, which PostgreSQL before 17 has in no parallel query.
    assert not [name for name, text in FUNCTIONS.items() if "EXCEPTION" in text and "PARALLEL SAFE" in text]
