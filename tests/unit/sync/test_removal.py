"""A type is gone only where everything that could deny it answered."""

from __future__ import annotations

from collections import deque

import pytest

from syncd.core.errors import ConnectionLost, Forbidden, SyncdError
from syncd.core.ports import Discovery
from syncd.core.resource import Resource
from syncd.sync.removal import type_removed
from tests.fakes.cluster import DEFINITIONS_PATH, SERVICES_PATH, FakeCluster
from tests.fakes.value import PODS, WIDGETS, compact, page

GONE = ("example.com", "widgets")
HERE = Discovery((PODS,))


async def test_gone() -> None:
    assert await type_removed(FakeCluster(PODS), GONE, HERE)


async def test_its_definition_is_there() -> None:
    cluster = FakeCluster(PODS, WIDGETS)
    cluster.definitions.put("widgets.example.com")
    assert not await type_removed(cluster, GONE, HERE)


async def test_another_definition_is_there() -> None:
    cluster = FakeCluster(PODS)
    cluster.definitions.put("gadgets.example.com")
    assert await type_removed(cluster, GONE, HERE)


@pytest.mark.parametrize("service", [{"name": "x"}, {}])
async def test_an_aggregated_api_of_its_group_is_there(service: object) -> None:
    cluster = FakeCluster(PODS)
    body = {"metadata": {"name": "v1.example.com"}, "spec": {"group": "example.com", "service": service}}
    cluster.gets[SERVICES_PATH] = deque([page(5, [body])])
    assert not await type_removed(cluster, GONE, HERE)


def local(group: str, *versions: str, managed: str = "onstart") -> FakeCluster:
    """A cluster whose own server answers for these versions of a group."""
    cluster = FakeCluster(PODS)
    labels = {"kube-aggregator.kubernetes.io/automanaged": managed}
    services = [
        {
            "metadata": {"name": f"{version}.{group}", "labels": labels},
            "spec": {"group": group, "version": version},
        }
        for version in versions
    ]
    cluster.gets[SERVICES_PATH] = deque([page(5, services)])
    return cluster


@pytest.mark.parametrize("discovered", [[], ["v1"]])
async def test_discovery_lacks_a_version_that_is_to_be_served(discovered: list[str]) -> None:
    """As long as a server starts: its discovery says Current of what it has so far, and of no more."""
    cluster = local("apps", "v1", "v2")
    sets = [Resource("apps", version, "daemonsets", "DaemonSet", True) for version in discovered]
    assert not await type_removed(cluster, ("apps", "deployments"), Discovery((PODS, *sets)))


async def test_a_custom_type_is_gone_with_its_definition() -> None:
    """Another one of its group, whose names clash, is not served; its APIService is there all the same."""
    assert await type_removed(local("example.com", "v1", managed="true"), GONE, HERE)


async def test_its_group_goes_on_without_it() -> None:
    cluster = local("policy", "v1")
    budgets = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
    assert await type_removed(cluster, ("policy", "podsecuritypolicies"), Discovery((PODS, budgets)))


async def test_a_page_without_items_that_has_a_successor() -> None:
    cluster = FakeCluster(PODS)
    cluster.gets[DEFINITIONS_PATH] = deque([page(5, [], "more")])
    assert not await type_removed(cluster, GONE, HERE)


@pytest.mark.parametrize(
    "discovery", [Discovery((), complete=False), Discovery((), stale=frozenset({("example.com", "v1")}))]
)
async def test_discovery_cannot_tell(discovery: Discovery) -> None:
    assert not await type_removed(FakeCluster(), GONE, discovery)


@pytest.mark.parametrize("path", [DEFINITIONS_PATH, SERVICES_PATH])
@pytest.mark.parametrize(
    "answer",
    [Forbidden(403), ConnectionLost("cut"), b"", b"{}", compact({"kind": "Status"}), page("", [])],
    ids=lambda answer: type(answer).__name__,
)
async def test_an_answer_that_is_none(path: str, answer: bytes | SyncdError) -> None:
    cluster = FakeCluster(PODS)
    cluster.gets[path] = deque([answer])
    assert not await type_removed(cluster, GONE, HERE)
