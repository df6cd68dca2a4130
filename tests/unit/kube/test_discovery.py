"""Discovery from recordings, from documents that are odd, and over a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from syncd.core.errors import ConfigError, ConnectionLost, NotFound, ProtocolError, ServerError, Unauthorized
from syncd.core.ports import Discoverer
from syncd.core.resource import Resource
from syncd.kube.client import KubeClient
from syncd.kube.connection import Connection
from syncd.kube.discovery import KubeDiscoverer
from syncd.kube.discovery_document import (
    AGGREGATED,
    is_aggregated,
    parse_aggregated,
    parse_api_versions,
    parse_groups,
    parse_resources,
)
from syncd.kube.identity import cluster_identity, server_version

from .server import Call, Server, answering, recorded, routed, serving, status_body, whole


def body(name: str) -> bytes:
    """A recording's body with its chunks put together."""
    head, _, rest = recorded(name).partition(b"\r\n\r\n")
    if b"chunked" not in head:
        return rest
    data = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if not int(size, 16):
            return data
        data, rest = data + rest[: int(size, 16)], rest[int(size, 16) + 2 :]


def client(server: Server) -> KubeClient:
    return KubeClient(Connection("prod", server.url), user_agent="x")


# --- documents --------------------------------------------------------------------------------------


def test_the_recorded_aggregated_documents() -> None:
    core, groups = parse_aggregated(body("api-aggregated-v2")), parse_aggregated(body("apis-aggregated-v2"))
    by_name = {resource.qualified: resource for resource in core.resources + groups.resources}
    assert by_name["configmaps"] == Resource(
        "",
        "v1",
        "configmaps",
        "ConfigMap",
        namespaced=True,
        verbs=frozenset(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]),
        singular="configmap",
        short_names=("cm",),
    )
    assert by_name["componentstatuses"].verbs == {"get", "list"}
    assert not by_name["nodes"].namespaced
    assert by_name["deployments.apps"].categories == ("all",)
    assert by_name["customresourcedefinitions.apiextensions.k8s.io"].kind == "CustomResourceDefinition"
    assert not any("/" in name for name in by_name)
    assert core.stale == groups.stale == frozenset()


def test_the_legacy_documents_say_the_same() -> None:
    core = parse_aggregated(body("api-aggregated-v2")).resources
    apps = [each for each in parse_aggregated(body("apis-aggregated-v2")).resources if each.group == "apps"]
    assert parse_api_versions(body("api-legacy")) == (("", "v1"),)
    assert parse_resources(body("resources-core-v1"), "", "v1").resources == core
    assert parse_resources(body("resources-apps-v1"), "apps", "v1").resources == tuple(apps)
    versions = parse_groups(body("apis-legacy"))
    assert [version for group, version in versions if group == "autoscaling"] == ["v2", "v1"]


def test_every_version_comes_in_the_documents_order_and_a_stale_one_by_name_alone() -> None:
    things = {"resource": "things", "responseKind": {"kind": "Thing"}, "scope": "Cluster", "verbs": ["list"]}
    document = {
        "kind": "APIGroupDiscoveryList",
        "items": [
            {
                "metadata": {"name": "x.io"},
                "versions": [
                    {"version": "v2", "resources": [things], "freshness": "Current"},
                    {"version": "v1", "resources": [things, {"resource": "only-sub", "responseKind": None}]},
                    {"version": "v1beta1", "resources": [things], "freshness": "Stale"},
                ],
            },
            {"metadata": {"name": "y.io"}, "versions": [{"version": "v1", "freshness": "Stale"}]},
            {"metadata": {"name": "z.io"}, "versions": None},
        ],
    }
    part = parse_aggregated(json.dumps(document).encode())
    assert [(each.group, each.version, each.name) for each in part.resources] == [
        ("x.io", "v2", "things"),
        ("x.io", "v1", "things"),
    ]
    assert part.stale == {("x.io", "v1beta1"), ("y.io", "v1")}


