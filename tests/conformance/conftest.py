"""The site of a scenario, and what `make test-cluster` says at its end: what could not be run, and why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.conformance.promises import promises
from tests.conformance.site import GOING, LEFT, Site, finish, target
from tests.conftest import Begin, DatabasePlace


@pytest.fixture(scope="session")
def cleaned() -> Iterator[None]:
    """At the end of a run against a real cluster nothing of it is left there."""
    yield
    aim = target()
    if aim is not None and GOING:
        asyncio.run(finish(aim))
    assert not LEFT, f"left behind: {LEFT}"


@pytest.fixture
def begin() -> Begin:
    """A daemon makes the views where it finds none, a third of a second each time."""
    return Begin.VIEWS


@pytest.fixture
async def site(
    place: DatabasePlace, tmp_path: Path, cleaned: None, request: pytest.FixtureRequest
) -> AsyncIterator[Site]:
    """An empty mirror and a cluster: an empty simulated one, or part of a real one."""
    aim = target() if request.node.get_closest_marker("cluster") else None
    async with Site(place, tmp_path, aim) as made:
        yield made


@pytest.hookimpl
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """After a run against a real cluster: the scenarios that it did not show."""
    aim = target()
    if aim is None:
        return
    skipped = {
        report.nodeid.rpartition("::")[2].partition("[")[0]: str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    }
    terminalreporter.section("scenarios that were not run against this cluster")
    for promise in promises():
        why = promise.needs or skipped.get(promise.test, "")
        if why:
            terminalreporter.line(f"{promise.number}  {promise.text}\n    {why}")
