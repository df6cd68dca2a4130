"""What a reconcile is asked for, names as the configuration takes them; and when it is asked."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from syncd.app.reconciling import Run, Wanted, meant, reconcile
from syncd.core.resource import Resource

WATCHED = frozenset({"list", "watch"})
MIRRORED = [
    Resource("apps", "v1", "deployments", "Deployment", True, WATCHED, "deployment", ("deploy",), ("all",)),
    Resource("", "v1", "pods", "Pod", True, WATCHED, "pod", ("po",), ("all",)),
    Resource("", "v1", "secrets", "Secret", True, WATCHED, "secret"),
    Resource("serving.knative.dev", "v1", "services", "Service", True, WATCHED, "service", ("ksvc",)),
    Resource("", "v1", "componentstatuses", "ComponentStatus", False, frozenset({"list"})),
]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("pods", "pods"),
        ("Pod", "pods"),
        ("po", "pods"),
        ("deployments.apps", "deployments"),
        ("deploy.v1.apps", "deployments"),
        ("services", "services"),  # the core group's are not mirrored
        ("ksvc", "services"),
        ("componentstatuses", "componentstatuses"),
        ("all", "pods deployments"),
        ("*.apps", "deployments"),
        ("*.", "pods secrets"),
        ("*", "pods secrets deployments services"),
        ("nodes", ""),
        ("deployments.extensions", ""),
    ],
)
def test_a_name_means_what_it_means_in_the_configuration(name: str, found: str) -> None:
    assert {plural for _, plural in meant(MIRRORED, [name])[name]} == set(found.split())


class Begun:
    """A daemon that has just begun: its cluster's streams are not known."""

    def __init__(self) -> None:
        settings = SimpleNamespace(name="prod")
        self.cluster = SimpleNamespace(
            settings=settings, planned=asyncio.Event(), error="", reflectors=[], environment=None
        )
        self.supervisors = [self.cluster]


def begin(daemon: Any, *names: str) -> asyncio.Task[Run]:
    return asyncio.create_task(reconcile(daemon, Wanted(names), lambda run: None))


async def test_a_reconcile_waits_until_it_is_known_what_there_is() -> None:
    """Else a daemon that has just begun would say that all is well, of nothing."""
    daemon = Begun()
    run = begin(daemon)
    await asyncio.sleep(0.01)
    assert not run.done()
    daemon.cluster.planned.set()
    assert (await run).failed == []


async def test_a_cluster_that_was_never_reached_is_reported() -> None:
    daemon = Begun()
    run = begin(daemon, "pods")
    await asyncio.sleep(0.01)
    daemon.cluster.error = "refused"
    done = await run
    assert (done.failed, done.unknown, done.streams, done.drift) == (["prod: refused"], [], 0, 0)
