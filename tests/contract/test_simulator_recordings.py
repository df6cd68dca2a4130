"""The simulator answers every recorded request, in the same state, as the real server did.

Bodies are compared byte for byte, except where the real one held its own uids and times.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from syncd.simulator.server import SimulatorServer
from syncd.simulator.simulator import Simulator

WIRE = Path(__file__).parents[1] / "data" / "wire"
RECORDINGS = sorted(path.stem for path in WIRE.glob("*.http"))
HEADERS = ("content-type", "retry-after", "vary", "x-content-type-options")
CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
WIDGETS = ("example.com", "widgets")


@dataclass(frozen=True)
class Recording:
    method: str
    target: str
    request_headers: dict[str, str]
    request_body: bytes
    status: int
    headers: dict[str, str]
    body: bytes


def load(name: str) -> Recording:
    raw = (WIRE / f"{name}.http").read_bytes()
    asked, answered = [], raw
    while answered.startswith(b"> "):
        line, _, answered = answered.partition(b"\n")
        asked.append(line[2:].decode().strip())
    method, target = asked[0].split(" ", 1)
    body = b"".join(line.encode() for line in asked[1:] if line.startswith("{"))
    given = dict(line.split(": ", 1) for line in asked[1:] if not line.startswith("{"))
    head, _, rest = answered.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
    chunked = headers.get("transfer-encoding") == "chunked"
    content = dechunked(rest) if chunked else rest[: int(headers["content-length"])]
    return Recording(method, target, given, body, int(lines[0].split()[1]), headers, content)


def dechunked(data: bytes) -> bytes:
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        if int(size, 16) == 0:
            break
        body, data = body + data[: int(size, 16)], data[int(size, 16) + 2 :]
    return body


def events(name: str) -> list[tuple[str, dict[str, Any]]]:
    return [(event["type"], event["object"]) for event in map(json.loads, load(name).body.splitlines())]


# --- states ---------------------------------------------------------------------------------------


def write(simulator: Simulator, group: str, resource: str, kind: str, obj: dict[str, Any]) -> None:
    """Repeats a recorded write at its own version."""
    metadata = obj["metadata"]
    simulator.advance(int(metadata["resourceVersion"]) - 1)
    stripped = {**obj, "metadata": {k: v for k, v in metadata.items() if k != "resourceVersion"}}
    if kind == "ADDED":
        simulator.create(group, resource, stripped)
    elif kind == "MODIFIED":
        simulator.update(group, resource, stripped)
    else:
        simulator.delete(group, resource, metadata.get("namespace", ""), metadata["name"])


def configmaps(upto: int, *, since: int = 0, simulator: Simulator | None = None) -> Simulator:
    """The configmaps of the recordings as they were at a version, and the version."""
    simulator = simulator or Simulator(second=0.1)
    for kind, obj in events("watch-rv-1-too-old"):
        if since < int(obj["metadata"]["resourceVersion"]) <= upto:
            write(simulator, "", "configmaps", kind, obj)
    simulator.advance(max(upto, simulator.resource_version))
    return simulator


def compacted(upto: int, at: int = 1386) -> Simulator:
    simulator = configmaps(upto)
    simulator.compact(at)
    return simulator


def guarded(upto: int, *permissions: dict[str, Any]) -> Simulator:
    simulator = configmaps(upto)
    simulator.access.know("reader")
    for permission in permissions:
        simulator.access.grant("reader", **permission)
    return simulator


def reader_of_wire2(upto: int = 41804) -> Simulator:
    reason = 'RBAC: allowed by RoleBinding "r/wire2" of Role "r" to User "reader"'
    return guarded(upto, {"resources": ("configmaps",), "namespaces": ("wire2",), "reason": reason})


def pods() -> Simulator:
    simulator = Simulator()
    for item in sorted(json.loads(load("list-pods-realistic").body)["items"], key=version):
        write(simulator, "", "pods", "ADDED", item)
    for number in range(1022):
        simulator.create("", "pods", {"metadata": {"name": f"z-{number:04}", "namespace": "load-1"}})
    simulator.advance(41804)
    return simulator


def version(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


def recorded_definition() -> dict[str, Any]:
    crd: dict[str, Any] = json.loads(load("crd-definition").body)
    del crd["status"]
    return crd


def widgets(source: str, upto: int, crd: dict[str, Any] | None = None, warmup: float = 0.0) -> Simulator:
    """The custom resource and the objects of a recorded list."""
    simulator = Simulator(second=0.1, crd_warmup=warmup)
    simulator.create_crd(crd or recorded_definition())
    for item in sorted(json.loads(load(source).body)["items"], key=version) if source else ():
        write(simulator, *WIDGETS, "ADDED", item)
    simulator.advance(max(upto, simulator.resource_version))
    return simulator


def default_added(upto: int, at: int, *, warmup: float = 0.0) -> Simulator:
    """A widget of before, then the definition gains a default at a version."""
    simulator = widgets("crd-default-before", 50983, warmup=warmup)
    simulator.advance(at - 1)
    give_default(simulator)
    simulator.advance(upto)
    return simulator


def give_default(simulator: Simulator) -> None:
    crd = simulator.objects(*CRDS)["widgets.example.com"]
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["color"]["default"] = "blue"
    simulator.update(*CRDS, crd)


def recorded_events() -> Simulator:
    """Three Events on one lease, before it expires."""
    simulator = Simulator(second=0.1)
    for number, (_, obj) in enumerate(events("watch-three-deletions-at-one-rv")):
        obj["metadata"]["resourceVersion"] = str(50969 + number)
        write(simulator, "", "events", "ADDED", obj)
    return simulator


def expired_events() -> Simulator:
    simulator = recorded_events()
    simulator.delete_many("", "events", list(simulator.objects("", "events")))
    return simulator


def no_widgets() -> Simulator:
    simulator = widgets("crd-list", 41795)
    simulator.delete(*CRDS, "", "widgets.example.com")
    return simulator


# --- what happens during a watch ------------------------------------------------------------------

During = Callable[[Simulator, Callable[[], bytes]], Coroutine[None, None, None]]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.002)


async def cm_6_after_a_bookmark(simulator: Simulator, received: Callable[[], bytes]) -> None:
    await until(lambda: b"BOOKMARK" in received())
    configmaps(1317, since=1313, simulator=simulator)


async def the_lease_expires(simulator: Simulator, received: Callable[[], bytes]) -> None:
    simulator.delete_many("", "events", list(simulator.objects("", "events")))


async def the_definition_goes(simulator: Simulator, received: Callable[[], bytes]) -> None:
    simulator.advance(41799)
    simulator.delete(*CRDS, "", "widgets.example.com")


async def the_definition_changes(simulator: Simulator, received: Callable[[], bytes]) -> None:
    give_default(simulator)


# --- cases ----------------------------------------------------------------------------------------


def own(body: bytes) -> bytes:
    """Without what is each server's own: uids, versions, times."""
    body = re.sub(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", b"UID", body)
    body = re.sub(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", b"TIME", body)
    return re.sub(rb'"resourceVersion":"\d+"', b'"resourceVersion":"N"', body)


def addressless(body: bytes) -> bytes:
    return re.sub(rb"127\.0\.0\.1:\d+", b"HOST:PORT", body)


def keys_alone(body: bytes) -> bytes:
    return json.dumps(list(json.loads(body))).encode()


def parsed(body: bytes) -> bytes:
    """The same values; the order of keys inside a definition is the writer's."""
    return json.dumps(json.loads(own(body)), sort_keys=True).encode()


@dataclass(frozen=True)
class Case:
    state: Callable[[], Simulator]
    during: During | None = None
    form: Callable[[bytes], bytes] = bytes
    token: str = ""


CASES: dict[str, Case] = {
    "access-review-allowed": Case(reader_of_wire2, form=own, token="reader"),
    "access-review-denied": Case(reader_of_wire2, form=own, token="reader"),
    "api-aggregated-v2": Case(Simulator),
    "api-legacy": Case(Simulator, form=addressless),
    "apis-aggregated-v2": Case(Simulator),
    "apis-legacy": Case(Simulator),
    "crd-default-after-same-rv": Case(lambda: default_added(50984, 50984)),
    "crd-default-before": Case(lambda: widgets("crd-default-before", 50983)),
    "crd-definition": Case(lambda: widgets("", 0), form=parsed),
    "crd-deleted-during-watch": Case(lambda: widgets("crd-list", 41795), the_definition_goes),
    "crd-first-list-right-after-create": Case(lambda: widgets("", 0, warmup=60)),
    "crd-gone-list": Case(no_widgets),
    "crd-gone-watch": Case(no_widgets),
    "crd-list": Case(lambda: widgets("crd-list", 41795)),
    "crd-list-page-1": Case(lambda: widgets("crd-list", 41795)),
    "crd-list-selectable-field": Case(lambda: widgets("crd-list", 41795)),
    "crd-spec-changed-during-watch": Case(
        lambda: widgets("crd-default-before", 50983), the_definition_changes
    ),
    "crd-watch-after-spec-change-410": Case(lambda: default_added(51007, 51007)),
    "crd-watch-right-after-spec-change-429": Case(lambda: default_added(51007, 51007, warmup=60)),
    "list-all": Case(lambda: configmaps(1313)),
    "list-bad-continue": Case(lambda: configmaps(1313)),
    "list-bad-field-selector": Case(lambda: configmaps(1313)),
    "list-empty": Case(lambda: configmaps(1313)),
    "list-exact-expired-410": Case(lambda: compacted(1390)),
    "list-expired-continue-410": Case(lambda: compacted(1390)),
    "list-field-selector": Case(lambda: configmaps(1313)),
    "list-forbidden": Case(lambda: guarded(1390), token="reader"),
    "list-inconsistent-continue": Case(lambda: compacted(1390)),
    "list-label-selector": Case(lambda: configmaps(1313)),
    "list-namespace-that-does-not-exist": Case(lambda: configmaps(41804)),
    "list-page-1": Case(lambda: configmaps(1313)),
    "list-page-2": Case(lambda: configmaps(1340)),
    "list-page-3-last": Case(lambda: configmaps(1340)),
    "list-partial-metadata": Case(lambda: configmaps(1314)),
    "list-pods-bad-limit": Case(Simulator),
    "list-pods-realistic": Case(pods),
    "list-probe-of-one-object": Case(lambda: configmaps(50975)),
    "list-rv-too-large": Case(lambda: configmaps(1314)),
    "list-rv0-limit-ignored": Case(lambda: configmaps(1313)),
    "list-unauthorized": Case(lambda: guarded(1313), token="nobody"),
    "list-unknown-resource": Case(Simulator),
    "namespace-kube-system": Case(Simulator, form=own),
    "rbac-all-namespaces-forbidden": Case(reader_of_wire2, token="reader"),
    "rbac-one-namespace-allowed": Case(reader_of_wire2, token="reader"),
    "rbac-watch-forbidden": Case(reader_of_wire2, token="reader"),
    "resources-apps-v1": Case(Simulator),
    "resources-core-v1": Case(Simulator),
    "version": Case(Simulator, form=keys_alone),
    "watch-add-modify-delete": Case(lambda: configmaps(1314), cm_6_after_a_bookmark),
    "watch-at-the-current-rv-no-bookmark": Case(lambda: configmaps(50999)),
    "watch-bad-rv": Case(lambda: configmaps(1313)),
    "watch-expired-410-event": Case(lambda: compacted(1390)),
    "watch-resumed-inside-one-rv": Case(expired_events),
    "watch-rv-1-too-old": Case(lambda: configmaps(1340)),
    "watch-rv-too-large": Case(lambda: configmaps(1313)),
    "watch-selector-leave-and-enter": Case(lambda: configmaps(1340)),
    "watch-side-watch-bookmark-on-a-quiet-resource": Case(lambda: configmaps(50997)),
    "watch-three-deletions-at-one-rv": Case(recorded_events, the_lease_expires),
    "watch-timeout-with-bookmark": Case(lambda: quick(configmaps(1317), 1325)),
    "watchlist-missing-match": Case(lambda: configmaps(1313)),
    "watchlist-send-initial-events": Case(lambda: configmaps(1342)),
}


def quick(simulator: Simulator, upto: int) -> Simulator:
    simulator.advance(upto)
    simulator.second = 0.02
    return simulator


def test_every_recording_has_its_case() -> None:
    assert sorted(CASES) == RECORDINGS


@pytest.mark.parametrize("name", RECORDINGS)
async def test_the_answer_is_the_recorded_one(name: str) -> None:
    recording, case = load(name), CASES[name]
    simulator = case.state()
    if name == "watch-add-modify-delete":
        simulator.second = 0.3  # time for the writes between two bookmarks
    headers = {**recording.request_headers, "User-Agent": "syncd/0"}
    if case.token:
        headers["Authorization"] = f"Bearer {case.token}"
    async with (
        SimulatorServer(simulator) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60, headers=headers) as client,
        client.stream(recording.method, recording.target, content=recording.request_body) as answer,
    ):
        parts: list[bytes] = []
        during: asyncio.Task[None] | None = None
        if case.during is not None:
            during = asyncio.create_task(case.during(simulator, lambda: b"".join(parts)))
        async for part in answer.aiter_raw():
            parts.append(part)  # noqa: PERF401 - read by `during` as they come
        if during is not None:
            await during
    assert answer.status_code == recording.status
    assert {h: answer.headers.get(h) for h in HEADERS} == {h: recording.headers.get(h) for h in HEADERS}
    assert answer.headers.get("cache-control") == recording.headers.get("cache-control")
    assert ("etag" in answer.headers) == ("etag" in recording.headers)
    assert case.form(b"".join(parts)) == case.form(recording.body)
