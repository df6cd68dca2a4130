"""Why a resource is mirrored or not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.core.errors import ConfigError
from syncd.core.explanation import Explained, Reason, explain
from syncd.core.ports import Discovery
from syncd.core.resource import Resource
from syncd.core.selection import Selection, select

BOTH = frozenset({"get", "list", "watch"})


def resource(group: str, name: str, *, version: str = "v1", namespaced: bool = True) -> Resource:
    return Resource(group, version, name, name.title(), namespaced, BOTH, name.rstrip("s"))


PODS = replace(resource("", "pods"), short_names=("po",), categories=("all",))
NODES = resource("", "nodes", namespaced=False)
EVENTS, NEW_EVENTS = resource("", "events"), resource("events.k8s.io", "events")
SCALERS = resource("autoscaling", "scalers", version="v2"), resource("autoscaling", "scalers")
STATUSES = replace(resource("", "statuses"), verbs=frozenset({"list"}))
REVIEWS = replace(resource("authorization.k8s.io", "reviews"), verbs=frozenset({"create"}))
METRICS = resource("metrics.k8s.io", "pods")
DISCOVERY = Discovery((PODS, NODES, EVENTS, NEW_EVENTS, *SCALERS, STATUSES, REVIEWS, METRICS))


def found(*entries: str | Selection, exclude: tuple[str, ...] = ()) -> dict[str, Explained]:
    selections = [Selection(entry) if isinstance(entry, str) else entry for entry in entries]
    return {each.resource.qualified: each for each in explain("c", selections, exclude, DISCOVERY)}


def test_everything_that_can_be_listed_or_watched_is_explained_once() -> None:
    explained = found("*")
    assert list(explained) == [
        *("pods", "nodes", "events", "statuses"),
        *("events.events.k8s.io", "scalers.autoscaling", "pods.metrics.k8s.io"),
    ]
    assert explained["scalers.autoscaling"].versions == ("v2", "v1")


@pytest.mark.parametrize(
    ("entries", "exclude", "name", "reason", "detail"),
    [
        (["*"], (), "pods", Reason.SELECTED, ""),
        (["*"], ("po",), "pods", Reason.EXCLUDED, 'excluded by "po"'),
        (["pods"], ("all",), "pods", Reason.EXCLUDED, 'excluded by "all"'),
        (["*"], ("events",), "events.events.k8s.io", Reason.EXCLUDED, "another door to events"),
        (["*"], (), "events.events.k8s.io", Reason.OTHER_DOOR, "events, which is mirrored"),
        (["*"], (), "statuses", Reason.UNWATCHABLE, "no watch"),
        (["statuses"], (), "statuses", Reason.SELECTED, ""),
        (["*"], (), "pods.metrics.k8s.io", Reason.SAMPLES, "no wildcard takes them"),
        (["nodes"], (), "pods", Reason.UNSELECTED, "no entry"),
        ([Selection("nodes", ("a",))], (), "nodes", Reason.CLUSTER_SCOPED, "names namespaces"),
        (["*", Selection("nodes", ("a",))], (), "nodes", Reason.CLUSTER_SCOPED, '"nodes" names namespaces'),
        (["events.events.k8s.io"], ("events",), "events.events.k8s.io", Reason.SELECTED, ""),
    ],
)
def test_each_reason_is_said(
    entries: list[str | Selection], exclude: tuple[str, ...], name: str, reason: Reason, detail: str
) -> None:
    explained = found(*entries, exclude=exclude)[name]
    assert explained.reason is reason
    assert detail in explained.detail
    assert bool(explained.streams) == (reason is Reason.SELECTED)


def test_a_mirrored_version_is_the_one_that_is_shown() -> None:
    explained = found("scalers.v1.autoscaling")["scalers.autoscaling"]
    assert explained.resource == SCALERS[1]


def test_a_door_that_stays_shut_for_a_stale_group_is_said() -> None:
    old = resource("extensions", "deployments")
    discovery = Discovery((PODS, old), frozenset({("apps", "v1")}))
    (_, explained) = explain("c", [Selection("*")], [], discovery)
    assert explained.reason is Reason.OTHER_DOOR
    assert "deployments.apps, whose group does not answer" in explained.detail


_NAMES = st.sampled_from(
    ["*", "*.", "all", "po", "events", "nodes", "scalers.v1.autoscaling", "*.autoscaling"]
)
_ENTRIES = st.lists(
    st.builds(Selection, _NAMES, st.lists(st.sampled_from("ab"), max_size=1).map(tuple)), max_size=4
)


@given(_ENTRIES, st.lists(_NAMES, max_size=2))
def test_it_says_what_select_does(entries: list[Selection], exclude: list[str]) -> None:
    try:
        streams = [each.stream for each in select("c", entries, exclude, DISCOVERY).streams]
    except ConfigError:
        return
    explained = explain("c", entries, exclude, DISCOVERY)
    assert {chosen.stream for each in explained for chosen in each.streams} == set(streams)
    assert all(bool(each.detail) != bool(each.streams) for each in explained)
