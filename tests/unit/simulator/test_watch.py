"""WATCH: what arrives, when it ends, and what a watch leaves behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from syncd.simulator.selectors import parse_labels
from syncd.simulator.server import SimulatorServer
from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload

Make = Callable[..., dict[str, Any]]
Until = Callable[[Callable[[], bool]], Awaitable[None]]
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


async def watch(client: httpx.AsyncClient, path: str, **query: Any) -> list[tuple[str, str, int]]:
    """(type, name, version) of every event until the end."""
    found = []
    params = {"watch": 1, "timeoutSeconds": 5, **query}
    async with client.stream("GET", path, params=params) as answer:
        body = b"".join([part async for part in answer.aiter_raw()])
    assert body == b"" or body.endswith(b"\n")
    for line in body.splitlines():
        event = json.loads(line)
        metadata = event["object"]["metadata"]
        found.append((event["type"], metadata.get("name", ""), int(metadata.get("resourceVersion", 0))))
    return found


async def test_events_after_a_version(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make
) -> None:
    configmap("before")
    since = simulator.resource_version
    configmap("a", "default")
    configmap("b", "other")
    simulator.patch("", "configmaps", "default", "a", {"data": {"x": "y"}})
    simulator.delete("", "configmaps", "default", "a")
    one = await watch(client, "/api/v1/namespaces/default/configmaps", resourceVersion=since)
    assert one == [("ADDED", "a", since + 1), ("MODIFIED", "a", since + 3), ("DELETED", "a", since + 4)]
    both = await watch(client, "/api/v1/configmaps", resourceVersion=since)
    assert [name for _, name, _ in both] == ["a", "b", "a", "a"]


@pytest.mark.parametrize("selector", ["", "tier in (web,db)", "hot=yes"])
async def test_a_list_and_its_watch_make_the_state_at_every_version(
    simulator: Simulator, client: httpx.AsyncClient, selector: str
) -> None:
    def chosen(obj: dict[str, Any]) -> bool:
        return parse_labels(selector).matches(obj["metadata"].get("labels") or {})

    workload = Workload(simulator)
    workload.pods(60)
    query = {"labelSelector": selector} if selector else {}
    listed = (await client.get("/api/v1/pods", params=query)).json()
    mirror = {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in listed["items"]}
    for _ in range(300):
        workload.change()
        record = workload.random.choice(list(simulator.collection("", "pods").current.records.values()))
        label = {"hot": workload.random.choice(("yes", None))}
        simulator.patch("", "pods", record.namespace, record.name, {"metadata": {"labels": label}})
    since = {"resourceVersion": listed["metadata"]["resourceVersion"]}
    params = {"watch": 1, "timeoutSeconds": 2, **since, **query}
    body = (await client.get("/api/v1/pods", params=params)).content
    for line in body.splitlines():
        event = json.loads(line)
        metadata = event["object"]["metadata"]
        if event["type"] == "DELETED":
            del mirror[metadata["uid"]]
        else:
            assert (event["type"] == "MODIFIED") == (metadata["uid"] in mirror)
            mirror[metadata["uid"]] = metadata["resourceVersion"]
        if int(metadata["resourceVersion"]) % 10 == 0:
            state = simulator.state_at("", "pods", metadata["resourceVersion"]).values()
            assert mirror == {uid: str(rv) for uid, rv, obj in state if chosen(obj)}
    state = simulator.state_at("", "pods", simulator.resource_version).values()
    assert mirror == {uid: str(rv) for uid, rv, obj in state if chosen(obj)}


async def test_field_selectors_choose_and_unchoose(simulator: Simulator, client: httpx.AsyncClient) -> None:
    since = simulator.resource_version
    simulator.create("", "pods", {"metadata": {"name": "p"}, "status": {"phase": "Pending"}})
    simulator.patch("", "pods", "default", "p", {"status": {"phase": "Running"}})
    simulator.patch("", "pods", "default", "p", {"status": {"phase": "Failed"}})
    found = await watch(client, "/api/v1/pods", resourceVersion=since, fieldSelector="status.phase=Running")
    assert found == [("ADDED", "p", since + 2), ("DELETED", "p", since + 3)]


async def test_a_watch_without_a_version_begins_with_the_state(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make
) -> None:
    configmap("b")
    configmap("a")
    now = simulator.resource_version
    queries: list[dict[str, Any]] = [{}, {"resourceVersion": 0}]
    for query in queries:
        found = await watch(client, "/api/v1/configmaps", allowWatchBookmarks="true", **query)
        assert found == [("ADDED", "a", now), ("ADDED", "b", now - 1), ("BOOKMARK", "", now)]
    assert await watch(client, "/api/v1/configmaps", resourceVersion=now) == []


async def test_a_watchlist_of_the_future_is_refused_in_the_stream(
    simulator: Simulator, client: httpx.AsyncClient
) -> None:
    query: dict[str, Any] = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "resourceVersion": 9999,
    }
    async with client.stream("GET", "/api/v1/configmaps", params={"watch": 1, **query}) as answer:
        event = json.loads(b"".join([part async for part in answer.aiter_raw()]))
    assert (event["type"], event["object"]["code"]) == ("ERROR", 504)
    assert event["object"]["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_bookmarks_come_at_the_interval_but_not_for_events(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make
) -> None:
    simulator.bookmark_interval = 2
    since = simulator.resource_version
    configmap("a")
    query: dict[str, Any] = {"resourceVersion": since, "allowWatchBookmarks": "true", "timeoutSeconds": 9}
    assert await watch(client, "/api/v1/events", **query) == []
    secrets = await watch(client, "/api/v1/secrets", **query)
    assert secrets == [("BOOKMARK", "", since + 1)] * 4  # at 2, 4, 6 and 7 seconds


async def test_a_bookmark_says_more_than_the_events_that_a_watch_begins_with(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make, until: Until
) -> None:
    """Recorded of 1.36: none for the version of those, one for that of an event which comes while it is open,
    or of another resource.
    """
    since = simulator.resource_version
    configmap("a")
    query: dict[str, Any] = {"resourceVersion": since, "allowWatchBookmarks": "true"}
    assert await watch(client, "/api/v1/configmaps", **query) == [("ADDED", "a", since + 1)]
    simulator.create("", "secrets", {"metadata": {"name": "s", "namespace": "default"}})
    events = await watch(client, "/api/v1/configmaps", **query)
    assert events == [("ADDED", "a", since + 1), ("BOOKMARK", "", since + 2)]
    simulator.bookmark_interval = 1
    params = {"watch": 1, **query, "resourceVersion": simulator.resource_version}
    async with client.stream("GET", "/api/v1/configmaps", params=params) as answer:
        await until(lambda: len(simulator.faults.watchers) == 1)
        configmap("b")
        lines = answer.aiter_lines()
        assert [json.loads(await anext(lines))["type"] for _ in range(2)] == ["ADDED", "BOOKMARK"]


async def test_metadata_alone(simulator: Simulator, client: httpx.AsyncClient, configmap: Make) -> None:
    since = simulator.resource_version
    configmap("a")
    query: dict[str, Any] = {
        "watch": 1,
        "timeoutSeconds": 5,
        "resourceVersion": since,
        "allowWatchBookmarks": "true",
    }
    headers = {"Accept": f"{PARTIAL},application/json"}
    async with client.stream("GET", "/api/v1/configmaps", params=query, headers=headers) as answer:
        lines = b"".join([part async for part in answer.aiter_raw()]).splitlines()
    for line in lines:
        assert json.loads(line)["object"]["kind"] == "PartialObjectMetadata"
    assert list(json.loads(lines[0])["object"]) == ["kind", "apiVersion", "metadata"]


async def test_a_client_that_leaves_is_forgotten(
    simulator: Simulator, client: httpx.AsyncClient, until: Until
) -> None:
    tasks = len(asyncio.all_tasks())
    query = {"watch": 1, "resourceVersion": simulator.resource_version}
    async with client.stream("GET", "/api/v1/configmaps", params=query):
        await until(lambda: len(simulator.faults.watchers) == 1)
    await until(lambda: not simulator.faults.watchers)
    await until(lambda: len(asyncio.all_tasks()) <= tasks)
    assert not simulator.collection("", "configmaps").listeners


async def test_a_slow_client_is_cut_off_and_may_resume(
    simulator: Simulator, client: httpx.AsyncClient, until: Until, configmap: Make
) -> None:
    simulator.watch_buffer = 20
    configmap("a")
    since, big = simulator.resource_version, "x" * 1_000_000
    query = {"watch": 1, "resourceVersion": since, "timeoutSeconds": 3000}
    async with client.stream("GET", "/api/v1/configmaps", params=query) as answer:
        await until(lambda: len(simulator.faults.watchers) == 1)
        for number in range(60):  # more than the sockets between the two can hold
            simulator.patch("", "configmaps", "default", "a", {"data": {"x": f"{number}{big}"}})
            await asyncio.sleep(0.002)
        body = b"".join([part async for part in answer.aiter_raw()])
    seen = [json.loads(line)["object"]["metadata"]["resourceVersion"] for line in body.splitlines()]
    assert seen == [str(since + 1 + number) for number in range(len(seen))]
    assert 0 < len(seen) < 60
    versions = [int(version) for version in seen]
    while versions[-1] < since + 60:
        rest = await watch(client, "/api/v1/configmaps", resourceVersion=versions[-1])
        versions += [version for _, _, version in rest]
    assert versions == list(range(since + 1, since + 61))


async def test_a_burst_cuts_nobody_off(
    simulator: Simulator, client: httpx.AsyncClient, until: Until, configmap: Make
) -> None:
    simulator.watch_buffer = 10
    since = simulator.resource_version
    watching = asyncio.create_task(watch(client, "/api/v1/configmaps", resourceVersion=since))
    await until(lambda: len(simulator.faults.watchers) == 1)
    for number in range(500):
        configmap(f"c-{number:03}")
    assert len(await watching) == 500


async def test_stopping_the_server_ends_open_watches(simulator: Simulator, until: Until) -> None:
    server = SimulatorServer(simulator)
    async with httpx.AsyncClient() as client:
        async with server:
            url = f"{server.url}/api/v1/pods?watch=1&resourceVersion={simulator.resource_version}"
            watching = asyncio.create_task(client.get(url))
            await until(lambda: len(simulator.faults.watchers) == 1)
        result = (await asyncio.gather(watching, return_exceptions=True))[0]
    assert isinstance(result, httpx.RemoteProtocolError)


async def test_rollback_leaves_the_old_version_silent(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make
) -> None:
    configmap("a")
    back = simulator.resource_version
    for name in "bcdef":
        configmap(name)
    ahead = simulator.resource_version
    simulator.rollback(back)
    configmap("g")
    assert await watch(client, "/api/v1/configmaps", resourceVersion=ahead) == []
    found = await watch(client, "/api/v1/configmaps", resourceVersion=back)
    assert found == [("ADDED", "g", back + 1)]
    expired = await watch(client, "/api/v1/configmaps", resourceVersion=back - 1)
    assert expired == [("ERROR", "", 0)]
