"""What must be allowed, with a cluster's discovery and without."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.core.access import SUPPORTING, Need, needs, single_name
from syncd.core.builtin import BUILT_IN
from syncd.core.offline import offline
from syncd.core.ports import Discovery
from syncd.core.selection import Selection, select
from syncd.simulator.simulator import Simulator

LIVE = Discovery(BUILT_IN)


def needed(*entries: Selection, exclude: tuple[str, ...] = ()) -> list[Need]:
    return needs(select("c", entries, exclude, LIVE).streams)


def test_each_stream_needs_list_and_watch_where_it_looks() -> None:
    one = Selection("cm", ("a", "b"), field_selector="metadata.name=x")
    pods, first, second, *rest = needed(Selection("po"), one)
    assert (pods.verbs, pods.group, pods.resource, pods.namespace, pods.name) == (
        ("list", "watch"),
        *("", "pods", "", ""),
    )
    assert [(each.resource, each.namespace, each.name) for each in (first, second)] == [
        ("configmaps", "a", "x"),
        ("configmaps", "b", "x"),
    ]
    assert tuple(rest) == SUPPORTING


def test_what_is_polled_needs_no_watch() -> None:
    assert needed(Selection("pods", poll=60.0))[0].verbs == ("list",)
    assert offline("c", [Selection("*.apps", poll=60.0)], []).needs[0].verbs == ("list",)


def test_what_is_mirrored_needs_no_second_permission() -> None:
    assert [each.resource for each in needed(Selection("crd"))] == [
        "customresourcedefinitions",
        "namespaces",
        "apiservices",
    ]
    # get is another verb than list
    assert Need(("get",), "", "namespaces", name="kube-system").name in [
        each.name for each in needed(Selection("ns"))
    ]


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("metadata.name=x", "x"),
        ("metadata.name==x", "x"),
        ("type!=Normal,metadata.name=x", "x"),
        ("metadata.name!=x", ""),
        ("metadata.namespace=x", ""),
        ("", ""),
    ],
)
def test_a_field_selector_may_leave_one_object(selector: str, name: str) -> None:
    assert single_name(selector) == name


def test_the_names_known_without_a_cluster_are_those_of_a_server() -> None:
    served = {(kind.group, kind.name): kind for kind in Simulator().kinds}
    for resource in BUILT_IN:
        kind = served[resource.group, resource.name]
        assert resource.namespaced is kind.namespaced
        assert (resource.singular, resource.kind) == (kind.singular, kind.kind.lower())
        assert resource.short_names == tuple(kind.short_names)


_NAMES = st.sampled_from(["po", "Deployment", "deployments.apps", "crd", "ing", "nodes", "cronjobs.v1.batch"])
_ENTRIES = st.lists(
    st.builds(Selection, _NAMES, st.lists(st.sampled_from("ab"), max_size=2).map(tuple)),
    max_size=4,
    unique_by=lambda entry: entry.name[:3].lower(),
)


@given(_ENTRIES, st.lists(st.sampled_from(["po", "*.apps", "nodes"]), max_size=2))
def test_plain_names_need_the_same_with_and_without_a_cluster(
    entries: list[Selection], exclude: list[str]
) -> None:
    said = offline("c", entries, exclude)
    assert said.unclear == []
    assert said.needs == needs(select("c", entries, exclude, LIVE).streams)


@pytest.mark.parametrize(
    ("entry", "exclude", "unclear"),
    [
        ("*", (), False),
        ("*", ("leases",), True),
        ("*.apps", ("leases", "*.batch", "widgets.example.com"), False),
        ("*.apps", ("deploy",), True),
        ("*.apps", ("*.apps",), True),
        ("*.example.com", ("widgets.example.com",), True),
        ("*.example.com", ("widgets.v1.example.com",), True),
        ("pods", ("gizmos",), True),
        ("all", (), True),
        ("wd", (), True),
        ("certificates.cert-manager", (), True),
        ("certificates.cert-manager.io", (), False),
    ],
)
def test_what_only_a_cluster_can_explain_is_named(
    entry: str, exclude: tuple[str, ...], *, unclear: bool
) -> None:
    said = offline("c", [Selection(entry)], exclude)
    assert bool(said.unclear) is unclear


def test_a_wildcard_without_a_cluster_covers_its_group() -> None:
    said = offline("c", [Selection("*.apps", ("a",)), Selection("*.")], [])
    assert [(each.group, each.resource, each.namespace) for each in said.needs[:2]] == [
        ("apps", "*", "a"),
        ("", "*", ""),
    ]
    everything = offline("c", [Selection("*"), Selection("pods")], []).needs
    assert [(each.group, each.resource) for each in everything] == [("*", "*"), ("", "namespaces")]


def test_a_version_in_a_name_is_left_out_of_the_rule() -> None:
    (need, *_) = offline("c", [Selection("certificates.v1beta1.cert-manager.io")], []).needs
    assert (need.group, need.resource) == ("cert-manager.io", "certificates")
