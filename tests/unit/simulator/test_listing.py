"""LIST: pages, versions and the parameters that do not go together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload

CONFIGMAPS = "/api/v1/configmaps"
Make = Callable[..., dict[str, Any]]


async def pages(client: httpx.AsyncClient, path: str, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    token = ""
    while True:
        answer = await client.get(path, params={**query, **({"continue": token} if token else {})})
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
        token = found[-1]["metadata"].get("continue", "")
        if not token:
            return found


def names(page: dict[str, Any]) -> list[str]:
    return [f"{item['metadata'].get('namespace')}/{item['metadata']['name']}" for item in page["items"]]


async def test_pages_hold_one_version_while_the_cluster_changes(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make
) -> None:
    for key in ("ord/a", "ord-b/a", "ord/b", "ord/c", "zz/a"):
        configmap(key.split("/")[1], key.split("/")[0])
    first = (await client.get(CONFIGMAPS, params={"limit": 2})).json()
    simulator.delete("", "configmaps", "ord", "b")
    configmap("bb", "ord")
    simulator.patch("", "configmaps", "ord", "c", {"data": {"new": "1"}})
    token = first["metadata"]["continue"]
    second = (await client.get(CONFIGMAPS, params={"limit": 10, "continue": token})).json()
    assert names(first) + names(second) == ["ord-b/a", "ord/a", "ord/b", "ord/c", "zz/a"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert first["metadata"]["remainingItemCount"] == 3
    assert "new" not in second["items"][1]["data"]


async def test_an_expired_token_goes_on_at_another_version(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make
) -> None:
    for name in "abcd":
        configmap(name)
    first = (await client.get(CONFIGMAPS, params={"limit": 2})).json()["metadata"]
    configmap("e")
    simulator.compact()
    query = {"limit": "2", "continue": first["continue"]}
    expired = await client.get(CONFIGMAPS, params=query)
    assert (expired.status_code, expired.json()["reason"]) == (410, "Expired")
    rest = await pages(client, CONFIGMAPS, limit=2)
    assert len(rest) == 3
    query["continue"] = expired.json()["metadata"]["continue"]
    inconsistent = (await client.get(CONFIGMAPS, params=query)).json()
    assert names(inconsistent) == ["default/c", "default/d"]
    assert inconsistent["metadata"]["resourceVersion"] != first["resourceVersion"]


async def test_selectors_hide_the_remaining_count_and_may_leave_an_empty_page(
    client: httpx.AsyncClient, configmap: Make
) -> None:
    for name in "abcd":
        configmap(name, tier="web" if name < "c" else "db")
    found = await pages(client, CONFIGMAPS, limit=2, labelSelector="tier=web")
    assert [names(page) for page in found] == [["default/a", "default/b"], []]
    assert "remainingItemCount" not in found[0]["metadata"]


async def test_a_namespace_is_a_range(client: httpx.AsyncClient, configmap: Make) -> None:
    for namespace in ("ord", "ord-b", "ord0"):
        for name in "ab":
            configmap(name, namespace)
    found = await pages(client, "/api/v1/namespaces/ord/configmaps", limit=1)
    assert [names(page) for page in found] == [["ord/a"], ["ord/b"]]


async def test_a_list_at_an_exact_version(
    simulator: Simulator, client: httpx.AsyncClient, configmap: Make
) -> None:
    configmap("a")
    version = simulator.resource_version
    configmap("b")
    for query in ({"resourceVersionMatch": "Exact"}, {"limit": 5}):
        page = (await client.get(CONFIGMAPS, params={"resourceVersion": version, **query})).json()
        assert (names(page), page["metadata"]["resourceVersion"]) == (["default/a"], str(version))
    later: dict[str, Any] = {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}
    assert len((await client.get(CONFIGMAPS, params=later)).json()["items"]) == 2


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("resourceVersion=5&resourceVersionMatch=Other", 422),
        ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", 422),
        ("continue={token}&resourceVersionMatch=NotOlderThan", 422),
        ("continue={token}&resourceVersion=5", 400),
        ("continue=%21%21", 400),
        ("resourceVersion=abc", 400),
        ("limit=1.5", 400),
        ("labelSelector=a+b", 400),
        ("watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=5", 422),
        ("watch=1&sendInitialEvents=true", 422),
        ("watch=1&resourceVersion=-1", 500),
        ("watch=1&timeoutSeconds=x", 400),
        ("resourceVersion=99999&resourceVersionMatch=Exact", 504),
    ],
)
async def test_parameters_that_are_refused(
    client: httpx.AsyncClient, configmap: Make, query: str, status: int
) -> None:
    configmap("a")
    configmap("b")
    token = (await client.get(CONFIGMAPS, params={"limit": 1})).json()["metadata"]["continue"]
    answer = await client.get(f"{CONFIGMAPS}?{query.format(token=token)}")
    assert answer.status_code == status
    assert answer.json()["kind"] == "Status"


async def test_long_lists_are_compressed_for_who_accepts_it(
    simulator: Simulator, client: httpx.AsyncClient
) -> None:
    Workload(simulator).pods(100)
    zipped = await client.get("/api/v1/pods", headers={"Accept-Encoding": "gzip"})
    plain = await client.get("/api/v1/pods", headers={"Accept-Encoding": "identity"})
    assert zipped.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert zipped.content == plain.content
    short = await client.get("/api/v1/pods", params={"limit": 2}, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in short.headers


async def test_pages_under_churn_are_the_state_at_their_version(
    simulator: Simulator, client: httpx.AsyncClient
) -> None:
    workload = Workload(simulator)
    workload.fill(200)
    seen: dict[str, str] = {}
    page = (await client.get("/api/v1/pods", params={"limit": 20})).json()
    version = page["metadata"]["resourceVersion"]
    while True:
        seen |= dict(
            zip(names(page), (item["metadata"]["resourceVersion"] for item in page["items"]), strict=True)
        )
        token = page["metadata"].get("continue")
        if not token:
            break
        for _ in range(50):
            workload.change()
        page = (await client.get("/api/v1/pods", params={"limit": 20, "continue": token})).json()
        assert page["metadata"]["resourceVersion"] == version
    expected = {key: str(rv) for key, (_, rv, _) in simulator.state_at("", "pods", version).items()}
    assert seen == expected
    assert list(seen) == sorted(seen, key=str.encode)


async def test_field_selectors_of_a_pod_and_of_an_event(
    simulator: Simulator, client: httpx.AsyncClient
) -> None:
    for name, node in (("a", "n1"), ("b", "n2")):
        simulator.create("", "pods", {"metadata": {"name": name}, "spec": {"nodeName": node}})
    simulator.create(
        "",
        "events",
        {"metadata": {"name": "e"}, "type": "Warning", "involvedObject": {"kind": "Pod"}, "message": "m"},
    )
    page = (await client.get("/api/v1/pods?fieldSelector=spec.nodeName!%3Dn1")).json()
    assert names(page) == ["default/b"]
    for path, count in (
        ("/api/v1/events?fieldSelector=involvedObject.kind%3DPod,type!%3DNormal", 1),
        ("/apis/events.k8s.io/v1/events?fieldSelector=regarding.kind%3DPod", 1),
        ("/api/v1/events?fieldSelector=type%3DNormal", 0),
    ):
        assert len((await client.get(path)).json()["items"]) == count
    event = (await client.get("/apis/events.k8s.io/v1/namespaces/default/events/e")).json()
    assert (event["apiVersion"], event["note"], event["regarding"]) == (
        "events.k8s.io/v1",
        "m",
        {"kind": "Pod"},
    )
