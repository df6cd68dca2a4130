"""Writes, permissions, discovery and the life of a custom resource over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from syncd.simulator.simulator import Simulator

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.com/v1/widgets"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
MERGE = {"Content-Type": "application/merge-patch+json"}
Until = Callable[[Callable[[], bool]], Awaitable[None]]


async def test_an_object_from_its_creation_to_its_end(
    simulator: Simulator, client: httpx.AsyncClient
) -> None:
    given = {"metadata": {"name": "a", "uid": "mine", "labels": {"x": "y"}}, "data": {"k": "v"}}
    made = await client.post(CONFIGMAPS, json=given, headers={"User-Agent": "tester/1"})
    assert made.status_code == 201
    obj = made.json()
    assert list(obj) == ["kind", "apiVersion", "metadata", "data"]
    assert obj["metadata"]["uid"] != "mine"
    assert obj["metadata"]["managedFields"][0]["manager"] == "tester"
    assert (await client.post(CONFIGMAPS, json=given)).json()["reason"] == "AlreadyExists"
    obj["data"]["k"] = "w"
    put = (await client.put(f"{CONFIGMAPS}/a", json=obj)).json()
    assert put["metadata"]["managedFields"] == obj["metadata"]["managedFields"]
    assert int(put["metadata"]["resourceVersion"]) == simulator.resource_version
    assert (await client.put(f"{CONFIGMAPS}/a", json=obj)).json()["reason"] == "Conflict"
    patched = await client.patch(f"{CONFIGMAPS}/a", json={"data": {"k": None, "n": "1"}}, headers=MERGE)
    assert patched.json()["data"] == {"n": "1"}
    assert (await client.get(f"{CONFIGMAPS}/a")).json() == patched.json()
    wrong = {"preconditions": {"resourceVersion": "1"}}
    assert (await client.request("DELETE", f"{CONFIGMAPS}/a", json=wrong)).status_code == 409
    gone = await client.delete(f"{CONFIGMAPS}/a")
    assert (gone.json()["status"], gone.json()["details"]["name"]) == ("Success", "a")
    assert (await client.get(f"{CONFIGMAPS}/a")).json()["reason"] == "NotFound"


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", CONFIGMAPS, b"{", {}, 400),
        ("POST", CONFIGMAPS, b"[]", {}, 400),
        ("POST", CONFIGMAPS, b"k8s\0protobuf", {}, 415),
        ("POST", CONFIGMAPS, b'{"metadata":{}}', {}, 400),
        ("POST", CONFIGMAPS, b'{"metadata":{"name":"a","namespace":"b"}}', {}, 400),
        ("POST", "/api/v1/namespaces/nope/configmaps", b'{"metadata":{"name":"a"}}', {}, 404),
        ("PUT", f"{CONFIGMAPS}/a", b'{"metadata":{"name":"b"}}', {}, 400),
        ("PUT", f"{CONFIGMAPS}/a", b'{"metadata":{"name":"a"}}', {}, 404),
        ("PATCH", f"{CONFIGMAPS}/a", b"[]", {"Content-Type": "application/json-patch+json"}, 415),
        ("GET", f"{CONFIGMAPS}/a/log", b"", {}, 404),
        ("POST", "/api/v1/componentstatuses", b"{}", {}, 405),
        ("GET", "/api/v2/pods", b"", {}, 404),
        ("GET", "/metrics", b"", {}, 404),
        ("POST", "/apis", b"", {}, 404),
    ],
)
async def test_what_is_refused(
    client: httpx.AsyncClient, method: str, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert (await client.request(method, path, content=body, headers=headers)).status_code == status


async def test_json_is_escaped_as_go_does_it(simulator: Simulator, client: httpx.AsyncClient) -> None:
    value = "a<b>&c \u2028\u2029 \u0085 数"
    simulator.create("", "configmaps", {"metadata": {"name": "a"}, "data": {"k": value}})
    body = (await client.get(f"{CONFIGMAPS}/a")).content
    expected = '"k":"a\\u003cb\\u003e\\u0026c \\u2028\\u2029 \u0085 数"'
    assert expected.encode() in body
    assert json.loads(body)["data"]["k"] == value


async def test_status_is_a_part_of_its_own(simulator: Simulator, client: httpx.AsyncClient) -> None:
    simulator.create("", "pods", {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}})
    path = "/api/v1/namespaces/default/pods/p"
    body = {"spec": {"nodeName": "other"}, "status": {"phase": "Running"}}
    patched = (await client.patch(f"{path}/status", json=body, headers=MERGE)).json()
    assert (patched["spec"], patched["status"]) == ({"nodeName": "n"}, {"phase": "Running"})
    assert (await client.get(f"{path}/status")).json() == patched


async def test_a_collection_is_deleted_by_selector(simulator: Simulator, client: httpx.AsyncClient) -> None:
    for name in "abc":
        labels = {"of": "one" if name < "c" else "two"}
        simulator.create("", "configmaps", {"metadata": {"name": name, "labels": labels}})
    await client.delete(CONFIGMAPS, params={"labelSelector": "of=one"})
    assert list(simulator.objects("", "configmaps")) == ["default/c"]


async def test_permissions(simulator: Simulator, client: httpx.AsyncClient) -> None:
    simulator.access.grant("t1", "ann", verbs=("list",), resources=("pods",), namespaces=("default",))
    simulator.access.grant_all("root")

    async def status(path: str, token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return (await client.get(path, headers=headers)).status_code

    assert await status("/api/v1/namespaces/default/pods", "t1") == 200
    assert await status("/api/v1/pods", "t1") == 403
    assert await status("/api/v1/namespaces/default/pods?watch=1", "t1") == 403
    assert await status("/api/v1/namespaces/default/secrets", "t1") == 403
    assert await status("/apis", "t1") == 200
    assert await status("/api/v1/secrets", "root") == 200
    assert await status("/apis", "wrong") == 401
    assert await status("/apis", "") == 401
    assert await status("/readyz", "") == 200
    simulator.access.revoke("t1")
    assert await status("/api/v1/namespaces/default/pods", "t1") == 403
    simulator.access.revoke("t1", forget=True)
    assert await status("/api/v1/namespaces/default/pods", "t1") == 401


async def test_discovery_costs_nothing_until_it_changes(
    simulator: Simulator, client: httpx.AsyncClient
) -> None:
    first = await client.get("/apis", headers=AGGREGATED)
    known = {**AGGREGATED, "If-None-Match": first.headers["etag"]}
    assert (await client.get("/apis", headers=known)).status_code == 304
    simulator.create_crd(short_names=("wd",))
    second = await client.get("/apis", headers=known)
    group = second.json()["items"][-1]
    assert (second.status_code, group["metadata"]["name"]) == (200, "example.com")
    resource = group["versions"][0]["resources"][0]
    assert resource["responseKind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert (await client.get("/apis/example.com")).json()["preferredVersion"]["version"] == "v1"
    services = await client.get("/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com")
    assert services.json()["status"]["conditions"][0]["status"] == "True"
    simulator.delete("apiextensions.k8s.io", "customresourcedefinitions", "", "widgets.example.com")
    assert (await client.get("/apis", headers=known)).status_code == 304
    assert (await client.get(str(services.url))).status_code == 404


async def test_the_life_of_a_custom_resource(client: httpx.AsyncClient, simulator: Simulator) -> None:
    crd = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }
    simulator.crd_warmup = 3_600
    assert (await client.get(WIDGETS)).status_code == 404
    assert (await client.post(CRDS, json=crd)).status_code == 201
    conditions = (await client.get(f"{CRDS}/widgets.example.com")).json()["status"]["conditions"]
    assert {condition["type"]: condition["status"] for condition in conditions}["Established"] == "True"
    early = await client.get(WIDGETS)
    assert (early.status_code, early.headers["retry-after"]) == (429, "1")
    simulator.crd_warmup = 0
    path = "/apis/example.com/v1/namespaces/default/widgets"
    widget = {"metadata": {"name": "w"}, "spec": {"size": 1}}
    made = (await client.post(path, json=widget)).json()
    assert list(made) == ["apiVersion", "kind", "metadata", "spec"]
    page = (await client.get(WIDGETS)).json()
    assert (list(page), page["items"]) == (["apiVersion", "items", "kind", "metadata"], [made])


async def test_a_second_version_serves_the_same_objects(
    client: httpx.AsyncClient, simulator: Simulator
) -> None:
    crd = simulator.create_crd()
    simulator.create("example.com", "widgets", {"metadata": {"name": "w"}, "spec": {"size": 1}})
    beta = {**crd["spec"]["versions"][0], "name": "v1beta1", "storage": False}
    crd["spec"]["versions"].append(beta)
    simulator.update("apiextensions.k8s.io", "customresourcedefinitions", crd)
    for version in ("v1", "v1beta1"):
        page = (await client.get(f"/apis/example.com/{version}/widgets")).json()
        assert page["items"][0]["apiVersion"] == page["apiVersion"] == f"example.com/{version}"
    group = (await client.get("/apis/example.com")).json()
    assert [entry["version"] for entry in group["versions"]] == ["v1", "v1beta1"]


async def test_a_new_default_shows_at_the_old_version(
    client: httpx.AsyncClient, simulator: Simulator, until: Until
) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"color": {}}}}}
    simulator.create_crd(schema=schema)
    made = simulator.create("example.com", "widgets", {"metadata": {"name": "w"}, "spec": {"size": 1}})
    before = simulator.resource_version
    watching = asyncio.create_task(client.get(f"{WIDGETS}?watch=1&resourceVersion={before}"))
    await until(lambda: len(simulator.faults.watchers) == 1)
    crd = simulator.objects("apiextensions.k8s.io", "customresourcedefinitions")["widgets.example.com"]
    defaulted = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    defaulted["color"] = {"type": "string", "default": "blue"}
    changed = simulator.update("apiextensions.k8s.io", "customresourcedefinitions", crd)
    assert changed["metadata"]["generation"] == 2
    assert (await watching).content == b""
    now = simulator.objects("example.com", "widgets")["default/w"]
    assert now["spec"] == {"size": 1, "color": "blue"}
    assert now["metadata"] == made["metadata"]
    assert simulator.state_at("example.com", "widgets", before)["default/w"][2]["spec"] == {"size": 1}
    expired = await client.get(f"{WIDGETS}?watch=1&resourceVersion={before}")
    assert json.loads(expired.content)["object"]["reason"] == "Expired"


async def test_a_deleted_definition_is_still_in_the_oracle(simulator: Simulator) -> None:
    simulator.create_crd()
    simulator.create("example.com", "widgets", {"metadata": {"name": "w"}})
    then = simulator.resource_version
    simulator.delete("apiextensions.k8s.io", "customresourcedefinitions", "", "widgets.example.com")
    assert simulator.state_at("example.com", "widgets", simulator.resource_version) == {}
    assert list(simulator.state_at("example.com", "widgets", then)) == ["default/w"]
    simulator.rollback(then)
    found: dict[str, Any] = simulator.objects("example.com", "widgets")
    assert list(found) == ["default/w"]
