"""Misbehaviour on command, in process and over the control path."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx
import pytest

from syncd.simulator.simulator import Simulator

CONFIGMAPS = "/api/v1/configmaps"
Make = Callable[..., dict[str, Any]]
Until = Callable[[Callable[[], bool]], Awaitable[None]]


async def read(client: httpx.AsyncClient, into: list[bytes], **query: Any) -> None:
    """Reads a watch to its end; raises where there is none."""
    async with client.stream("GET", CONFIGMAPS, params={"watch": 1, **query}) as answer:
        async for part in answer.aiter_raw():
            into.append(part)  # noqa: PERF401 - kept when the stream breaks


@pytest.mark.parametrize(
    ("status", "plain", "retry_after"),
    [
        (401, False, None),
        (403, False, None),
        (404, True, None),
        (410, False, None),
        (429, True, 2),
        (429, False, 1),
        (500, False, None),
        (503, True, 5),
        (504, False, None),
    ],
)
async def test_answers_for_a_number_of_requests(
    simulator: Simulator, client: httpx.AsyncClient, status: int, plain: bool, retry_after: int | None
) -> None:
    simulator.faults.answer(status, plain=plain, retry_after=retry_after, times=2, resource="configmaps")
    assert (await client.get("/api/v1/secrets")).status_code == 200
    for _ in range(2):
        answer = await client.get(CONFIGMAPS)
        assert answer.status_code == status
        assert answer.headers.get("retry-after") == (str(retry_after) if retry_after else None)
        if plain:
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        else:
            assert answer.json()["code"] == status
    assert (await client.get(CONFIGMAPS)).status_code == 200


def test_answers_for_a_time() -> None:
    time = [100.0]
    simulator = Simulator(clock=lambda: time[0])
    simulator.faults.answer(503, seconds=5, verb="list")
    rule = simulator.faults.rules[0]
    time[0] = 104.9
    assert not rule.spent(simulator.clock())
    time[0] = 105.0
    assert rule.spent(simulator.clock())


async def test_a_list_is_truncated_after_200(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make
) -> None:
    for number in range(50):
        configmap(f"c-{number}")
    simulator.faults.truncate(2_000, resource="configmaps")
    got: list[bytes] = []
    with pytest.raises(httpx.RemoteProtocolError):
        await read(client, got, watch=0)
    assert len(b"".join(got)) == 2_000
    assert simulator.requests[-1].status == 200
    assert len((await client.get(CONFIGMAPS)).json()["items"]) == 50


@pytest.mark.parametrize("how", [{}, {"mid_line": True}, {"after_bytes": 1_000}])
async def test_watches_are_cut(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make, until: Until, how: dict[str, Any]
) -> None:
    got: list[bytes] = []
    since = simulator.resource_version
    watching = asyncio.create_task(read(client, got, resourceVersion=since))
    await until(lambda: len(simulator.faults.watchers) == 1)
    configmap("whole")
    await until(lambda: b"".join(got).endswith(b"\n"))
    before = len(b"".join(got))
    assert simulator.faults.cut_watches("configmaps", **how) == 1
    for number in range(10):
        configmap(f"c-{number}")
    with pytest.raises(httpx.RemoteProtocolError):
        await watching
    rest = b"".join(got)[before:]
    if how == {}:
        assert rest == b""
    else:
        assert not rest.endswith(b"\n")
        assert len(rest) == how.get("after_bytes", len(rest)) > 0


async def test_watches_end_or_fail_in_the_stream(
    simulator: Simulator, client: httpx.AsyncClient, until: Until
) -> None:
    commands: list[tuple[Callable[[], int], list[tuple[str, int]]]] = [
        (simulator.faults.end_watches, []),
        (partial(simulator.faults.fail_watches, 410), [("ERROR", 410)]),
    ]
    for command, expected in commands:
        got: list[bytes] = []
        watching = asyncio.create_task(read(client, got, resourceVersion=simulator.resource_version))
        await until(lambda: len(simulator.faults.watchers) == 1)
        command()
        await watching
        events = [json.loads(line) for line in b"".join(got).splitlines()]
        assert [(event["type"], event["object"]["code"]) for event in events] == expected


async def test_a_stalled_watch_is_silent_past_its_deadline(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make, until: Until
) -> None:
    got: list[bytes] = []
    query = {"resourceVersion": simulator.resource_version, "timeoutSeconds": 2}
    watching = asyncio.create_task(read(client, got, **query))
    await until(lambda: len(simulator.faults.watchers) == 1)
    assert simulator.faults.stall_watches("configmaps") == 1
    configmap("a")
    await asyncio.wait([watching], timeout=0.5)
    assert not watching.done()
    assert got == []
    simulator.faults.release_watches()
    await watching
    assert b'"name":"a"' in b"".join(got)


async def test_dropped_events_are_in_lists_alone(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make
) -> None:
    since = simulator.resource_version
    simulator.faults.drop_events(2, resource="configmaps")
    for name in "abc":
        configmap(name)
    got: list[bytes] = []
    await read(client, got, resourceVersion=since, timeoutSeconds=1)
    names = [json.loads(line)["object"]["metadata"]["name"] for line in b"".join(got).splitlines()]
    assert names == ["c"]
    assert len((await client.get(CONFIGMAPS)).json()["items"]) == 3


async def test_a_page_comes_in_another_order(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make
) -> None:
    for name in "abc":
        configmap(name)
    simulator.faults.reverse(resource="configmaps")
    items = (await client.get(CONFIGMAPS)).json()["items"]
    assert [item["metadata"]["name"] for item in items] == ["c", "b", "a"]


async def test_tokens_expire_on_command(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make
) -> None:
    for name in "abc":
        configmap(name)
    simulator.faults.expire_tokens()
    token = (await client.get(CONFIGMAPS, params={"limit": 1})).json()["metadata"]["continue"]
    query = {"limit": "1", "continue": token}
    assert (await client.get(CONFIGMAPS, params=query)).status_code == 410
    assert (await client.get(CONFIGMAPS, params=query)).status_code == 200


async def test_a_page_waits_until_it_is_released(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make
) -> None:
    configmap("a")
    pause = simulator.faults.pause_page(2, "configmaps")
    await client.get(CONFIGMAPS)
    second = asyncio.create_task(client.get(CONFIGMAPS))
    await asyncio.wait_for(pause.reached.wait(), 30)
    assert not second.done()
    pause.release()
    assert (await second).status_code == 200


async def test_answers_are_delayed(simulator: Simulator, client: httpx.AsyncClient) -> None:
    simulator.faults.delay(0.2)
    begun = asyncio.get_running_loop().time()
    await client.get(CONFIGMAPS)
    assert asyncio.get_running_loop().time() - begun >= 0.2


async def test_groups_fall_sick(simulator: Simulator, client: httpx.AsyncClient) -> None:
    aggregated = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}

    async def freshness() -> dict[str, str]:
        items = (await client.get("/apis", headers=aggregated)).json()["items"]
        return {item["metadata"]["name"]: item["versions"][0]["freshness"] for item in items}

    simulator.faults.stale_group("apps")
    assert (await freshness())["apps"] == "Stale"
    assert (await client.get("/apis/apps/v1")).status_code == 503
    assert (await client.get("/apis/apps/v1/deployments")).status_code == 200
    simulator.faults.missing_group("batch")
    assert "batch" not in await freshness()
    assert (await client.get("/apis/batch/v1/jobs")).status_code == 404
    simulator.faults.clear()
    assert (await freshness())["apps"] == "Current"
    assert (await client.get("/apis/batch/v1/jobs")).status_code == 200


async def test_the_control_path(simulator: Simulator, client: httpx.AsyncClient) -> None:
    async def act(method: str, **arguments: Any) -> httpx.Response:
        return await client.post(f"/_simulator/{method}", json=arguments)

    made = await act("create", group="", resource="configmaps", obj={"metadata": {"name": "a"}})
    assert made.json()["result"]["metadata"]["name"] == "a"
    version = (await client.get("/_simulator/state")).json()["resource_version"]
    await act("delete", group="", resource="configmaps", namespace="default", name="a")
    now = (await client.get("/_simulator/objects?resource=configmaps")).json()
    then = (await client.get(f"/_simulator/objects?resource=configmaps&rv={version}")).json()
    assert (list(now), list(then)) == ([], ["default/a"])
    assert then["default/a"]["resourceVersion"] == str(version)
    await act("answer", status=503, resource="configmaps")
    assert (await client.get(CONFIGMAPS)).status_code == 503
    await act("rollback", rv=version)
    assert simulator.resource_version == version
    await act("settings", bookmark_interval=3)
    assert simulator.bookmark_interval == 3
    requests = (await client.get("/_simulator/state")).json()["requests"]
    assert [(request["verb"], request["status"]) for request in requests] == [("list", 503)]
    for method, arguments in (
        ("rollback", {"nope": 1}),
        ("settings", {"seed": 1}),
        ("rollback", {"rv": 9**9}),
    ):
        assert (await act(method, **arguments)).status_code == 400
    assert (await act("no_such_thing")).status_code == 404
    assert (await act("delete", group="", resource="pods", namespace="a", name="b")).status_code == 404


async def test_requests_are_counted(simulator: Simulator, client: httpx.AsyncClient, configmap: Make) -> None:
    configmap("a")
    await client.get(CONFIGMAPS, params={"limit": 500})
    await client.get(CONFIGMAPS, params={"limit": 1, "fieldSelector": "metadata.name=a"})
    await client.get("/api/v1/namespaces/default/configmaps/a")
    await read(client, [], resourceVersion=simulator.resource_version, timeoutSeconds=1)
    log = simulator.requests
    assert (log.lists("configmaps"), log.probes("configmaps"), log.watches("configmaps")) == (1, 1, 1)
    assert [(r.verb, r.name, r.status) for r in log.matching("get")] == [("get", "a", 200)]
    assert log.lists("secrets") == 0
    log.clear()
    assert log == []
