"""What users of the cluster do: they create, change, relabel, delete, and make a name anew."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from typing import Any

from tests.chaos.schedule import Step
from tests.chaos.site import NAMESPACES, TYPES, Site
from tests.e2e.world import parts

STRANGE = (
    "nul \0 in it",
    "back\\u0000slash",
    "\x01\x1f\x7f\x85",
    "ä€\u2028\u2029<>&",
    "\U0001f600\U00020000\U000e0001\U0010fffd",
    "\ufffd\ufeff\uffff",
    '{"nested": "\\"json\\""}',
)


class Churn:
    """Writes to the cluster; each public method of a step's name is what that step means."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._simulator = site.simulator

    # --- single writes, for the other rooms too ---------------------------------------------------

    def fill(self, objects: int) -> None:
        """The cluster as it is before anybody looks."""
        rand = random.Random(self._site.schedule.seed)
        self._simulator.create_crd()
        for target in TYPES:
            for _ in range(objects):
                self.create(rand, target)
        self._site.oldest = self._simulator.resource_version

    def create(self, rand: random.Random, target: str, name: str = "", size: int = 0) -> None:
        """A new object, unless its name is taken. `size`: about so many bytes, 0 for a few."""
        type_ = TYPES[target]
        if target not in self._site.served():
            return
        present = self._simulator.collection(*type_).current.records
        key = name or f"{rand.choice(NAMESPACES)}/{rand.choice('abc')}-{rand.randrange(60)}"
        if key in present:
            return
        namespace, plain = parts(key)
        metadata: dict[str, Any] = {
            "namespace": namespace,
            "name": plain,
            "labels": {"tier": _tier(rand)},
        }
        content = _content(rand, size)
        bodies = {
            "configmaps": {"data": {"n": content}},
            "pods": {"spec": {"nodeName": content}, "status": {"phase": "Running"}},
            "widgets": {"spec": {"size": content}},
        }
        manager = "kubelet" if rand.random() < 0.3 else ""
        self._simulator.create(*type_, {"metadata": metadata, **bodies[target]}, manager=manager)

    def write_one(self, rand: random.Random, target: str) -> None:
        """Any one write to the resource."""
        what = rand.random()
        key = self._any(rand, target)
        if key is None or what < 0.25:
            self.create(rand, target)
            return
        type_ = TYPES[target]
        namespace, name = parts(key)
        if what < 0.6:
            patch: dict[str, Any] = {"metadata": {"annotations": {"at": f"{rand.random()}"}}}
            self._simulator.patch(*type_, namespace, name, patch)
        elif what < 0.75:
            patch = {"metadata": {"labels": {"tier": _tier(rand)}}}
            self._simulator.patch(*type_, namespace, name, patch)
        elif what < 0.9:
            self._simulator.delete(*type_, namespace, name)
        else:
            self._simulator.delete(*type_, namespace, name)
            self.create(rand, target, key)

    def write_some(self, rand: random.Random, most: int) -> None:
        """Fewer than `most` writes, to any resource."""
        for _ in range(rand.randrange(most)):
            self.write_one(rand, rand.choice(tuple(TYPES)))

    def forget(self, rand: random.Random, target: str, amount: int) -> None:
        """What happened is forgotten before anybody was told: a relist."""
        self._simulator.faults.stall_watches(target)
        for _ in range(amount):
            self.write_one(rand, target)
        self._simulator.compact()
        self._simulator.faults.cut_watches(target)

    def _keys(self, target: str) -> list[str]:
        return list(self._simulator.collection(*TYPES[target]).current.keys)

    def _any(self, rand: random.Random, target: str) -> str | None:
        keys = self._simulator.collection(*TYPES[target]).current.keys
        return rand.choice(keys) if keys and target in self._site.served() else None

    # --- steps ------------------------------------------------------------------------------------

    async def write(self, step: Step, rand: random.Random) -> None:
        for _ in range(step.amount):
            self.write_one(rand, step.target)
            if rand.random() < 0.2:
                await asyncio.sleep(0)

    async def storm(self, step: Step, rand: random.Random) -> None:
        for _ in range(step.amount):
            self.write_one(rand, step.target)

    async def odd(self, step: Step, rand: random.Random) -> None:
        for _ in range(step.amount):
            self.create(rand, step.target)
            key = self._any(rand, step.target)
            if key is not None:
                text = rand.choice(STRANGE)
                notes = {"strange": text, text.replace("\0", "0"): "key"}
                self._simulator.patch(*TYPES[step.target], *parts(key), {"metadata": {"annotations": notes}})

    async def big(self, step: Step, rand: random.Random) -> None:
        key = self._any(rand, step.target)
        if key is not None:
            self._simulator.delete(*TYPES[step.target], *parts(key))
            self.create(rand, step.target, key, step.amount)

    huge = big

    async def delete_together(self, step: Step, rand: random.Random) -> None:
        """Many at one version, as where a lease expires."""
        keys = self._keys(step.target)
        if keys and step.target in self._site.served():
            chosen = rand.sample(keys, min(len(keys), step.amount))
            self._simulator.delete_many(*TYPES[step.target], chosen)

    async def wipe(self, step: Step, rand: random.Random) -> None:
        inside = f"{rand.choice(NAMESPACES)}/"
        for key in self._keys(step.target):
            if key.startswith(inside):
                self._simulator.delete(*TYPES[step.target], *parts(key))

    async def empty(self, step: Step, rand: random.Random) -> None:
        """All of it goes, unseen: more than a list may delete unconfirmed."""
        self._simulator.faults.stall_watches(step.target)
        for key in self._keys(step.target):
            self._simulator.delete(*TYPES[step.target], *parts(key))
        self.forget(rand, step.target, rand.choice((0, 3, 30)))

    async def starve(self, step: Step, rand: random.Random) -> None:
        """The server forgets more quickly than a snapshot is written."""
        if step.target in self._site.served():
            self._site.windows.open(lambda: self._starving(step, rand), 0.0)

    @contextlib.asynccontextmanager
    async def _starving(self, step: Step, rand: random.Random) -> AsyncIterator[None]:
        seconds = step.amount / 1000
        self._simulator.faults.delay(0.01, resource=step.target, verb="list", seconds=seconds)
        self.forget(rand, step.target, 3)
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            self.write_one(rand, step.target)
            self._simulator.compact()
            await asyncio.sleep(0.02)
        yield


def _content(rand: random.Random, size: int) -> str:
    """Half of what is large can be compressed, half cannot."""
    if not size:
        return "x" if rand.random() < 0.1 else f"{rand.random()}"
    if rand.random() < 0.5:
        return rand.randbytes(size // 2).hex()
    return "".join(rand.choices('abcdefgh \n"é€', k=min(size, 4000))) * (size // 4000 + 1)


def _tier(rand: random.Random) -> str:
    return "gold" if rand.random() < 0.7 else "tin"
