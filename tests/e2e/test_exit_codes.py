"""What the commands say by their exit codes: 0 done, 1 could not, 2 usage or configuration, 3 findings."""

from __future__ import annotations

import pytest

from tests.conftest import DatabasePlace
from tests.e2e.world import CONFIGMAPS, World


@pytest.fixture
def place(sqlite_place: DatabasePlace) -> DatabasePlace:
    """What is shown here is the same on every database."""
    return sqlite_place


async def test_usage_and_configuration_are_2(world: World) -> None:
    path = world.write_config("configmaps")
    for text, named in (
        ('{"clusters": [{"name": "c"}], "resorces": []}', "resources"),
        ("resources: [pods", "line"),
    ):
        path.write_text(text)
        code, output = await world.syncd("sync")
        assert code == 2, output
        assert named in output
        assert "Traceback" not in output
    for arguments in (("sync", "--no-such-option"), ("sync", "-c", "/no/such/file")):
        code, output = await world.syncd(*arguments)
        assert code == 2, output
        assert "Traceback" not in output


async def test_a_kubeconfig_that_cannot_be_used_is_2(world: World) -> None:
    world.write_config("configmaps", clusters=[{"name": "c", "kubeconfig": "/no/such/kubeconfig"}])
    code, output = await world.syncd("sync")
    assert code == 2, output
    assert "/no/such/kubeconfig" in output


async def test_two_entries_that_mean_the_same_rows_are_2(world: World) -> None:
    world.write_config("deployments", {"name": "deploy", "label_selector": "a=b"})
    code, output = await world.syncd("run")
    assert code == 2, output
    assert "deploy" in output


async def test_findings_are_3_and_what_cannot_be_done_is_1(world: World) -> None:
    world.workload.configmaps(5)
    world.write_config("configmaps", "no-such-things")
    code, output = await world.syncd("sync")
    assert code == 3, output
    assert "no-such-things" in output
    assert await world.differences(*CONFIGMAPS) == []
    world.write_config("configmaps")
    code, output = await world.syncd("status")
    assert code == 3, output  # nobody keeps it level
    code, output = await world.syncd("reconcile", "no-such-things")
    assert code == 2, output
    code, output = await world.syncd("migrate")
    assert code == 0, output
    code, output = await world.syncd("sync", SYNCD_DATABASE_URL="postgresql://nobody@127.0.0.1:9/none")
    assert code == 1, output
    assert "Traceback" not in output
    world.simulator.access.grant_all("test")
    world.simulator.access.grant("anyone", resources=("pods", "namespaces"))
    code, output = await world.syncd("sync")
    assert code == 3, output
    assert "parked" in output
