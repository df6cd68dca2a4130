"""The store: its order, its past, compaction and rollback."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncd.simulator.refusal import Refusal
from syncd.simulator.simulator import Simulator
from syncd.simulator.state import VersionExpired

PODS = ("", "configmaps")
Versions = dict[str, tuple[str, int]]

writes = st.lists(
    st.tuples(st.sampled_from(["write", "delete"]), st.sampled_from(["a/x", "a/y", "a-b/x", "b/x", "b/z"])),
    max_size=40,
)


def put(simulator: Simulator, key: str, value: object = 0) -> dict[str, Any]:
    namespace, name = key.split("/")
    obj = {"metadata": {"name": name, "namespace": namespace}, "data": {"value": str(value)}}
    if key in simulator.collection(*PODS).current.records:
        return simulator.update(*PODS, obj)
    return simulator.create(*PODS, obj)


def present(simulator: Simulator) -> Versions:
    records = simulator.collection(*PODS).current.records
    return {key: (record.uid, record.version) for key, record in records.items()}


def replay(simulator: Simulator, steps: list[tuple[str, str]]) -> dict[int, Versions]:
    """Performs the steps; the state after each, by version."""
    seen = {simulator.resource_version: present(simulator)}
    for number, (action, key) in enumerate(steps):
        if action == "write":
            put(simulator, key, number)
        elif key in simulator.collection(*PODS).current.records:
            simulator.delete(*PODS, *key.split("/"))
        seen[simulator.resource_version] = present(simulator)
    return seen


def oracle(simulator: Simulator, version: int) -> Versions:
    found = simulator.state_at(*PODS, version)
    assert all(obj["metadata"]["resourceVersion"] == str(rv) for _, rv, obj in found.values())
    return {key: (uid, rv) for key, (uid, rv, _) in found.items()}


@settings(max_examples=40, deadline=None)
@given(writes)
def test_every_past_state_can_be_had_again(steps: list[tuple[str, str]]) -> None:
    simulator = Simulator()
    for version, state in replay(simulator, steps).items():
        assert oracle(simulator, version) == state
        snapshot = simulator.collection(*PODS).at(version)
        assert {key: (r.uid, r.version) for key, r in snapshot.records.items()} == state
        assert snapshot.keys == sorted(state, key=str.encode)


@settings(max_examples=40, deadline=None)
@given(writes, writes, st.integers(0, 40))
def test_a_rollback_takes_contents_and_counter_back(
    before: list[tuple[str, str]], after: list[tuple[str, str]], choice: int
) -> None:
    simulator = Simulator()
    seen = replay(simulator, before)
    version = list(seen)[choice % len(seen)]
    simulator.rollback(version)
    assert simulator.resource_version == version
    assert present(simulator) == seen[version]
    for later, state in replay(simulator, after).items():
        assert oracle(simulator, later) == state
    assert oracle(simulator, min(seen)) == seen[min(seen)]


def test_keys_are_in_the_byte_order_of_namespace_and_name() -> None:
    simulator = Simulator()
    for key in ("ord/a", "ord-b/a", "ord/b", "ord0/a"):
        put(simulator, key)
    collection = simulator.collection(*PODS).current
    assert collection.keys == ["ord-b/a", "ord/a", "ord/b", "ord0/a"]
    assert collection.range("ord") == (1, 3)


def test_compaction_forgets_the_past_but_the_oracle_does_not() -> None:
    simulator = Simulator()
    put(simulator, "a/x")
    old = simulator.resource_version
    expected = oracle(simulator, old)
    put(simulator, "a/x", 1)
    simulator.compact()
    with pytest.raises(VersionExpired):
        simulator.collection(*PODS).at(old)
    assert oracle(simulator, old) == expected


def test_history_is_bounded() -> None:
    simulator = Simulator(history=10)
    for number in range(50):
        put(simulator, "a/x", number)
    collection = simulator.collection(*PODS)
    assert 10 <= len(collection.log.events) <= 11
    assert collection.floor == collection.log.events[0].version - 1


def test_several_deletions_share_a_version() -> None:
    simulator = Simulator()
    for key in ("a/x", "a/y", "b/x"):
        put(simulator, key)
    version = simulator.delete_many(*PODS, ["a/x", "a/y"])
    assert version == simulator.resource_version
    events = simulator.collection(*PODS).log.events[-2:]
    assert [(event.version, event.key) for event in events] == [(version, "a/x"), (version, "a/y")]
    assert list(oracle(simulator, version)) == ["b/x"]
    assert list(oracle(simulator, version - 1)) == ["a/x", "a/y", "b/x"]


def test_a_write_that_changes_nothing_is_none() -> None:
    simulator = Simulator()
    put(simulator, "a/x", 1)
    version = simulator.resource_version
    put(simulator, "a/x", 1)
    assert simulator.resource_version == version


def test_a_masked_rollback_ends_past_the_old_version() -> None:
    simulator = Simulator()
    put(simulator, "a/x", 1)
    back = simulator.resource_version
    put(simulator, "a/x", 2)
    put(simulator, "a/y", 2)
    ahead = simulator.resource_version + 10
    simulator.rollback(back, masked_past=ahead)
    assert simulator.resource_version > ahead
    assert list(present(simulator)) == ["a/x"]
    assert simulator.objects(*PODS)["a/x"]["data"] == {"value": "1"}


def test_the_future_is_refused() -> None:
    simulator = Simulator()
    ahead = simulator.resource_version + 1
    with pytest.raises(ValueError):
        simulator.state_at(*PODS, ahead)
    with pytest.raises(ValueError):
        simulator.rollback(ahead)
    with pytest.raises(ValueError):
        simulator.advance(0)


def test_stale_writes_conflict() -> None:
    simulator = Simulator()
    first = put(simulator, "a/x", 1)
    put(simulator, "a/x", 2)
    with pytest.raises(Refusal) as stale:
        simulator.update(*PODS, first)
    assert stale.value.status == 409
    with pytest.raises(Refusal) as other:
        simulator.delete(*PODS, "a", "x", preconditions={"uid": "another"})
    assert other.value.status == 409


def test_the_same_seed_gives_the_same_uids() -> None:
    made = [put(Simulator(seed=seed), "a/x")["metadata"]["uid"] for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]


def test_another_cluster_uid_moves_no_version() -> None:
    simulator = Simulator()
    version = simulator.resource_version
    simulator.set_cluster_uid("11111111-2222-4333-a444-555555555555")
    namespace = simulator.objects("", "namespaces")["kube-system"]
    assert namespace["metadata"]["uid"] == "11111111-2222-4333-a444-555555555555"
    assert simulator.resource_version == version


def test_a_namespace_takes_its_contents_along() -> None:
    simulator = Simulator()
    simulator.create("", "namespaces", {"metadata": {"name": "a"}})
    put(simulator, "a/x")
    put(simulator, "a-b/x")
    simulator.delete("", "namespaces", "", "a")
    assert list(present(simulator)) == ["a-b/x"]


def test_generation_follows_the_spec_alone() -> None:
    simulator = Simulator()
    made = simulator.create("apps", "deployments", {"metadata": {"name": "d"}, "spec": {"replicas": 1}})
    assert made["metadata"]["generation"] == 1
    scaled = simulator.patch("apps", "deployments", "default", "d", {"spec": {"replicas": 2}})
    assert scaled["metadata"]["generation"] == 2
    reported = simulator.patch("apps", "deployments", "default", "d", {"status": {"replicas": 2}})
    assert reported["metadata"]["generation"] == 2
