"""Custom resources' tables: names, columns, and what is kept of a view that is there."""

from __future__ import annotations

from typing import Any

import pytest

from syncd.views.steampipe.custom import FIXED, Present, custom_resource, custom_tables, retired, snake

ABOUT = "Custom resources of {}, under the names of Steampipe's Kubernetes plugin."


def definition(
    plural: str = "widgets",
    group: str = "example.com",
    *,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    singular: str | None = None,
) -> dict[str, Any]:
    """A CustomResourceDefinition whose second version is the last that is served."""
    properties = {"spec": {"properties": spec or {}}, "status": {"properties": status or {}}}
    names = {"plural": plural, "kind": (singular or plural.removesuffix("s")).title()}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": names | ({"singular": singular} if singular else {}),
            "versions": [
                {"name": "v1", "served": True, "schema": {"openAPIV3Schema": {"properties": {}}}},
                {"name": "v2", "served": True, "schema": {"openAPIV3Schema": {"properties": properties}}},
                {"name": "v3", "served": False},
            ],
        },
    }


def made(
    *documents: dict[str, Any], present: dict[str, Present] | None = None
) -> dict[str, list[tuple[str, str]]]:
    """The columns besides the fixed ones, by table."""
    return {
        table.name: [(column.name, column.type) for column in table.columns if column not in FIXED]
        for table, _ in custom_tables(documents, present or {})
    }


@pytest.mark.parametrize(
    ("key", "column"),
    [
        ("dnsNames", "dns_names"),
        ("isCA", "is_ca"),
        ("clusterIPs", "cluster_i_ps"),
        ("IPFamily", "ip_family"),
        ("HTTPServer", "http_server"),
        ("sha256sum", "sha_256_sum"),
        ("x509", "x_509"),
        ("S3Bucket", "s_3_bucket"),
        ("already_snake", "already_snake"),
        ("with-dash.and dot", "with_dash_and_dot"),
        ("v1beta1", "v_1_beta_1"),
        ("ABC", "abc"),
    ],
)
def test_a_property_is_a_column_in_snake_case(key: str, column: str) -> None:
    assert snake(key) == column


def test_a_definition_has_two_tables_and_the_types_of_its_last_served_version() -> None:
    kinds = {
        "a": {"type": "string"},
        "b": {"type": "integer"},
        "c": {"type": "boolean"},
        "d": {"type": "number"},
        "e": {"type": "array"},
        "f": {"x-kubernetes-int-or-string": True},
        "g": {"type": "double"},
        "h": {"type": "dateTime"},
    }
    columns = [
        ("a", "text"),
        ("b", "bigint"),
        ("c", "boolean"),
        ("d", "jsonb"),
        ("e", "jsonb"),
        ("f", "jsonb"),
        ("g", "double precision"),
        ("h", "timestamptz"),
    ]
    found = made(definition("wi-dgets", "my-group.example.com", spec=kinds))
    assert found == {"kubernetes_wi-dget": columns, "kubernetes_wi-dget_my_group_example_com": columns}


def test_a_name_that_is_taken_says_where_it_is_from() -> None:
    text = {"type": "string"}
    found = made(
        definition(
            spec={"name": text, "specName": text, "size": text}, status={"size": text, "uid": text, "x": text}
        )
    )
    assert [name for name, _ in found["kubernetes_widget"]] == [
        "spec_name",
        "size",
        "spec_spec_name",
        "status_size",
        "status_uid",
        "x",
    ]


def test_the_short_name_goes_to_built_ins_then_to_the_first() -> None:
    found = made(definition("pods", "z.io"), definition("widgets", "b.io"), definition("widgets", "a.io"))
    assert set(found) == {
        "kubernetes_pod_z_io",
        "kubernetes_widget",
        "kubernetes_widget_a_io",
        "kubernetes_widget_b_io",
    }
    holders = {table.name: name for table, name in custom_tables([definition("widgets", "b.io")], {})}
    assert holders["kubernetes_widget"] == "widgets.b.io"


