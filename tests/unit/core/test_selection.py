"""What entries mean against a cluster's discovery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.core.errors import ConfigError
from syncd.core.ports import Discovery
from syncd.core.resource import Resource
from syncd.core.selection import (
    ONE_STORAGE,
    POLL_SECONDS,
    ProblemKind,
    Selected,
    Selection,
    intersect,
    select,
)

BOTH = frozenset({"get", "list", "watch"})


def resource(
    group: str,
    version: str,
    name: str,
    kind: str,
    *short_names: str,
    namespaced: bool = True,
    verbs: frozenset[str] = BOTH,
) -> Resource:
    return Resource(group, version, name, kind, namespaced, verbs, kind.lower(), short_names)


PODS = resource("", "v1", "pods", "Pod", "po")
EVENTS = resource("", "v1", "events", "Event", "ev")
NODES = resource("", "v1", "nodes", "Node", "no", namespaced=False)
STATUSES = resource("", "v1", "componentstatuses", "ComponentStatus", "cs", verbs=frozenset({"get", "list"}))
BINDINGS = resource("", "v1", "bindings", "Binding", verbs=frozenset({"create"}))
DEPLOYMENTS = resource("apps", "v1", "deployments", "Deployment", "deploy")
NEW_EVENTS = resource("events.k8s.io", "v1", "events", "Event", "ev")
METRICS = resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
CERTIFICATES = resource("cert-manager.io", "v1", "certificates", "Certificate", "cert", "certs")
OLD_CERTIFICATES = resource("cert-manager.io", "v1alpha2", "certificates", "Certificate", "cert", "certs")
ISSUERS = resource("cert-manager.io", "v1alpha2", "issuers", "Issuer")
SERVED = (
    DEPLOYMENTS,
    NEW_EVENTS,
    METRICS,
    CERTIFICATES,
    OLD_CERTIFICATES,
    ISSUERS,
    PODS,
    EVENTS,
    NODES,
    STATUSES,
    BINDINGS,
)
DISCOVERY = Discovery(SERVED)


def chosen(
    *entries: str | Selection, exclude: Sequence[str] = (), discovery: Discovery = DISCOVERY
) -> Selected:
    selections = [Selection(entry) if isinstance(entry, str) else entry for entry in entries]
    return select("prod", selections, exclude, discovery)


def resources(selected: Selected) -> list[Resource]:
    return [each.stream.resource for each in selected.streams]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("pods", PODS),
        ("pod", PODS),
        ("Pod", PODS),
        ("PODS", PODS),
        ("po", PODS),
        ("pods.", PODS),
        ("pods.v1.", PODS),
        ("pods.v1", PODS),
        ("events", EVENTS),
        ("ev", EVENTS),
        ("events.events.k8s.io", NEW_EVENTS),
        ("events.v1.events.k8s.io", NEW_EVENTS),
        ("deploy", DEPLOYMENTS),
        ("deployments.apps", DEPLOYMENTS),
        ("Deployment.v1.apps", DEPLOYMENTS),
        ("cert", CERTIFICATES),
        ("certificates.cert-manager.io", CERTIFICATES),
        ("certificates.cert-manager", CERTIFICATES),
        ("certificates.v1alpha2.cert-manager.io", OLD_CERTIFICATES),
        ("issuers", ISSUERS),
    ],
)
def test_a_name_means_what_kubectl_takes_it_for(name: str, meant: Resource) -> None:
    selected = chosen(name)
    assert resources(selected) == [meant]
    assert selected.problems == []


def test_an_entry_gives_one_stream_a_namespace_with_its_selectors() -> None:
    entry = Selection("pods", ("a", "b", "a"), label_selector="x=y", field_selector="spec.nodeName=n")
    selected = chosen(entry)
    assert [each.stream.namespace for each in selected.streams] == ["a", "b"]
    assert all(each.entry is entry for each in selected.streams)
    stream = selected.streams[0].stream
    assert stream.identity == ("prod", "", "pods", "a", "x=y", "spec.nodeName=n")


def test_a_group_wildcard_takes_one_version_of_each_watchable_resource() -> None:
    assert resources(chosen("*.cert-manager.io")) == [CERTIFICATES, ISSUERS]
    assert resources(chosen("*.")) == [PODS, EVENTS, NODES]


def test_the_wildcard_takes_everything_once() -> None:
    selected = chosen("*")
    assert resources(selected) == [PODS, EVENTS, NODES, DEPLOYMENTS, CERTIFICATES, ISSUERS]
    assert selected.problems == []


def test_a_namespaced_wildcard_takes_namespaced_resources() -> None:
    selected = chosen(Selection("*.", ("a",)))
    assert [(each.stream.resource, each.stream.namespace) for each in selected.streams] == [
        (PODS, "a"),
        (EVENTS, "a"),
    ]
    assert selected.problems == []


def test_a_wildcard_yields_to_what_is_more_particular() -> None:
    wide, group, named = Selection("*"), Selection("*.apps", page_size=7), Selection("pods", ("a",))
    entries = {each.stream.resource.name: each.entry for each in chosen(wide, group, named).streams}
    assert entries["pods"] is named
    assert entries["deployments"] is group
    assert entries["nodes"] is wide
    assert len(chosen(wide, group, named).streams) == 6


@pytest.mark.parametrize("particular", ["events.events.k8s.io", "*.events.k8s.io"])
def test_the_wildcard_leaves_a_storage_to_the_door_that_is_asked_for(particular: str) -> None:
    events = [each for each in resources(chosen("*", particular)) if each.name == "events"]
    assert events == [NEW_EVENTS]


def test_both_doors_of_a_storage_may_be_asked_for() -> None:
    assert resources(chosen("events", "events.events.k8s.io")) == [EVENTS, NEW_EVENTS]


def test_an_exclusion_wins() -> None:
    assert PODS not in resources(chosen("*", exclude=["po"]))
    assert resources(chosen("pods", "nodes", exclude=["pods"])) == [NODES]
    assert resources(chosen("*", exclude=["*.cert-manager.io", "*."])) == [DEPLOYMENTS]


def test_an_excluded_storage_does_not_come_back_through_its_other_door() -> None:
    assert [each for each in resources(chosen("*", exclude=["events"])) if each.name == "events"] == []
    assert resources(chosen("events.events.k8s.io", exclude=["events"])) == [NEW_EVENTS]


def test_an_exclusion_that_excludes_nothing_is_said() -> None:
    selected = chosen("pods", exclude=["podz"])
    assert [problem.kind for problem in selected.problems] == [ProblemKind.UNUSED]
    assert "pods" in selected.problems[0].message


def test_an_unknown_name_is_said_with_the_nearest_ones() -> None:
    (problem,) = chosen("deploymets.apps").problems
    assert problem.kind is ProblemKind.UNKNOWN
    assert "deployments.apps" in problem.message
    (problem,) = chosen("*.cert-manger.io").problems
    assert "*.cert-manager.io" in problem.message


@pytest.mark.parametrize("name", ["componentstatuses", "pods.metrics.k8s.io"])
def test_what_cannot_be_watched_is_polled_where_it_is_named(name: str) -> None:
    listed = resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", verbs=frozenset({"list"}))
    discovery = Discovery(tuple(listed if each is METRICS else each for each in SERVED))
    selected = chosen(name, discovery=discovery)
    assert selected.problems == []
    assert [each.poll for each in selected.streams] == [POLL_SECONDS]
    (own,) = chosen(Selection(name, poll=7.0), discovery=discovery).streams
    assert own.poll == 7.0
    assert chosen("*", "*.metrics.k8s.io", discovery=discovery).streams
    assert not any(each.poll for each in chosen("*", "*.metrics.k8s.io", discovery=discovery).streams)


def test_what_can_be_watched_is_polled_where_an_entry_asks_for_it() -> None:
    polled, watched = chosen(Selection("pods", poll=60.0), "nodes").streams
    assert (polled.poll, watched.poll) == (60.0, None)


def test_what_cannot_be_listed_is_said() -> None:
    (problem,) = chosen("bindings").problems
    assert problem.kind is ProblemKind.UNLISTABLE
    assert "no list" in problem.message


def test_namespaces_of_a_cluster_scoped_resource_are_said() -> None:
    selected = chosen(Selection("nodes", ("a",)))
    assert selected.streams == []
    assert [problem.kind for problem in selected.problems] == [ProblemKind.CLUSTER_SCOPED]


IN_ALL = Discovery(
    tuple(
        replace(each, categories=("all",)) if each in (PODS, BINDINGS, METRICS, DEPLOYMENTS) else each
        for each in SERVED
    )
)


@pytest.mark.parametrize("name", ["all", "ALL"])
def test_a_category_is_all_that_can_be_mirrored_of_it(name: str) -> None:
    selected = chosen(name, discovery=IN_ALL)
    assert [each.qualified for each in resources(selected)] == ["pods", "deployments.apps"]
    assert selected.problems == []


def test_a_category_ranks_as_a_group() -> None:
    wide, category, named = Selection("*"), Selection("all", page_size=7), Selection("po", ("a",))
    streams = chosen(wide, category, named, discovery=IN_ALL).streams
    entries = {each.stream.resource.name: each.entry for each in streams}
    assert entries["pods"] is named
    assert entries["deployments"] is category
    assert entries["nodes"] is wide
    with pytest.raises(ConfigError, match=r'"all" and "\*.apps" both select deployments.apps'):
        chosen("all", "*.apps", discovery=IN_ALL)


def test_a_category_can_be_excluded_and_yields_to_exclusions() -> None:
    kept = {each.qualified for each in resources(chosen("*", exclude=["all"], discovery=IN_ALL))}
    assert "nodes" in kept
    assert kept.isdisjoint({"pods", "deployments.apps"})
    (only,) = resources(chosen("all", exclude=["deploy"], discovery=IN_ALL))
    assert only.name == "pods"


def test_a_resource_wins_over_a_category_of_its_name() -> None:
    hijack = replace(NODES, categories=("pods",))
    assert resources(chosen("pods", discovery=Discovery((hijack, PODS)))) == [PODS]


def test_a_category_takes_one_door_of_a_storage_and_leaves_the_other_to_who_asks() -> None:
    doors = tuple(replace(each, categories=("all",)) for each in (EVENTS, NEW_EVENTS, PODS))
    discovery = Discovery(doors)
    assert resources(chosen("all", discovery=discovery)) == [doors[0], doors[2]]
    assert resources(chosen("all", "events.events.k8s.io", discovery=discovery)) == [doors[2], doors[1]]
    assert resources(chosen("all", exclude=["ev"], discovery=discovery)) == [doors[2]]


def test_a_category_never_stores_the_values_of_secrets() -> None:
    secrets = replace(resource("", "v1", "secrets", "Secret"), categories=("all",))
    (only,) = chosen(Selection("all", redact=False), discovery=Discovery((secrets,))).streams
    assert only.entry.redact
    (named,) = chosen(Selection("secrets", redact=False), discovery=Discovery((secrets,))).streams
    assert not named.entry.redact


def test_a_stale_group_may_hold_more_of_a_category() -> None:
    selected = chosen("all", discovery=Discovery(IN_ALL.resources, frozenset({("batch", "v1")})))
    assert len(selected.streams) == 2
    assert [problem.kind for problem in selected.problems] == [ProblemKind.STALE]


STALE = Discovery((PODS,), frozenset({("apps", "v1")}))


@pytest.mark.parametrize(
    "name",
    ["deployments.apps", "deployments.v1.apps", "deployments.app", "deploy", "deployments", "*.apps", "*"],
)
def test_nothing_is_concluded_from_what_a_stale_discovery_lacks(name: str) -> None:
    assert ProblemKind.STALE in [problem.kind for problem in chosen(name, discovery=STALE).problems]


def test_a_current_group_is_judged_beside_a_stale_one() -> None:
    (problem,) = chosen("widgets.example.com", discovery=STALE).problems
    assert problem.kind is ProblemKind.UNKNOWN
    assert chosen("pods", discovery=STALE).problems == []


def test_the_wildcard_does_not_change_doors_while_the_better_one_is_hidden() -> None:
    served = (PODS, resource("extensions", "v1beta1", "deployments", "Deployment"))
    assert resources(chosen("*", discovery=Discovery(served))) == list(served)
    assert resources(chosen("*", discovery=Discovery(served, STALE.stale))) == [PODS]
    assert resources(chosen("*", discovery=Discovery(served, complete=False))) == [PODS]
    assert resources(chosen("*.extensions", discovery=Discovery(served, STALE.stale))) == [served[1]]


def test_nothing_is_concluded_from_an_incomplete_discovery() -> None:
    (problem,) = chosen("widgets.example.com", discovery=Discovery((PODS,), complete=False)).problems
    assert problem.kind is ProblemKind.STALE


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Selection("pods"), Selection("po")),
        (Selection("pods", ("a",)), Selection("pod", ("b", "a"), label_selector="x=y")),
        (Selection("pods"), Selection("Pod", ("a",))),
        (Selection("*"), Selection("*")),
        (Selection("*.apps", ("a",)), Selection("*.apps")),
        (Selection("certs"), Selection("certificates.v1alpha2.cert-manager.io")),
    ],
)
def test_two_entries_of_one_resource_that_intersect_are_refused(left: Selection, right: Selection) -> None:
    with pytest.raises(ConfigError) as error:
        chosen(left, right)
    assert left.name in str(error.value)
    assert right.name in str(error.value)


def test_two_entries_of_one_resource_may_share_it_out() -> None:
    selected = chosen(Selection("pods", ("a",)), Selection("po", ("b",)))
    assert [each.stream.namespace for each in selected.streams] == ["a", "b"]


def test_the_refusal_names_the_places() -> None:
    with pytest.raises(ConfigError, match=r'"pods" \(resources\[0\]\) and "po" \(resources\[4\]\)'):
        chosen(Selection("pods", where="resources[0]"), Selection("po", where="resources[4]"))


def test_the_doors_of_a_storage_are_spelt_as_resources_are() -> None:
    spelt = [name for family in ONE_STORAGE for name in family]
    assert len(spelt) == len(set(spelt))
    assert all(len(family) > 1 for family in ONE_STORAGE)


_NAMES = st.sampled_from(
    ["*", "*.", "*.apps", "*.cert-manager.io", "po", "events", "ev", "nodes", "x", "cert"]
)
_SPACES = st.lists(st.sampled_from("abc"), max_size=2).map(tuple)


@given(st.lists(st.builds(Selection, _NAMES, _SPACES), max_size=5), st.lists(_NAMES, max_size=2))
def test_no_object_is_ever_in_two_streams(entries: list[Selection], exclude: list[str]) -> None:
    try:
        streams = [each.stream for each in select("c", entries, exclude, DISCOVERY).streams]
    except ConfigError:
        return
    for i, left in enumerate(streams):
        for right in streams[i + 1 :]:
            if left.resource.qualified == right.resource.qualified:
                assert left.namespace
                assert right.namespace
                assert left.namespace != right.namespace


def test_namespaces_intersect() -> None:
    assert intersect((), ("a",))
    assert intersect(("a", "b"), ("b",))
    assert not intersect(("a",), ("b",))
