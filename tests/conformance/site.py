"""Where a scenario plays: a cluster, simulated or real, a database, and the product between them.

On a real cluster it works in namespaces and types of its own making, whose names are drawn at random, and
takes them away again; it writes nowhere else.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

from syncd.app.daemon import Daemon
from syncd.core.errors import ApiError, NotFound
from syncd.core.ports import ListRequest, WatchRequest
from syncd.core.recovery import Timing
from syncd.core.resource import Resource, Stream
from syncd.kube.client import KubeClient
from syncd.kube.kubeconfig import load_connection
from syncd.simulator.server import SimulatorServer
from tests.conformance.wire import Wire
from tests.conformance.writer import Json, Writer
from tests.conftest import DatabasePlace
from tests.e2e.table import Row
from tests.e2e.world import QUICK, World, differing, parts, until

CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)

UNHURRIED = replace(
    Timing(),
    backoff_first=0.2,
    resume_jitter=0.1,
    park_min=0.5,
    park_max=1.0,
    discovery=5.0,
    start_jitter=0.1,
    watch_min=20.0,
    watch_max=30.0,
)
"""Durations for a real cluster: it has its own, which do not scale."""


@dataclass(frozen=True, slots=True)
class Target:
    """A real cluster; `context` '' is the current one."""

    kubeconfig: Path
    context: str = ""


def target() -> Target | None:
    """The real cluster that `make test-cluster` was asked for, None for the simulator."""
    given = os.environ.get("SYNCD_TEST_KUBECONFIG", "")
    if not given:
        return None
    return Target(Path(given).expanduser().absolute(), os.environ.get("SYNCD_TEST_CONTEXT", ""))


@dataclass(frozen=True, slots=True)
class Ask:
    """A list or a watch that the product asked for."""

    stream: Stream
    request: ListRequest | WatchRequest


class Asked(list[Ask]):
    """What the product in this process asked for, in order."""

    def _of(self, kind: type, resource: Resource) -> list[Ask]:
        return [
            ask for ask in self if isinstance(ask.request, kind) and ask.stream.resource.name == resource.name
        ]

    def lists(self, resource: Resource) -> list[ListRequest]:
        """Pages of lists, probes left out."""
        found = [ask.request for ask in self._of(ListRequest, resource)]
        return [one for one in found if isinstance(one, ListRequest) and not _probes(one)]

    def probes(self, resource: Resource) -> int:
        found = [ask.request for ask in self._of(ListRequest, resource)]
        return sum(isinstance(one, ListRequest) and _probes(one) for one in found)

    def watches(self, resource: Resource) -> list[WatchRequest]:
        found = [ask.request for ask in self._of(WatchRequest, resource)]
        return [one for one in found if isinstance(one, WatchRequest)]


def _probes(request: ListRequest) -> bool:
    return request.limit == 1 and not request.continue_token


class Site(World):
    """A World whose cluster may be a real one; then it has no simulator.

    Attributes:
        cluster: to write to and to compare with.
        asked: lists and watches of the product in this process.
        wire: between it and a simulated cluster.
        own: the namespaced resources of which it makes objects, custom ones aside.
        timing: durations that fit the cluster.
    """

    def __init__(self, place: DatabasePlace, directory: Path, target: Target | None) -> None:
        super().__init__(place, directory)
        self._target = target
        self.timing = QUICK
        self.asked = Asked()
        self.wire = Wire()
        self.own = [CONFIGMAPS, SECRETS]
        self._namespaces: list[str] = []
        self._types: list[str] = []
        self._run = f"syncd-test-{secrets.token_hex(4)}"
        self.cluster: Writer
        if target is not None:
            del self.simulator, self.workload
            self.timing, self.deadline = UNHURRIED, 200.0
            self.kubeconfig = target.kubeconfig

    @property
    def simulated(self) -> bool:
        return self._target is None

    async def __aenter__(self) -> Self:
        if self.simulated:
            await super().__aenter__()
        context = (self._target.context if self._target else "") or None
        connection = load_connection(
            str(self.kubeconfig), context, environ=os.environ, home=Path.home(), service_account=Path("none")
        )
        self.cluster = await self._stack.enter_async_context(Writer(connection, user_agent="syncd-test"))
        self._stack.enter_context(self._recorded())
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if not self.simulated:
                await self._leave()
        finally:
            await super().__aexit__()

    def served(self) -> SimulatorServer:
        return SimulatorServer(self.simulator, around=self.wire.around)

    @property
    def entry(self) -> dict[str, str]:
        context = {"context": self._target.context} if self._target and self._target.context else {}
        return {**super().entry, **context}

    def _recorded(self) -> Any:
        lists, watch, asked = KubeClient.list, KubeClient.watch, self.asked

        def record_list(client: KubeClient, stream: Stream, request: ListRequest, **about: Any) -> Any:
            asked.append(Ask(stream, request))
            return lists(client, stream, request, **about)

        def record_watch(client: KubeClient, stream: Stream, request: WatchRequest, **about: Any) -> Any:
            asked.append(Ask(stream, request))
            return watch(client, stream, request, **about)

        return patch.multiple(KubeClient, list=record_list, watch=record_watch)

    # --- things of its own ------------------------------------------------------------------------

    async def namespace(self, suffix: str = "a") -> str:
        """A new namespace of its own; names sort as their suffixes do."""
        name = f"{self._run}-{suffix}"
        self._namespaces.append(name)
        await self.cluster.create(NAMESPACES, "", {"metadata": {"name": name}})
        return name

    async def type(self, **about: Any) -> Resource:
        """A new custom type of its own, served; `about` as `definition`."""
        group = f"{self._run}.example"
        crd = definition(group, **about)
        self._types.append(crd["metadata"]["name"])
        await self.cluster.create(CRDS, "", crd)
        resource = Resource(
            group,
            crd["spec"]["versions"][0]["name"],
            "gadgets",
            "Gadget",
            namespaced=crd["spec"]["scope"] == "Namespaced",
        )
        await self.cluster.served(resource)
        return resource

    async def fill(self, resource: Resource, namespace: str, count: int, prefix: str = "c") -> list[str]:
        """Makes objects; their keys."""
        names = [f"{prefix}-{number:04}" for number in range(count)]
        for start in range(0, count, 10):
            together = names[start : start + 10]
            await asyncio.gather(
                *(self.cluster.create(resource, namespace, made(resource, name)) for name in together)
            )
        return [f"{namespace}/{name}" for name in names]

    @asynccontextmanager
    async def stirred(
        self, resource: Resource, keys: Sequence[str], rate: float = 100.0
    ) -> AsyncIterator[None]:
        """Objects are changed, deleted and made anew while the block runs, at up to so many a second."""
        ended = asyncio.Event()
        task = asyncio.create_task(self._stir(resource, keys, rate, ended))
        try:
            yield
        finally:
            ended.set()
            await task

    async def _stir(self, resource: Resource, keys: Sequence[str], rate: float, ended: asyncio.Event) -> None:
        draw = random.Random(7)
        while not ended.is_set():
            key, text = draw.choice(keys), str(draw.random())
            if draw.random() < 0.75:
                await self.cluster.patch(resource, key, changed(resource, text))
            else:
                namespace, name = parts(key)
                await self.cluster.delete(resource, key)
                await self.cluster.create(resource, namespace, made(resource, name, text))
            await asyncio.sleep(1 / rate)

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """As `until`, for as long as this cluster may take."""
        await until(condition, what, deadline=self.deadline)

    def rows(self, resource: Resource) -> dict[str, Row]:
        """The rows of a resource by key."""
        return self.table.rows(resource.group, resource.name)

    async def mirrored(self, resource: Resource, *namespaces: str, selector: str = "") -> None:
        """Waits until the table holds exactly what the cluster lists of a resource, in these namespaces or
        everywhere.
        """
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self.deadline
        while found := await self.wrong(resource, *namespaces, selector=selector):
            assert loop.time() < ends_at, f"{len(found)} differ: {found[:5]}"
            await asyncio.sleep(0.03)

    async def wrong(self, resource: Resource, *namespaces: str, selector: str = "") -> list[str]:
        """How the table differs from what the cluster lists."""
        expected: dict[str, Json] = {}
        for namespace in namespaces or ("",):
            expected |= (await self.cluster.listed(resource, namespace, selector))[1]
        return differing(expected, await asyncio.to_thread(self.table.rows, resource.group, resource.name))

    @asynccontextmanager
    async def mirror(self, *resources: Any, **more: Any) -> AsyncIterator[Daemon]:
        """As `running`, with durations that fit the cluster."""
        async with self.running(*resources, **{"timing": self.timing, **more}) as daemon:
            yield daemon

    async def watch_writes(self) -> None:
        """As the table's. Not in the loop's own thread: what it waits for may be a commit of this process."""
        await asyncio.to_thread(self.table.watch_writes)

    async def write(self, *statements: str) -> None:
        """Changes made behind syncd's back, in one transaction, while it runs."""
        await asyncio.to_thread(self.table.write, *statements)

    def checkpoint(self, resource: Resource) -> str | None:
        """The version that a resource's only stream has committed."""
        query = "SELECT resource_version FROM syncd_streams WHERE api_group = ? AND resource = ?"
        found: str | None = self.table.one(query, resource.group, resource.name)
        return found

    def epoch(self) -> int:
        return int(self.table.one("SELECT epoch FROM syncd_clusters"))

    # --- cleaning up ------------------------------------------------------------------------------

    async def _leave(self) -> None:
        """Deletes what was made; a namespace may take its time to go, see `finish`."""
        for name in self._types:
            await self._remove(CRDS, name)
        for name in self._namespaces:
            for resource in self.own:
                await self._remove(resource, name, everything=True)
            await self._remove(NAMESPACES, name)
            GOING.append(name)

    async def _remove(self, resource: Resource, name: str, *, everything: bool = False) -> None:
        try:
            if everything:
                await self.cluster.empty(resource, name)
            else:
                await self.cluster.call("DELETE", f"{resource.path()}/{name}")
        except NotFound:
            pass
        except ApiError as error:
            LEFT.append(f"{resource.name} {name}: {error}")


