"""Views of custom types as data: names, columns and what kubectl prints, from definitions of every shape."""

from __future__ import annotations

from typing import Any

import pytest

from syncd.core.definition import ClusterType, SelectedType, essence
from syncd.views.catalogue import everything
from syncd.views.custom import Names, custom, named, rendered, snake, view
from syncd.views.kinds import CATALOGUE
from syncd.views.rendering import kubectl
from syncd.views.view import IDENTITY, TRAILING

Columns = dict[str, str]
FIXED = {column.name for column in (*IDENTITY, *TRAILING)}
NAMES = Names("widgets_example_com", "widgets")


def version(
    name: str = "v1",
    *,
    printed: list[tuple[str, str, str]] | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    storage: bool = True,
) -> dict[str, Any]:
    columns = [{"name": name, "type": kind, "jsonPath": path} for name, kind, path in printed or ()]
    properties = {"spec": {"properties": spec or {}}, "status": {"properties": status or {}}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": {"properties": properties}},
    }


def cluster(*versions: dict[str, Any], name: str = "prod", mirrored: str = "v1") -> ClusterType:
    spec = {"group": "example.com", "scope": "Namespaced", "names": {}, "versions": list(versions)}
    return ClusterType(name, mirrored, ("u", 1), essence("widgets.example.com", spec))


def widgets(*clusters: ClusterType) -> SelectedType:
    return SelectedType("example.com", "widgets", "Widget", clusters)


def bare(resource: str, group: str) -> SelectedType:
    return SelectedType(group, resource, "Kind", (ClusterType("prod", "v1"),))


def own(type_: SelectedType, **origins: str) -> Columns:
    """Types of the columns besides the fixed ones."""
    columns = view(type_, origins).columns
    names = [column.name for column in columns]
    assert len(set(names)) == len(names)
    assert names[:4] == ["cluster", "namespace", "name", "uid"]
    assert names[-4:] == ["labels", "annotations", "object", "stream_id"]
    return {column.name: column.type.value for column in columns if column.name not in FIXED}


def names(*types: SelectedType, **shown: str) -> dict[str, str]:
    """What each view shows."""
    found = named(types, (), shown)
    return {name: subject for subject, own in found.items() for name in own}


# --- columns --------------------------------------------------------------------------------------


def test_types_are_those_of_the_schema() -> None:
    spec = {
        "text": {"type": "string"},
        "whole": {"type": "integer", "format": "int64"},
        "share": {"type": "number"},
        "isOn": {"type": "boolean"},
        "notAfter": {"type": "string", "format": "date-time"},
        "port": {"x-kubernetes-int-or-string": True},
        "dnsNames": {"type": "array"},
        "ref": {"type": "object"},
        "any": {},
    }
    assert own(widgets(cluster(version(spec=spec)))) == {
        "any": "jsonb",
        "dns_names": "jsonb",
        "is_on": "boolean",
        "not_after": "timestamptz",
        "port": "text",
        "ref": "jsonb",
        "share": "double precision",
        "text": "text",
        "whole": "bigint",
    }


def test_printer_columns_come_first_with_their_types() -> None:
    printed = [
        ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
        ("Up To Date", "integer", ".status.upToDate"),
        ("LOAD", "number", ".status.load"),
        ("On", "boolean", ".spec.on"),
        ("Age", "date", ".metadata.creationTimestamp"),
        ("Odd", "color", ".spec.color"),
    ]
    found = own(widgets(cluster(version(printed=printed, spec={"first": {"type": "string"}}))))
    assert list(found.items()) == [
        ("ready", "text"),
        ("up_to_date", "bigint"),
        ("load", "double precision"),
        ("on", "boolean"),
        ("age", "timestamptz"),
        ("odd", "text"),
        ("first", "text"),
    ]


def test_a_column_that_would_repeat_another_gets_a_prefix() -> None:
    printed = [("Name", "string", ".spec.name"), ("Phase", "string", ".status.phase")]
    same = {"phase": {"type": "string"}, "labels": {"type": "object"}, "size": {"type": "integer"}}
    assert list(own(widgets(cluster(version(printed=printed, spec=same, status=same))))) == [
        "printed_name",
        "phase",
        "spec_labels",
        "spec_phase",
        "size",
        "status_labels",
        "status_phase",
        "status_size",
    ]


