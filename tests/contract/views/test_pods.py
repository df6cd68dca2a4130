"""Pods of every shape: the catalogue's expression, PostgreSQL's function and SQLite say the same of each."""

from __future__ import annotations

import random
from typing import Any

import pytest

from syncd.views.kinds.pod import PODS
from syncd.views.postgresql import PostgresqlRenderer
from tests.contract.mirror_case import Place
from tests.contract.views.case import Row, mirrored, rows

COMPUTED = (
    "ready_containers", "total_containers", "status", "restarts", "last_restart_at", "node", "phase",
    "cpu_requests", "memory_requests", "readiness_gates_true", "images",
)  # fmt: skip
TIMES = ("2026-01-02T03:04:05Z", "2026-01-03T00:00:00Z", "2025-12-31T23:59:59Z")
TRUTHS = ("True", "False", "Unknown")


def pod(seed: int) -> dict[str, Any]:
    """A pod as a seed makes it: what it holds is of the right types, in any combination."""
    rand = random.Random(seed)
    containers = [_container(rand, f"c{number}") for number in range(rand.randrange(4))]
    inits = [_container(rand, f"i{number}") for number in range(rand.choice((0, 0, 1, 2, 3)))]
    for one in inits:
        if rand.random() < 0.5:
            one["restartPolicy"] = rand.choice(("Always", "OnFailure"))
    metadata: dict[str, Any] = {"name": f"pod-{seed:04}", "namespace": "shop", "uid": f"u{seed}"}
    if rand.random() < 0.2:
        metadata["deletionTimestamp"] = TIMES[0]
    status: dict[str, Any] = {
        "phase": rand.choice(("Pending", "Running", "Succeeded", "Failed", "Unknown")),
        "conditions": [
            {"type": kind, "status": rand.choice(TRUTHS), "reason": rand.choice(("", "SchedulingGated"))}
            for kind in ("PodScheduled", "Initialized", "Ready", "gate/a")
            if rand.random() < 0.7
        ],
        "initContainerStatuses": [_status(rand, one["name"]) for one in inits if rand.random() < 0.9],
        "containerStatuses": [_status(rand, one["name"]) for one in containers if rand.random() < 0.9],
    }
    if rand.random() < 0.2:
        status["reason"] = rand.choice(("", "Evicted", "NodeLost", "Completed"))
    if rand.random() < 0.1:
        status = rand.choice(({}, {"phase": "Pending", "containerStatuses": None}))
    spec = {
        "nodeName": rand.choice(("", "node-1")),
        "containers": containers,
        "initContainers": inits,
        "readinessGates": [{"conditionType": "gate/a"}, {"conditionType": "gate/b"}][: rand.randrange(3)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _container(rand: random.Random, name: str) -> dict[str, Any]:
    asked = {"cpu": rand.choice(("100m", "1", "0.25")), "memory": rand.choice(("64Mi", "1G", "1e6"))}
    requests = {key: value for key, value in asked.items() if rand.random() < 0.6}
    return {"name": name, "image": f"image-{name}", "resources": {"requests": requests}}


def _status(rand: random.Random, name: str) -> dict[str, Any]:
    states: tuple[dict[str, Any], ...] = (
        {},
        {"running": {}},
        {"running": {"startedAt": TIMES[0]}},
        {"waiting": {}},
        {"waiting": {"reason": rand.choice(("PodInitializing", "CrashLoopBackOff", ""))}},
        {"terminated": {"exitCode": 0, "reason": "Completed"}},
        {"terminated": {"exitCode": rand.choice((0, 1, 137)), "reason": rand.choice(("", "Error"))}},
        {"terminated": {"exitCode": 2, "signal": rand.choice((0, 9))}},
    )
    found = {
        "name": name,
        "ready": rand.random() < 0.5,
        "restartCount": rand.randrange(4),
        "state": rand.choice(states),
        "lastState": {"terminated": {"exitCode": 1, "finishedAt": rand.choice(TIMES)}}
        if rand.random() < 0.5
        else {},
    }
    return {**found, **({"started": rand.random() < 0.5} if rand.random() < 0.7 else {})}


@pytest.mark.postgres
async def test_pods_of_every_shape(sqlite_place: Place, postgres_place: Place) -> None:
    pods = [(PODS, pod(seed)) for seed in range(400)]
    chosen = ", ".join(COMPUTED)
    renderer = PostgresqlRenderer({column.name: column.value for column in PODS.columns}, plain=True)
    values = {one.name: renderer.render(one.value) for one in PODS.columns if one.name in COMPUTED}
    spelt = ", ".join(f"{values[name]} AS {name}" for name in COMPUTED)
    async with mirrored(sqlite_place, pods), mirrored(postgres_place, pods):
        kept = rows(sqlite_place, f"SELECT name, {chosen} FROM pods ORDER BY name")
        stored = rows(postgres_place, f"SELECT name, {chosen} FROM pods ORDER BY name")
        said = rows(postgres_place, f"SELECT o.name, {spelt} FROM syncd_objects o ORDER BY o.name")
    assert len(kept) == len(pods)
    assert _differences(said, stored) == []
    assert _differences(kept, stored) == []
    assert len({row["status"] for row in kept}) > 20


def _differences(left: list[Row], right: list[Row]) -> list[tuple[Row, Row]]:
    return [(one, other) for one, other in zip(left, right, strict=True) if one != other][:3]


@pytest.mark.postgres
@pytest.mark.parametrize(
    "document",
    [
        {"status": "x"},
        {"status": {"containerStatuses": {}, "initContainerStatuses": "x", "conditions": 5}},
        {"status": {"containerStatuses": [{"restartCount": "many", "state": 5, "ready": "yes"}, 5, None]}},
        {
            "status": {
                "containerStatuses": [{"restartCount": 1e300, "state": {"terminated": {"exitCode": {}}}}]
            }
        },
        {"status": {"initContainerStatuses": [{"name": {}, "restartCount": -1e300}]}, "spec": []},
        {"spec": {"initContainers": {"a": 1}}, "status": {"initContainerStatuses": [{"state": {}}]}},
    ],
)
async def test_what_is_stored_of_a_pod_refuses_none(postgres_place: Place, document: dict[str, Any]) -> None:
    """An error would send the row to quarantine."""
    metadata = {"name": "odd", "namespace": "shop", "uid": "u"}
    odd = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **document}
    async with mirrored(postgres_place, [(PODS, odd)]):
        assert len(rows(postgres_place, "SELECT status, restarts, node, phase FROM pods")) == 1
        assert rows(postgres_place, "SELECT error FROM syncd_quarantine") == []
