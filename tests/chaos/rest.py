"""What must hold once all faults are gone: the table is the cluster, and a reconcile finds what nobody could
have been told, and nothing else.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.chaos.history import Type
from tests.chaos.replay import unequal
from tests.chaos.site import TYPES, Failed, Site

REST = 25.0
"""Seconds for the table to become the cluster once all faults are gone; usually well under one."""

SOON = 5.0
"""Seconds for what follows a commit by itself."""

Differences = dict[Type, dict[str, str]]


class Rest:
    """One seed's end."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def check(self) -> None:
        """
        Raises:
            Failed: something did not hold.
        """
        site = self._site
        await site.windows.close()
        site.simulator.faults.clear()
        # A process that has just begun answers once it knows its streams: till then the tables are an earlier
        # one's.
        await site.mirror.reconcile(dry_run=True)
        left = await self._until_level()
        reports = await self._reconcile(left)
        await self._until_level(exactly=True)
        found = [f"{report['stream']}: {report['error']}" for report in reports if report["error"]]
        found += site.checker.documents(site.table)
        taken = await asyncio.to_thread(site.picture)
        assert taken is not None
        found += site.checker.wrong(taken)
        found += site.checker.tombstones(site.table, taken, rescoped=site.rescoped)
        if site.record != "none":
            found += await self._unequal()
        query = "SELECT object_key, error FROM syncd_quarantine"
        found += [f"quarantined: {row}" for row in site.table.ask(query)]
        found += self._faults_of_our_own()
        site.judge()
        if found:
            raise Failed("at rest: " + "; ".join(found[:5]))

    async def _unequal(self) -> list[str]:
        """How the table differs from its records. What is recorded of a quiet stream since a reload begins
        with a commit of its own, which comes soon.
        """
        site, ends_at = self._site, time.monotonic() + SOON
        while True:
            found = unequal(site.table, documents=site.record == "versions")
            if not found or time.monotonic() > ends_at:
                return found
            await asyncio.sleep(0.05)

    async def _until_level(self, *, exactly: bool = False) -> Differences:
        """Until streams are live and only what watchers were never told differs; that."""
        site = self._site
        ends_at, before = time.monotonic() + REST, None
        while True:
            site.judge()
            taken = await asyncio.to_thread(site.picture)
            problem = "no picture can be had"
            if taken is not None:
                differs = site.checker.unlevel(taken)
                unexplained = differs if exactly else self._unexplained(differs)
                states = {(s.type_[1], s.namespace, s.selector): (s.state, s.error) for s in taken.streams}
                if states == dict.fromkeys(site.wanted(), ("live", "")) and not any(unexplained.values()):
                    if not any(differs.values()) or differs == before:
                        return differs
                    before = differs  # what is still on its way differs too
                    await asyncio.sleep(0.5)
                    continue
                some = {type_[1]: list(found.items())[:4] for type_, found in unexplained.items() if found}
                problem = f"streams {states}, differences {some}"
            if time.monotonic() > ends_at:
                raise Failed(f"not level within {REST:g} s of rest: {problem}")
            await asyncio.sleep(0.03)

    def _unexplained(self, differs: Differences) -> Differences:
        """Without what no watcher was told; a poll is told all."""
        site = self._site
        untold = {t: {} if site.polled(t) else keys for t, keys in site.history.untold.items()}
        return {
            type_: {key: what for key, what in found.items() if key not in untold[type_]}
            for type_, found in differs.items()
        }

    async def _reconcile(self, left: Differences) -> list[dict[str, Any]]:
        """Reconciles until no stream says that it could not; the last reports."""
        site = self._site
        ids = await self._newest_reconciliation()
        ends_at = time.monotonic() + REST
        lists = await self._lists()
        while True:
            reports = await site.mirror.reconcile()
            if not any(report["error"] for report in reports) or time.monotonic() > ends_at:
                break
            await asyncio.sleep(0.05)
        query = "SELECT api_group, resource, object_key, finding FROM syncd_drift WHERE reconciliation_id > ?"
        told: Differences = {type_: {} for type_ in TYPES.values()}
        for group, name, key, finding in await asyncio.to_thread(site.table.ask, query, ids):
            told[group, name][key] = finding
        relisted = await self._lists() != lists
        for type_ in TYPES.values():
            if told[type_] == left.get(type_, {}) or site.polled(type_):
                continue
            if relisted and told[type_].items() <= left[type_].items():
                continue  # the relist brought the rest
            raise Failed(f"{type_[1]}: the reconcile found {told[type_]}, not {left[type_]}")
        return reports

    async def _newest_reconciliation(self) -> int:
        query = "SELECT coalesce(max(reconciliation_id), 0) FROM syncd_reconciliations"
        return int(await asyncio.to_thread(self._site.table.one, query))

    async def _lists(self) -> list[tuple[Any, ...]]:
        query = "SELECT stream_id, last_list_at FROM syncd_streams ORDER BY stream_id"
        return await asyncio.to_thread(self._site.table.ask, query)

    def _faults_of_our_own(self) -> list[str]:
        found = []
        for line in self._site.mirror.text.splitlines():
            ours = '"level": "error"' in line or "Traceback" in line or "never retrieved" in line
            if ours and "taken over" not in line:
                found.append(f"logged: {line[:1500]}")
        return found