def test_a_column_goes_on_to_mean_what_it_meant() -> None:
    before = {"size": "spec.size", "phase": "status.phase"}
    printed = [("Size", "integer", ".status.size"), ("Phase", "string", ".status.phase")]
    properties = {"size": {"type": "integer"}}
    after = widgets(cluster(version(printed=printed, spec=properties, status={"phase": {"type": "string"}})))
    assert list(own(after)) == ["size", "phase", "spec_size", "status_phase"]
    assert list(own(after, **before)) == ["printed_size", "phase", "size", "status_phase"]
    moved = widgets(cluster(version(printed=[("Phase", "string", ".spec.phase")])))
    assert list(own(moved, **before)) == ["phase"]


def test_columns_are_the_union_and_a_conflict_is_text() -> None:
    one = cluster(version(printed=[("At", "date", ".spec.a")], spec={"size": {"type": "integer"}}), name="a")
    two = cluster(
        version(
            printed=[("At", "date", ".spec.b"), ("More", "string", ".spec.more")],
            spec={"size": {"type": "string"}, "extra": {"type": "boolean"}},
        ),
        name="b",
    )
    type_ = widgets(one, two)
    assert own(type_) == {
        "at": "timestamptz",
        "more": "text",
        "size": "text",
        "extra": "boolean",
    }
    said = {column.name: column.description for column in view(type_).columns}
    assert said["size"].endswith("Text, because clusters have different types.")
    [long, _] = rendered(type_, NAMES, "sqlite")
    at = next(column.value for column in long.columns if column.name == "at")
    assert "CASE WHEN (o.cluster IN ('b'))" in at


def test_the_version_is_the_one_that_is_mirrored() -> None:
    old = version("v1beta1", spec={"old": {"type": "string"}}, storage=False)
    stored = version("v1", spec={"stored": {"type": "string"}})
    new = version("v2", spec={"new": {"type": "string"}}, storage=False)
    assert list(own(widgets(cluster(old, stored, new, mirrored="v1beta1")))) == ["old"]
    assert list(own(widgets(cluster(old, stored, new, mirrored="v2")))) == ["new"]
    assert list(own(widgets(cluster(old, stored, new, mirrored="v3")))) == ["stored"]
    assert own(widgets(ClusterType("prod", "v1"))) == {}
    assert own(widgets(ClusterType("prod", "v1", ("u", 1), {}))) == {}


def test_what_cannot_be_said_is_null_and_told() -> None:
    printed = [("Odd", "string", "..x"), ("Quoted", "string", ".spec['a\"b']")]
    type_ = widgets(cluster(version(printed=printed, spec={'a"b': {"type": "string"}})))
    [long, _] = rendered(type_, NAMES, "sqlite")
    told = [column for column in long.columns if column.name in ("odd", "quoted", "a_b")]
    assert [column.value for column in told] == ["NULL"] * 3
    assert all("cannot be said in SQL" in column.description for column in told)


def test_where_a_column_comes_from_is_told() -> None:
    printed = [("Ready", "string", '.status.conditions[?(@.type=="Ready")].status')]
    type_ = widgets(cluster(version(printed=printed, spec={"dnsNames": {"type": "array"}})))
    [long, short] = rendered(type_, NAMES, "postgresql")
    origins = {column.name: column.origin for column in long.columns}
    assert origins["ready"] == 'status.conditions[?(@.type=="Ready")].status'
    assert origins["dns_names"] == "spec.dnsNames"
    assert {column.name: column.origin for column in short.columns} == origins


@pytest.mark.parametrize(
    ("key", "column"),
    [
        ("dnsNames", "dns_names"),
        ("isCA", "is_ca"),
        ("podCIDRs", "pod_cidrs"),
        ("clusterIPs", "cluster_ips"),
        ("URLs", "urls"),
        ("IPFamily", "ip_family"),
        ("HTTPServer", "http_server"),
        ("sha256sum", "sha256sum"),
        ("x509", "x509"),
        ("S3Bucket", "s3_bucket"),
        ("Up To-Date", "up_to_date"),
        ("CPU %", "cpu"),
        ("already_snake", "already_snake"),
    ],
)
def test_names_are_snake_case(key: str, column: str) -> None:
    assert snake(key) == column


