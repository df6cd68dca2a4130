"""Sinks from end to end: a receiver that fails and is slow gets every change, in order by object."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from syncd.app.service import Service
from tests.e2e.world import CONFIGMAPS, PODS, QUICK, World, until

SECRET = "s3cret-of-the-sink"


class Receiver:
    """A webhook that answers as it is told.

    Attributes:
        taken: events that it acknowledged, in order.
        status: what it answers; delay: after so many seconds.
        refused: how often it did not acknowledge.
    """

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.status = 204
        self.delay = 0.0
        self.refused = 0
        self.busy = self.most = 0
        self.wrong: list[str] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=never-logged"

    def config(self, **more: Any) -> dict[str, Any]:
        return {"name": "cmdb", "webhook": {"url": self.url, "secret": SECRET}, **more}

    async def answer(self, request: Request) -> Response:
        body = await request.body()
        signed = request.headers["x-syncd-timestamp"].encode() + b"." + body
        mine = "sha256=" + hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
        if request.headers["x-syncd-signature"] != mine:
            self.wrong.append("signature")
        if not request.headers["content-type"].startswith("application/cloudevents+json"):
            self.wrong.append("content type")
        self.busy += 1
        self.most = max(self.most, self.busy)
        await asyncio.sleep(self.delay)
        self.busy -= 1
        if self.status >= 300:
            self.refused += 1
        else:
            self.taken.append(json.loads(body))
        return Response(status_code=self.status)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Receiver]:
        app = Starlette(routes=[Route("/hook", self.answer, methods=["POST"])])
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        task = asyncio.create_task(server.serve())
        await until(lambda: server.started, "the receiver serves")
        self.port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.should_exit = True
            await task


def recorded(world: World) -> set[int]:
    return {sequence for (sequence,) in world.table.ask("SELECT sequence FROM syncd_changes")}


def arrived(receiver: Receiver) -> set[int]:
    return {event["data"]["sequence"] for event in receiver.taken}


def check_order(receiver: Receiver) -> None:
    last: dict[tuple[str, str], int] = {}
    known: set[int] = set()
    for event in receiver.taken:
        data = event["data"]
        if data["sequence"] in known:
            continue  # told twice
        known.add(data["sequence"])
        key = (data["resource"], data["object_key"])
        assert data["sequence"] > last.get(key, 0)
        last[key] = data["sequence"]


async def test_a_receiver_that_fails_and_is_slow_gets_everything(world: World) -> None:
    world.workload.pods(40)
    async with Receiver().serving() as receiver:
        world.write_config("pods", sinks=[receiver.config()])
        process = await world.spawn(scale=0.2)
        await process.ready()
        await until(lambda: len(receiver.taken) == 40, "what was there arrives")
        receiver.status = 503
        async with world.churn(150):
            await until(lambda: receiver.refused > 3, "it refuses")
            await asyncio.sleep(0.5)
            status = (await process.get("/status")).json()
            assert status["sinks"][0]["error"].endswith("answers 503")
            metrics = (await process.get("/metrics")).text
            assert 'syncd_sink_failures_total{sink="cmdb"}' in metrics
            receiver.status, receiver.delay = 200, 0.01
        await world.level(PODS)
        await until(lambda: arrived(receiver) >= recorded(world), "everything arrives")
        assert arrived(receiver) == recorded(world)
        assert receiver.wrong == []
        assert 1 < receiver.most <= 4
        check_order(receiver)
        event = receiver.taken[0]
        assert (event["specversion"], event["type"]) == ("1.0", "syncd.object.created")
        assert event["source"] == "/syncd/c"
        assert event["subject"] == f"pods/{event['data']['object_key']}"
        assert await process.stop() == 0
    for secret in (SECRET, "never-logged"):
        assert secret not in process.text


async def test_it_goes_on_where_it_was_killed(world: World) -> None:
    world.workload.pods(60)
    async with Receiver().serving() as receiver:
        world.write_config("pods", sinks=[receiver.config()])
        for _ in range(3):
            process = await world.spawn()
            async with world.churn(200):
                goal = len(receiver.taken) + 40
                await until(lambda: len(receiver.taken) >= goal, "some arrive")  # noqa: B023
                await process.kill()
        process = await world.spawn()
        await process.ready()
        await world.level(PODS)
        await until(lambda: arrived(receiver) >= recorded(world), "everything arrives")
        assert arrived(receiver) == recorded(world)
        check_order(receiver)


async def test_sinks_follow_the_configuration(world: World) -> None:
    world.workload.pods(5)
    world.workload.configmaps(3)
    async with Receiver().serving() as receiver, world.running("pods", "configmaps", timing=QUICK) as daemon:
        stop = asyncio.Event()
        service = asyncio.create_task(Service(daemon).run(stop))
        await world.level(PODS, CONFIGMAPS)
        daemon.config = world.config("pods", "configmaps", sinks=[receiver.config(kinds=["ConfigMap"])])
        cursor = "SELECT count(*) FROM syncd_cursors WHERE name = 'sink:cmdb'"
        await until(lambda: world.table.one(cursor), "it begins")
        key = next(iter(world.simulator.collection(*PODS).current.keys))
        world.simulator.delete(*PODS, *key.split("/"))
        world.simulator.create(*CONFIGMAPS, {"metadata": {"namespace": "default", "name": "fresh"}})
        await until(lambda: receiver.taken, "what it asks for arrives")
        assert [event["subject"] for event in receiver.taken] == ["configmaps/default/fresh"]
        everything = receiver.config(name="all", begin="oldest")
        daemon.config = world.config("pods", "configmaps", sinks=[everything])
        await until(lambda: arrived(receiver) == recorded(world), "the other one is given everything")
        assert daemon.sinks is not None
        assert [delivery.settings.name for delivery in daemon.sinks.deliveries] == ["all"]
        stop.set()
        await service