def test_who_has_the_short_name_keeps_it_while_it_is_defined() -> None:
    present = {"kubernetes_widget": Present(ABOUT.format("widgets.b.io"), (("name", "text"),))}
    both = [definition("widgets", "a.io"), definition("widgets", "b.io")]
    holders = {table.name: name for table, name in custom_tables(both, present)}
    assert holders["kubernetes_widget"] == "widgets.b.io"
    holders = {table.name: name for table, name in custom_tables(both[:1], present)}
    assert holders["kubernetes_widget"] == "widgets.a.io"


def test_several_clusters_have_one_table_and_two_types_are_text() -> None:
    found = made(
        definition(spec={"size": {"type": "integer"}, "old": {"type": "string"}}),
        definition(spec={"size": {"type": "string"}, "new": {"type": "boolean"}}),
    )
    assert found["kubernetes_widget"] == [("new", "boolean"), ("old", "text"), ("size", "text")]


def test_what_one_clusters_spec_has_is_not_lost_to_anothers_status() -> None:
    text = {"type": "string"}
    before = definition(status={"size": text})
    after = definition(spec={"size": text}, status={"size": text})
    for clusters in ((before, after), (after, before)):
        table, _ = next(custom_tables(clusters, {}))
        paths = {column.name: column.path for column in table.columns if column not in FIXED}
        assert paths == {"size": ("spec", "size"), "status_size": ("status", "size")}


def test_a_view_keeps_its_columns_in_order_and_type() -> None:
    fixed = tuple(
        (column.name, column.type.replace("timestamptz", "timestamp with time zone")) for column in FIXED
    )
    present = {
        "kubernetes_widget": Present(
            ABOUT.format("widgets.example.com"), (*fixed, ("size", "bigint"), ("gone", "text"))
        )
    }
    spec = {"size": {"type": "string"}, "add": {"type": "object"}}
    [table] = [
        table
        for table, _ in custom_tables([definition(spec=spec)], present)
        if table.name == "kubernetes_widget"
    ]
    assert table.columns[: len(FIXED)] == FIXED
    size, gone, add = table.columns[len(FIXED) :]
    assert (size.name, size.type, size.path) == ("size", "bigint", ("spec", "size"))
    assert (gone.name, gone.type, gone.path) == ("gone", "text", ())
    assert (add.name, add.type) == ("add", "jsonb")


def test_a_view_of_a_definition_that_is_gone_is_retired_and_no_other() -> None:
    present = {
        "kubernetes_widget": Present(ABOUT.format("widgets.example.com"), ()),
        "kubernetes_gone": Present(ABOUT.format("gones.example.com"), ()),
        "kubernetes_pod": Present("Pod, under the names of Steampipe's Kubernetes plugin.", ()),
        "mine": Present("", ()),
    }
    assert retired([definition()], present) == ["kubernetes_gone"]


def test_a_long_name_ends_in_its_hash() -> None:
    [_, long] = made(definition("w" * 50 + "s", "group.example.com"))
    assert len(long) == 63
    assert long.startswith("kubernetes_www")
    [_, other] = made(definition("w" * 50 + "s", "group.example.org"))
    assert long != other


def test_a_definition_that_is_odd_is_left_out() -> None:
    assert made({"metadata": {"name": "x"}}, {"metadata": {"name": "y"}, "spec": {"group": "g"}}) == {}
    assert made(definition() | {"spec": {**definition()["spec"], "versions": []}})["kubernetes_widget"] == []
    odd = {"a": True, "b": {"type": ["string", "null"]}, "c": None}
    assert made(definition(spec=odd))["kubernetes_widget"] == [("a", "jsonb"), ("b", "jsonb"), ("c", "jsonb")]


def test_a_hostile_name_stays_a_name() -> None:
    rendered = custom_resource("public", [definition(spec={"it's\"": {"type": "string"}})], {})
    assert "ARRAY['spec', 'it''s\"'] AS \"it's\"\"\"" in rendered["kubernetes_widget"][0]
