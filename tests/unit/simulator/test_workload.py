"""The workload: seeded, of a realistic size, and churning."""

from __future__ import annotations

import json

from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload


def filled(seed: int = 0) -> tuple[Simulator, Workload]:
    simulator = Simulator(seed=seed)
    workload = Workload(simulator, seed=seed)
    workload.fill(100)
    return simulator, workload


def test_pods_are_of_a_realistic_size_and_complete() -> None:
    simulator, _ = filled()
    records = simulator.collection("", "pods").current.records
    sizes = [len(record.body) for record in records.values()]
    assert 7_500 < sum(sizes) / len(sizes) < 9_500
    for record in records.values():
        metadata = json.loads(record.body)["metadata"]
        assert metadata["resourceVersion"] == str(record.version)
        assert (metadata["uid"], metadata["namespace"], metadata["name"]) == (
            record.uid,
            record.namespace,
            record.name,
        )
        assert len(metadata["managedFields"]) == 2
    assert len({record.version for record in records.values()}) == 100


def test_the_same_seed_makes_the_same_cluster() -> None:
    one, two, other = (sorted(filled(seed)[0].objects("", "pods")) for seed in (1, 1, 2))
    assert one == two != other


async def test_churn_changes_creates_deletes_and_creates_again() -> None:
    simulator, workload = filled()
    before = {
        key: uid for key, (uid, _, _) in simulator.state_at("", "pods", simulator.resource_version).items()
    }
    for _ in range(1_000):
        workload.change()
    events = simulator.collection("", "pods").log.events
    assert any(event.before and event.after for event in events)
    deleted = {event.key for event in events if event.after is None}
    again = {event.key for event in events if event.before is None} & deleted
    assert deleted
    assert again
    now = simulator.state_at("", "pods", simulator.resource_version)
    assert any(before[key] != now[key][0] for key in again & set(before) & set(now))
    assert workload.changes == 1_000
    await workload.churn(1_000, seconds=0.2)
    assert workload.changes > 1_000
