"""The daemon under a service manager: a real process, and a small harness in systemd's place."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tests.conftest import DatabasePlace
from tests.e2e.world import CONFIGMAPS, DEADLINE, PODS, Process, World, names, until

WATCHDOG = 2.0  # seconds, as WatchdogSec= would have it


class Manager:
    """What systemd does for a unit of Type=notify: it hears messages, and kills what falls silent.

    Attributes:
        messages: each one's variables, in order of arrival.
    """

    def __init__(self, bound: socket.socket, name: str) -> None:
        self.messages: list[dict[str, str]] = []
        self.name = name
        self._bound = bound
        self._heard_at = time.monotonic()

    async def start(self, world: World) -> Process:
        """`syncd run`, as the unit does it."""
        return await world.spawn(NOTIFY_SOCKET=self.name, WATCHDOG_USEC=str(round(WATCHDOG * 1e6)))

    @property
    def silence(self) -> float:
        """Seconds since the last ping."""
        return time.monotonic() - self._heard_at

    def said(self, variable: str) -> list[str]:
        return [message[variable] for message in self.messages if variable in message]

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            text = (await loop.sock_recv(self._bound, 65536)).decode()
            message = dict(line.split("=", 1) for line in text.splitlines())
            self.messages.append(message)
            if "WATCHDOG" in message:
                self._heard_at = time.monotonic()


@contextmanager
def bound_socket(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(path))
        bound.setblocking(False)
        yield bound


@asynccontextmanager
async def managing(directory: Path) -> AsyncIterator[Manager]:
    with bound_socket(directory / "notify") as bound:
        manager = Manager(bound, str(directory / "notify"))
        task = asyncio.create_task(manager.listen())
        try:
            yield manager
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def world(sqlite_place: DatabasePlace, tmp_path: Path) -> AsyncIterator[World]:
    async with World(sqlite_place, tmp_path) as made:
        made.workload.fill(60)
        made.write_config(*names([PODS, CONFIGMAPS]))
        yield made


@pytest.fixture
async def manager(world: World) -> AsyncIterator[Manager]:
    async with managing(world.directory) as made:
        yield made


async def test_ready_comes_after_the_first_snapshots_and_stopping_before_the_end(
    world: World, manager: Manager
) -> None:
    held = world.simulator.faults.pause_page(resource="pods")
    process = await manager.start(world)
    async with asyncio.timeout(DEADLINE):
        await held.reached.wait()
    await until(lambda: len(manager.said("EXTEND_TIMEOUT_USEC")) >= 3, "it asks for more time")
    assert (await process.get("/readyz")).status_code == 503
    assert not manager.said("READY")
    assert all(int(value) >= 5_000_000 for value in manager.said("EXTEND_TIMEOUT_USEC"))
    assert "waiting for c: pods: syncing" in manager.said("STATUS")[-1]

    held.release()
    await until(lambda: manager.said("READY"), "it is ready")
    # What READY promises: whoever starts after it finds the mirror complete.
    assert (await process.get("/readyz")).status_code == 200
    assert await world.differences(*PODS) == []
    assert await world.differences(*CONFIGMAPS) == []
    await until(lambda: manager.said("STATUS")[-1] == "streams: 2 live", "its state in a line")

    assert await process.stop() == 0
    await until(lambda: manager.said("STOPPING"), "it says that it stops")
    assert manager.said("READY") == ["1"]
    assert manager.messages[-1]["STOPPING"] == "1"


async def test_pings_come_at_half_the_watchdogs_time(world: World, manager: Manager) -> None:
    process = await manager.start(world)
    await until(lambda: manager.said("READY"), "it is ready")
    seen, began = len(manager.said("WATCHDOG")), time.monotonic()
    await until(lambda: len(manager.said("WATCHDOG")) >= seen + 5, "five pings")
    # Five pings are four intervals apart, and far more than one: not one at each turn of the loop.
    assert time.monotonic() - began > WATCHDOG
    assert await process.stop() == 0


async def test_a_stuck_process_falls_silent_and_is_killed(world: World, manager: Manager) -> None:
    process = await manager.start(world)
    await until(lambda: manager.said("READY") and manager.said("WATCHDOG"), "it is ready and pings")
    process.send(signal.SIGSTOP)
    await until(lambda: manager.silence > WATCHDOG, "its pings cease")
    seen = len(manager.messages)
    await asyncio.sleep(WATCHDOG)
    assert len(manager.messages) == seen
    # systemd sends SIGABRT by default, and SIGKILL to what does not end by it.
    process.send(signal.SIGABRT)
    await process.kill()
    assert process.code in (-signal.SIGABRT, -signal.SIGKILL)
    assert not manager.said("STOPPING")

    # Restart=always: what was killed in the middle leaves nothing that hinders its successor.
    manager.messages.clear()
    successor = await manager.start(world)
    await until(lambda: manager.said("READY"), "its successor is ready")
    assert await world.differences(*PODS) == []
    assert await successor.stop() == 0


async def test_a_cluster_that_does_not_answer_keeps_nobody_waiting(world: World, manager: Manager) -> None:
    world.simulator.faults.answer(503, times=None)
    process = await manager.start(world)
    await until(lambda: manager.said("READY"), "it is ready, since waiting would help nobody")
    await until(lambda: "out of reach: c" in manager.said("STATUS")[-1], "it says which cluster")
    world.simulator.faults.clear()
    await until(lambda: manager.said("STATUS")[-1] == "streams: 2 live", "it says that all is well")
    assert await process.stop() == 0


async def test_a_database_that_is_away_at_the_start_is_waited_for(world: World, manager: Manager) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    world.write_config(*names([PODS]), database={"url": f"postgresql://syncd@127.0.0.1:{port}/nothing"})
    process = await manager.start(world)
    await until(lambda: len(manager.said("EXTEND_TIMEOUT_USEC")) >= 2, "it asks for more time, again")
    assert manager.said("STATUS")[-1].startswith("starting: no database yet: ")
    assert not manager.said("READY")
    assert await process.stop() == 0