def test_odd_names_become_names() -> None:
    long = "x" * 70
    printed = [("%", "string", ".spec.a"), ("1st", "string", ".spec.b"), ("é", "string", ".spec.c")]
    found = list(own(widgets(cluster(version(printed=printed, spec={long: {}, "x" * 71: {}})))))
    assert found[:3] == ["printed", "printed_1st", "printed_printed"]
    assert [len(name) for name in found[3:]] == [63, 63]
    assert all(name.startswith("x" * 54 + "_") for name in found[3:])


# --- names ----------------------------------------------------------------------------------------


def test_the_short_name_and_the_one_with_the_group() -> None:
    assert names(bare("certificates", "cert-manager.io")) == {
        "certificates_cert_manager_io": "cert-manager.io/certificates",
        "certificates": "cert-manager.io/certificates",
    }


def test_built_in_names_win() -> None:
    taken = {relation.name for relation in everything("sqlite").views}
    types = [bare("pods", "metrics.k8s.io"), bare("containers", "x.io"), bare("services", "knative.dev")]
    assert named(types, taken, {"pods": "/pods"}) == {
        "metrics.k8s.io/pods": Names("pods_metrics_k8s_io"),
        "x.io/containers": Names("containers_x_io"),
        "knative.dev/services": Names("services_knative_dev"),
    }


def test_who_has_a_name_keeps_it() -> None:
    both = (bare("widgets", "a.io"), bare("widgets", "b.io"))
    assert names(*both)["widgets"] == "a.io/widgets"
    assert names(*both, widgets="b.io/widgets")["widgets"] == "b.io/widgets"
    # What shows a type that is gone has the name until it has gone itself.
    assert "widgets" not in names(*both, widgets="c.io/widgets")


def test_two_types_whose_names_would_be_one() -> None:
    found = names(bare("a-b", "c.io"), bare("a", "b.c.io"))
    hashed = next(name for name in found if name.startswith("a_b_c_io_"))
    assert found == {
        "a_b_c_io": "b.c.io/a",
        "a": "b.c.io/a",
        hashed: "c.io/a-b",
        "a_b": "c.io/a-b",
    }
    assert names(bare("a-b", "c.io"), bare("a", "b.c.io"), **dict(found)) == found
    assert len(hashed) == len("a_b_c_io_") + 8


def test_names_past_the_bound_end_with_a_hash() -> None:
    found = names(bare("w" * 40, "g" * 30 + ".io"))
    assert [len(name) for name in found] == [63, 40]
    assert next(iter(found))[:55] == "w" * 40 + "_" + "g" * 13 + "_"


def test_what_the_catalogue_knows_is_not_custom() -> None:
    types = [bare(each.resource, group) for each in CATALOGUE for group in each.groups]
    assert custom([*types, bare("widgets", "a.io")]) == [bare("widgets", "a.io")]


# --- what kubectl prints --------------------------------------------------------------------------


def headings(type_: SelectedType) -> list[str]:
    return [cell.heading for cell in view(type_).cells]


def test_kubectl_prints_printer_columns_else_the_age() -> None:
    printed = [("Ready", "string", ".status.ready"), ("Age", "date", ".metadata.creationTimestamp")]
    assert headings(widgets(cluster(version(printed=printed)))) == ["Namespace", "Name", "Ready", "Age"]
    assert headings(widgets(cluster(version()))) == ["Namespace", "Name", "Age"]
    assert 'AS "Ready"' in kubectl(view(widgets(cluster(version(printed=printed)))), "sqlite", "widgets")


def test_what_has_no_namespace_prints_none() -> None:
    spec = {"group": "example.com", "scope": "Cluster", "names": {}, "versions": [version()]}
    type_ = widgets(ClusterType("prod", "v1", ("u", 1), essence("widgets.example.com", spec)))
    assert headings(type_) == ["Name", "Age"]
