"""Redaction turned off and on again: what was planted in a Secret is found nowhere afterwards."""

from __future__ import annotations

import base64
from typing import Any

from tests.e2e.world import SECRETS, World, until

PLANTED = "pLaNtEd-0123456789-vAlUe"
ENCODED = base64.b64encode(PLANTED.encode()).decode()
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OPEN = {"name": "secrets", "redact": "none"}


def plant(world: World, name: str, more: str = "") -> None:
    metadata = {
        "namespace": "default",
        "name": name,
        "annotations": {LAST_APPLIED: f'{{"data":{{"key":"{ENCODED}"}}}}', "kept": "yes"},
    }
    data = {"key": ENCODED + more, "other": base64.b64encode((PLANTED + more).encode()).decode()}
    world.simulator.create(*SECRETS, {"metadata": metadata, "data": data, "type": "Opaque"})


def found(world: World) -> list[str]:
    """Where the planted value is: bytes of files, or tables."""
    return world.table.holding(PLANTED, ENCODED)


async def test_values_are_stored_nowhere(world: World) -> None:
    for number in range(30):
        plant(world, f"s-{number}")
    world.write_config("secrets", log={"format": "json", "level": "debug"})
    process = await world.spawn()
    await process.ready()
    plant(world, "later")
    world.simulator.delete(*SECRETS, "default", "s-1")
    world.simulator.patch(*SECRETS, "default", "s-2", {"data": {"more": ENCODED}})
    await world.level(SECRETS)
    table = "SELECT object FROM syncd_deleted_objects"
    await until(lambda: world.table.ask(table), "the deletion is committed")
    said = [(await process.get(path)).text for path in ("/metrics", "/status", "/readyz")]
    assert found(world) == []
    code, output = await world.syncd("status", "-o", "json")
    assert await process.stop() == 0
    assert found(world) == []
    for text in (*said, output, process.text):
        assert PLANTED not in text
        assert ENCODED not in text
    assert code == 0, output
    for row in world.table.rows(*SECRETS).values():
        assert set(row.document["data"].values()) == {"redacted"}
        assert row.document["metadata"]["annotations"] == {"kept": "yes"}


async def opened(world: World) -> None:
    """Mirrored with its values, changes and deletions included."""
    async with world.running(OPEN):
        assert found(world)
        world.simulator.delete(*SECRETS, "default", "s-0")
        world.simulator.patch(*SECRETS, "default", "s-1", {"data": {"key": ENCODED + "c2Vjb25k"}})
        await until(lambda: "default/s-0" in world.table.tombstones("secrets"), "the deletion is committed")
    stored: Any = world.table.rows(*SECRETS)["default/s-2"].document
    assert stored["data"]["key"].startswith(ENCODED)
    world.simulator.delete(*SECRETS, "default", "s-3")  # nobody sees it go
    world.simulator.compact()


async def test_taken_back_by_sync_and_by_a_process(world: World) -> None:
    for number in range(50):
        plant(world, f"s-{number}")
    await opened(world)
    world.write_config("secrets")
    code, output = await world.syncd("sync")
    assert code == 0, output
    assert found(world) == []
    assert ENCODED not in output
    await world.level(SECRETS)
    assert world.table.tombstones("secrets").keys() == {"default/s-0", "default/s-3"}


async def test_the_entry_is_removed_altogether(world: World) -> None:
    """No longer selected, and so no longer stored with its values: the tombstones hold none either."""
    for number in range(20):
        plant(world, f"s-{number}")
    await opened(world)
    async with world.running("configmaps"):
        await until(lambda: not world.table.rows(*SECRETS), "the rows leave")
        causes = {cause for cause, _, _ in world.table.tombstones("secrets").values()}
        assert "deselected" in causes
    assert found(world) == []