def test_the_preferred_version_goes_first() -> None:
    group = {
        "name": "x.io",
        "versions": [{"version": "v1"}, {"version": "v2"}, {"version": "v3"}],
        "preferredVersion": {"version": "v2"},
    }
    document = {"kind": "APIGroupList", "groups": [group, {"name": "y.io", "versions": [{"version": "v1"}]}]}
    found = parse_groups(json.dumps(document).encode())
    assert found == (("x.io", "v2"), ("x.io", "v1"), ("x.io", "v3"), ("y.io", "v1"))


ODD = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b'"text"',
    b"<html>",
    b"\xff",
    b'{"kind":"Status"}',
    b'{"kind":null}',
    b'{"kind":"APIGroupDiscoveryList","items":{}}',
    b'{"kind":"APIGroupDiscoveryList","items":[{"versions":[{"version":5}]}]}',
    b'{"kind":"APIGroupDiscoveryList","items":[{"metadata":"x"}]}',
    b'{"kind":"APIVersions","versions":[1]}',
    b'{"kind":"APIGroupList","groups":[{"versions":[]}]}',
    b'{"kind":"APIResourceList","resources":[{"kind":"x"}]}',
    b'{"kind":"' + b"[" * 200_000,
    b'{"x":' + b"[" * 200_000,
]
PARSERS: list[Callable[[bytes], object]] = [
    parse_aggregated,
    parse_api_versions,
    parse_groups,
    lambda data: parse_resources(data, "", "v1"),
]


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize("document", ODD, ids=range(len(ODD)))
def test_an_odd_document_is_a_protocol_error(parse: Callable[[bytes], object], document: bytes) -> None:
    with pytest.raises(ProtocolError, match="discovery document"):
        parse(document)


def test_the_content_type_decides_the_form() -> None:
    assert is_aggregated(AGGREGATED)
    assert is_aggregated("application/json; as=APIGroupDiscoveryList; v=v2; g=apidiscovery.k8s.io; charset=x")
    assert not is_aggregated("application/json")
    assert not is_aggregated(AGGREGATED.replace("v=v2", "v=v2beta1"))


# --- over a socket ----------------------------------------------------------------------------------


async def test_an_unchanged_document_costs_a_304_and_is_the_same_object() -> None:
    etags = {"/api": '"one"', "/apis": '"two"'}

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        etag = etags[call.path]
        if call.header("if-none-match") == etag:
            writer.write(b"HTTP/1.1 304 Not Modified\r\n\r\n")
        else:
            name = {"/api": "api", "/apis": "apis"}[call.path]
            writer.write(whole(body(f"{name}-aggregated-v2"), f"Etag: {etag}", content_type=AGGREGATED))

    async with serving(handler) as server, client(server) as kube:
        discoverer: Discoverer = KubeDiscoverer(kube)
        first = await discoverer.discover()
        assert len(first.resources) == 17 + 51
        assert first.complete
        assert server.calls[0].header("accept") == f"{AGGREGATED},application/json"
        assert await discoverer.discover() is first
        assert [call.header("if-none-match") for call in server.calls] == [None, None, '"one"', '"two"']
        etags["/apis"] = '"three"'
        assert await discoverer.discover() is first, "another ETag for the same content"


async def test_the_recordings_as_they_were_sent() -> None:
    routes = {"/api": recorded("api-aggregated-v2"), "/apis": recorded("apis-aggregated-v2")}
    async with serving(routed(routes)) as server, client(server) as kube:
        found = await KubeDiscoverer(kube).discover()
    assert ("events", "events.k8s.io") in {(each.name, each.group) for each in found.resources}
    assert found.resources[0].group == ""


LEGACY = {
    "/api": whole(body("api-legacy")),
    "/apis": whole(
        json.dumps(
            {
                "kind": "APIGroupList",
                "groups": [
                    {"name": "apps", "versions": [{"version": "v1"}]},
                    {"name": "metrics.k8s.io", "versions": [{"version": "v1beta1"}]},
                    {"name": "gone.io", "versions": [{"version": "v1"}]},
                    {"name": "odd.io", "versions": [{"version": "v1"}]},
                ],
            }
        ).encode()
    ),
    "/api/v1": recorded("resources-core-v1"),
    "/apis/apps/v1": recorded("resources-apps-v1"),
    "/apis/metrics.k8s.io/v1beta1": whole(b"no backend", status="503 Service Unavailable", content_type="x"),
    "/apis/odd.io/v1": whole(b'{"kind":"Status"}'),
}


