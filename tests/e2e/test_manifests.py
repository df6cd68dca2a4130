"""The manifests' account is enough for the manifests' configuration, and nothing in it is too much."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncd.core.resource import State
from syncd.simulator.simulator import Simulator
from tests.conftest import DatabasePlace
from tests.e2e.world import World, until

BASE = Path(__file__).parents[2] / "deploy/kubernetes/base"
RESOURCES: list[Any] = yaml.safe_load((BASE / "syncd.yaml").read_text())["resources"]
TOKEN = "anyone"  # of the simulator's kubeconfig


def rules() -> list[dict[str, Any]]:
    [role] = [
        one for one in yaml.safe_load_all((BASE / "rbac.yaml").read_text()) if one["kind"] == "ClusterRole"
    ]
    found = role["rules"]
    assert isinstance(found, list)
    return found


def grant(simulator: Simulator, *, without: tuple[str, str] = ("", "")) -> None:
    """What the role allows, less one (resource, verb); any account may ask for /version and discovery."""
    simulator.access.know(TOKEN, "syncd")
    for rule in rules():
        for resource in rule["resources"]:
            verbs = tuple(verb for verb in rule["verbs"] if (resource, verb) != without)
            if verbs:
                simulator.access.grant(
                    TOKEN, "syncd", verbs=verbs, groups=tuple(rule["apiGroups"]), resources=(resource,)
                )


@pytest.fixture
async def world(sqlite_place: DatabasePlace, tmp_path: Path) -> AsyncIterator[World]:
    async with World(sqlite_place, tmp_path) as made:
        made.workload.fill(40)
        yield made


def parked(world: World) -> list[str]:
    """The resources that are parked, once the table calls all others live."""
    states = {resource: state for (resource, _), state in world.table.states().items()}
    if len(states) < len(RESOURCES) or set(states.values()) - {State.LIVE, State.PARKED}:
        return []
    return [resource for resource, state in states.items() if state == State.PARKED]


async def test_the_role_is_enough(world: World) -> None:
    grant(world.simulator)
    async with world.running(*RESOURCES) as daemon:
        [supervisor] = daemon.supervisors
        assert len(supervisor.reflectors) == len(RESOURCES)
        assert supervisor.problems == ()
        refused = [entry for entry in world.simulator.requests if entry.status in (401, 403)]
        assert refused == []


@pytest.mark.parametrize(
    ("resource", "verb"),
    [
        (resource, verb)
        for rule in rules()
        if rule["apiGroups"] in ([""], ["apps"], ["batch"], ["networking.k8s.io"]) and "list" in rule["verbs"]
        for resource in rule["resources"][:1]
        for verb in rule["verbs"]
    ],
)
async def test_without_one_verb_one_stream_is_parked(world: World, resource: str, verb: str) -> None:
    grant(world.simulator, without=(resource, verb))
    async with world.running(*RESOURCES, live=False):
        # Where only the watch is refused it is live for a moment, between its list and that.
        await until(lambda: parked(world) == [resource], f"{resource} is parked, and nothing else")