GOING: list[str] = []
"""Namespaces whose deletion was asked for."""
LEFT: list[str] = []
"""What could not be cleaned up, and why."""


async def finish(aim: Target, patience: float = 20.0) -> None:
    """Waits until the namespaces are gone. Where no controller finishes their deletion (a bare API server, in
    which a namespace has no service account), it does that itself: they are its own, and empty.
    """
    connection = load_connection(
        str(aim.kubeconfig), aim.context or None, environ=os.environ, home=Path.home()
    )
    async with Writer(connection, user_agent="syncd-test") as cluster:
        going, ends_at = list(GOING), asyncio.get_running_loop().time() + patience
        while going and asyncio.get_running_loop().time() < ends_at:
            going = [name for name in going if await _present(cluster, name)]
            await asyncio.sleep(0.2 if going else 0)
        for name in going:
            namespace = await cluster.call("GET", f"{NAMESPACES.path()}/{name}")
            _, accounts = await cluster.listed(ACCOUNTS, name)
            if accounts or namespace.get("status", {}).get("conditions"):
                LEFT.append(f"namespace {name}: its deletion goes on")
                continue
            namespace["spec"] = {"finalizers": []}
            await cluster.call("PUT", f"{NAMESPACES.path()}/{name}/finalize", namespace)


