"""What the API server does: it cuts, stalls, refuses, forgets, goes back in time and becomes another one."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

from syncd.simulator.custom import CRDS
from syncd.simulator.faults import WATCH_LISTS
from tests.chaos.churn import Churn
from tests.chaos.schedule import Step
from tests.chaos.site import DEFINITION, TYPES, Site


class ServerFaults:
    """Each public method of a step's name is what that step means."""

    def __init__(self, site: Site, churn: Churn) -> None:
        self._site = site
        self._churn = churn
        self._simulator = site.simulator
        self._faults = site.simulator.faults

    def _maybe_cut(self, rand: random.Random, target: str) -> None:
        """So that a fault of requests meets one."""
        if rand.random() < 0.6:
            self._churn.forget(rand, target, 3)

    # --- watches ----------------------------------------------------------------------------------

    async def cut(self, step: Step, rand: random.Random) -> None:
        self._faults.cut_watches(step.target)

    async def cut_mid_line(self, step: Step, rand: random.Random) -> None:
        self._faults.cut_watches(step.target, mid_line=True)
        self._churn.write_one(rand, step.target)

    async def cut_after(self, step: Step, rand: random.Random) -> None:
        self._faults.cut_watches(step.target, after_bytes=step.amount)

    async def end(self, step: Step, rand: random.Random) -> None:
        self._faults.end_watches(step.target)

    async def stall(self, step: Step, rand: random.Random) -> None:
        self._faults.stall_watches(step.target)

    async def error_event(self, step: Step, rand: random.Random) -> None:
        self._faults.fail_watches(rand.choice((410, 429, 500, 504)), step.target)

    async def drop(self, step: Step, rand: random.Random) -> None:
        if step.target in self._site.served():
            self._faults.drop_events(step.amount, group=TYPES[step.target][0], resource=step.target)
            for _ in range(step.amount):
                self._churn.write_one(rand, step.target)
            self._simulator.collection(*TYPES[step.target]).hide = 0

    async def spoil_watch_list(self, step: Step, rand: random.Random) -> None:
        group = TYPES[step.target][0]
        self._faults.spoil_watch_lists(rand.choice(WATCH_LISTS), group=group, resource=step.target)
        self._maybe_cut(rand, step.target)

    # --- answers ----------------------------------------------------------------------------------

    async def truncate(self, step: Step, rand: random.Random) -> None:
        self._faults.truncate(step.amount, resource=step.target, times=rand.randint(1, 3))
        self._maybe_cut(rand, step.target)

    async def answer(self, step: Step, rand: random.Random) -> None:
        conditions: dict[str, Any] = {"times": step.amount, "plain": rand.random() < 0.3}
        if rand.random() < 0.85:
            conditions["resource"] = step.target
        if rand.random() < 0.5:
            conditions["verb"] = rand.choice(("list", "watch"))
        if step.status == 429:
            conditions["retry_after"] = 0
        if rand.random() < 0.2:
            conditions["close"] = True
        self._faults.answer(step.status, **conditions)
        self._maybe_cut(rand, step.target)

    async def expire_tokens(self, step: Step, rand: random.Random) -> None:
        self._faults.expire_tokens(times=step.amount, resource=step.target)
        self._maybe_cut(rand, step.target)

    async def reverse(self, step: Step, rand: random.Random) -> None:
        """Pages out of order, as only an aggregated server may give them."""
        self._faults.reverse(times=step.amount, resource=step.target)
        self._maybe_cut(rand, step.target)

    async def slow(self, step: Step, rand: random.Random) -> None:
        self._faults.delay(step.amount / 1000, resource=step.target, times=rand.randint(1, 12))
        self._maybe_cut(rand, step.target)

    async def away(self, step: Step, rand: random.Random) -> None:
        """Nobody listens; what comes back is a process that need not remember."""
        forgets = rand.random() < 0.5
        self._site.windows.open(lambda: self._away(forgets=forgets), step.amount / 1000)

    @contextlib.asynccontextmanager
    async def _away(self, *, forgets: bool) -> AsyncIterator[None]:
        await self._site.front.shut()
        try:
            yield
        finally:
            if forgets:
                self._simulator.compact()
            await self._site.front.reopen()

    async def clear(self, step: Step, rand: random.Random) -> None:
        self._faults.clear()

    # --- the past ---------------------------------------------------------------------------------

    async def compact(self, step: Step, rand: random.Random) -> None:
        self._simulator.compact()

    async def gap(self, step: Step, rand: random.Random) -> None:
        self._churn.forget(rand, step.target, step.amount)

    async def rollback(self, step: Step, rand: random.Random) -> None:
        self._roll_back(step, rand, masked=False)

    async def masked_rollback(self, step: Step, rand: random.Random) -> None:
        self._roll_back(step, rand, masked=True)

    def _roll_back(self, step: Step, rand: random.Random, *, masked: bool) -> None:
        simulator, site = self._simulator, self._site
        lost = simulator.resource_version
        version = max(site.oldest, lost - step.amount)
        site.distrust()
        site.history.rolled_back(version)
        simulator.rollback(version, masked_past=lost + rand.randint(0, 3) if masked else None)
        if rand.random() < 0.5:
            simulator.compact()
        for _ in range(rand.choice((0, 0, 3, 30))):
            self._churn.write_one(rand, rand.choice(tuple(TYPES)))

    async def other_cluster(self, step: Step, rand: random.Random) -> None:
        """Another one behind the same URL: with the same objects, or with others at other versions."""
        if rand.random() < 0.5:
            self._roll_back(step, rand, masked=rand.random() < 0.5)
        self._simulator.set_cluster_uid(self._simulator.uid())
        self._simulator.compact()
        self._faults.cut_watches()

    # --- definitions and discovery ----------------------------------------------------------------

    async def crd_change(self, step: Step, rand: random.Random) -> None:
        definitions = self._simulator.objects(*CRDS)
        if DEFINITION in definitions:
            crd = definitions[DEFINITION]
            crd["metadata"].pop("resourceVersion")
            [version] = crd["spec"]["versions"]
            default = {"type": "string", "default": f"{rand.choice('xyz')}"}
            version["schema"]["openAPIV3Schema"]["properties"] = {"mode": default}
            self._simulator.crd_warmup = rand.choice((0.0, 0.05, 0.2))
            self._simulator.update(*CRDS, crd)

    async def crd_delete(self, step: Step, rand: random.Random) -> None:
        if DEFINITION in self._simulator.objects(*CRDS):
            self._simulator.delete(*CRDS, "", DEFINITION)

    async def crd_create(self, step: Step, rand: random.Random) -> None:
        if DEFINITION not in self._simulator.objects(*CRDS):
            self._simulator.crd_warmup = rand.choice((0.0, 0.05, 0.2))
            self._simulator.create_crd()
            for _ in range(rand.randrange(20)):
                self._churn.create(rand, "widgets")

    async def stale_group(self, step: Step, rand: random.Random) -> None:
        self._faults.stale_group("example.com")

    async def missing_group(self, step: Step, rand: random.Random) -> None:
        self._faults.missing_group("example.com")