async def test_without_the_aggregated_form_groups_are_asked_one_by_one() -> None:
    async with serving(routed(LEGACY)) as server, client(server) as kube:
        discoverer = KubeDiscoverer(kube)
        found = await discoverer.discover()
        assert await discoverer.discover() is found
    assert {"pods", "deployments.apps"} <= {resource.qualified for resource in found.resources}
    assert found.stale == {("metrics.k8s.io", "v1beta1"), ("gone.io", "v1"), ("odd.io", "v1")}
    assert found.complete, "what is away hides its own group and no other"


async def test_a_lost_connection_to_one_group_is_no_partial_result() -> None:
    routes = {**LEGACY, "/apis/apps/v1": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"}

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        await routed(routes)(call, writer)
        if call.path == "/apis/apps/v1":
            await writer.drain()
            writer.close()

    async with serving(handler) as server, client(server) as kube:
        with pytest.raises(ConnectionLost):
            await KubeDiscoverer(kube).discover()


async def test_one_failing_root_leaves_it_incomplete_and_two_raise() -> None:
    sick = whole(b"", status="500 Internal Server Error")
    async with (
        serving(routed({"/api": recorded("api-aggregated-v2"), "/apis": sick})) as server,
        client(server) as kube,
    ):
        found = await KubeDiscoverer(kube).discover()
    assert len(found.resources) == 17
    assert not found.complete
    async with serving(answering(sick)) as server, client(server) as kube:
        with pytest.raises(ServerError):
            await KubeDiscoverer(kube).discover()


async def test_a_401_is_never_a_partial_result() -> None:
    refused = whole(status_body(401, "Unauthorized"), status="401 Unauthorized")
    for path in ("/apis", "/apis/apps/v1"):
        async with serving(routed({**LEGACY, path: refused})) as server, client(server) as kube:
            with pytest.raises(Unauthorized):
                await KubeDiscoverer(kube).discover()


# --- identity ---------------------------------------------------------------------------------------


async def test_a_cluster_is_known_by_the_uid_of_kube_system() -> None:
    routes = {"/api/v1/namespaces/kube-system": recorded("namespace-kube-system")}
    async with serving(routed(routes)) as server, client(server) as kube:
        assert await cluster_identity(kube) == ("7766dec7-72f4-4820-9a33-4a9b31fe8dce", False)


async def test_where_that_is_forbidden_address_and_authority_stand_in(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    pem = trustme.CA().cert_pem.bytes()
    file.write_bytes(pem)
    async with serving(answering(recorded("list-forbidden"))) as server:
        connections = [
            Connection("one", server.url, ca_data=pem),
            Connection("two", server.url, ca_file=file),
            Connection("three", server.url),
            Connection("four", f"{server.url}/prefix", ca_data=pem),
        ]
        found = []
        for connection in connections:
            async with KubeClient(connection, user_agent="x") as kube:
                found.append(await cluster_identity(kube))
        assert found[0] == found[1]
        assert len(set(found)) == 3
        assert all(weak for _, weak in found)
        async with KubeClient(connections[1], user_agent="x") as kube:
            file.unlink()
            with pytest.raises(ConfigError, match="cannot be read"):
                await cluster_identity(kube)


@pytest.mark.parametrize("answer", [b"{}", b"[]", b'{"metadata":{"uid":5}}'])
async def test_no_uid_is_no_identity(answer: bytes) -> None:
    async with serving(answering(whole(answer))) as server, client(server) as kube:
        with pytest.raises(ProtocolError, match="kube-system"):
            await cluster_identity(kube)


async def test_a_missing_namespace_is_not_taken_for_a_forbidden_one() -> None:
    async with serving(routed({})) as server, client(server) as kube:
        with pytest.raises(NotFound):
            await cluster_identity(kube)


async def test_the_servers_version() -> None:
    async with serving(routed({"/version": recorded("version")})) as server, client(server) as kube:
        assert await server_version(kube) == "v0.0.0-master+$Format:%H$"
    async with serving(answering(whole(b"[]"))) as server, client(server) as kube:
        with pytest.raises(ProtocolError, match="/version"):
            await server_version(kube)