async def _present(cluster: Writer, name: str) -> bool:
    try:
        await cluster.call("GET", f"{NAMESPACES.path()}/{name}")
    except NotFound:
        return False
    return True


def definition(
    group: str, *, versions: Sequence[str] = ("v1",), default: str = "", namespaced: bool = True
) -> Json:
    """A CustomResourceDefinition of gadgets, the last version stored.

    Args:
        default: of the field `spec.mode`, '' for none.
    """
    mode: Json = {"type": "string"} | ({"default": default} if default else {})
    spec = {
        "type": "object",
        "properties": {"mode": mode},
        "x-kubernetes-preserve-unknown-fields": True,
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [
                {"name": version, "served": True, "storage": version == versions[-1], "schema": schema}
                for version in versions
            ],
        },
    }


def made(resource: Resource, name: str, text: str = "first") -> Json:
    """A small object of one of the resources used here."""
    body: Json = {"spec": {"text": text}} if resource.group else {"data": {"text": text}}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "labels": {"made": "here"}},
        **body,
    }


def changed(resource: Resource, text: str) -> Json:
    """A merge patch that gives such an object another text."""
    return {"spec": {"text": text}} if resource.group else {"data": {"text": text}}


def within(resource: Resource, *namespaces: str, **more: Any) -> Json:
    """A configuration's entry for a resource in some namespaces."""
    return {"name": resource.qualified, "namespaces": list(namespaces), **more}
