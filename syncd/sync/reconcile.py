"""One reconcile of one stream: a snapshot beside the live watch, and what it finds wrong with the table.

Pages are compared as they come; an equal row needs no wait. Keys that differ are held until the stream has
passed the list's version, and judged then between two batches by the stream's own writer, so changes in
flight are never drift and the stream never waits. A clean reconcile writes its report alone (mirror.md §6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from syncd.core.change import Batch, Deletion, Drift, DriftKind, KeyRange, RowVersion
from syncd.core.document import Item
from syncd.core.errors import FenceLost, ProtocolError, SyncdError
from syncd.core.listwatch import ListWatch, SnapshotPage
from syncd.core.ports import Report
from syncd.core.resource import Cause, compare_versions
from syncd.core.snapshot import difference, judge
from syncd.sync.environment import Environment
from syncd.sync.inbox import Relist, Task
from syncd.sync.reflector import POLL, Reflector
from syncd.sync.side_watch import side_watch
from syncd.sync.snapshot import PAGE_BYTES, pages

HELD_BYTES = 64 * 1024 * 1024  # of differing objects; past it the table is not drifting but wrong: relist
HELD_KEYS = 20_000
PAGE = 50  # objects, while the stream moves: a page holds it up for a millisecond, one of 500 for ten
QUIET = 500  # objects compared without an event: then pages grow, and the list is done sooner
SIDE_WATCHES = 3
_CHUNK = 500


class Void(Exception):
    """The reconcile cannot be finished; the message says why."""


@dataclass(frozen=True, slots=True)
class Order:
    """What was asked for. `deep` compares content; a dry run records and repairs nothing."""

    deep: bool = False
    dry_run: bool = False
    request_id: int | None = None


class Reconcile:
    """One run over one stream.

    Args:
        progress: called after each page with the objects checked so far and the server's estimate of
            those to come.
    """

    def __init__(
        self,
        environment: Environment,
        reflector: Reflector,
        order: Order,
        progress: Callable[[int, int | None], None] = lambda checked, remaining: None,
    ) -> None:
        self._environment = environment
        self._reflector = reflector
        self._order = order
        self._progress = progress
        self._held: dict[str, Item | None] = {}
        self._held_bytes = 0
        self._machine = reflector.machine  # a relist or a restart brings another, and voids this run
        self.report = Report()

    async def run(self) -> Report:
        """Compares, waits, judges, repairs, reports. Errors of the API end in the report's `error`.

        Holds one of the cluster's slots for snapshots, but for a poll: that takes one like any other.
        """
        if self._polls:
            return await self._run()
        async with self._environment.snapshots:
            return await self._run()

    @property
    def _polls(self) -> bool:
        return self._reflector.settings.poll is not None and not self._order.dry_run

    async def _run(self) -> Report:
        environment, reflector = self._environment, self._reflector
        began = environment.clock.monotonic()
        if not reflector.live:
            reason = reflector.progress.error or f"it is {reflector.progress.state}"
            self.report.error = f"the stream is not live: {reason}"
            return self.report
        self._machine = reflector.machine
        try:
            await self._begin()
            if self._polls:
                await self._poll()
            elif reflector.settings.poll:
                await self._count_listed()
            else:
                await self._compare()
            if self._held:
                await self._catch_up()
                received = self._machine.received
                await self._between_batches(lambda: self._judge(received))
        except Void as reason:
            self.report.error = str(reason)
        except SyncdError as error:
            self.report.error = str(error)
        finally:
            self._held.clear()
        if self.report.reconciliation_id:
            await self._finish()
        environment.metrics.reconciled(reflector.stream, environment.clock.monotonic() - began)
        return self.report

    async def _begin(self) -> None:
        order, writer, store = self._order, self._reflector.writer, self._environment.store
        self.report.reconciliation_id = await writer.attempt(
            lambda: store.begin_reconciliation(
                writer.row, deep=order.deep, dry_run=order.dry_run, request_id=order.request_id
            )
        )

    async def _finish(self) -> None:
        writer, report = self._reflector.writer, self.report
        try:
            await writer.attempt(
                lambda: self._environment.store.finish_reconciliation(
                    writer.row, report.reconciliation_id, report
                )
            )
        except FenceLost as error:  # the stream began anew meanwhile: void, and the row stays open
            report.error = report.error or str(error)

    # --- a stream without a watch -----------------------------------------------------------------

    async def _poll(self) -> None:
        """Of a polled stream: a poll now, after the one that may be under way. What it finds is told from
        what changed since the last one by nothing, so there are no findings.
        """
        reflector, report = self._reflector, self.report
        wish = Relist(POLL, self._order.deep, retry=True)
        while True:
            self._machine = reflector.machine  # the poll before brought another
            try:
                await self._between_batches(lambda: reflector.snapshot(wish))
                break
            except Void:
                if reflector.rested.is_set():
                    raise
            await reflector.rested.wait()
            if not reflector.live:
                raise Void(f"the stream is not live: {reflector.progress.error}")
        report.list_version = reflector.writer.row.resource_version or ""
        report.checked = reflector.progress.listed
        self._progress(report.checked, 0)

    async def _count_listed(self) -> None:
        """Of a polled stream in a dry run: how many objects there are."""
        reflector, report = self._reflector, self.report
        lister = ListWatch(reflector.settings.transform, limit=min(PAGE, reflector.settings.page_size))
        async with aclosing(
            pages(self._environment, reflector.stream, lister, whole=False, versioned=False)
        ) as source:
            async for page in source:
                report.list_version = page.resource_version
                report.checked += len(page.items)
                self._progress(report.checked, 0 if page.last else page.remaining)

    # --- comparing --------------------------------------------------------------------------------

    async def _compare(self) -> None:
        reflector = self._reflector
        ordered = reflector.settings.ranges and not reflector.writer.row.unordered
        seen: set[str] | None = None if ordered else set()
        since = self._machine.position
        largest = reflector.settings.page_size
        lister = ListWatch(reflector.settings.transform, limit=min(PAGE, largest))
        async with aclosing(
            pages(self._environment, reflector.stream, lister, whole=self._order.deep)
        ) as source:
            async for page in source:
                quiet = self._machine.position == since and self.report.checked > QUIET
                lister.limit = _limit(page, quiet=quiet, largest=largest)
                if page.first:
                    self.report.list_version = page.resource_version
                    self._check_version(page.resource_version, since)
                if not page.ordered and seen is None:
                    self._reflector.relist("unordered")
                    raise Void("the server does not list in byte order; a relist will remember it")
                await self._compare_page(page, seen)
                self.report.checked += len(page.items)
                self._progress(self.report.checked, 0 if page.last else page.remaining)

    def _check_version(self, version: str, since: str) -> None:
        """A list cannot be behind what the stream had received when it was asked for."""
        if compare_versions(version, since) == -1:
            self._reflector.relist("behind", content=False)
            raise Void(f"the list is at {version}, behind the stream; a relist decides")

    async def _compare_page(self, page: SnapshotPage, seen: set[str] | None) -> None:
        keys: KeyRange | list[str] = page.range
        if seen is not None:
            keys = [item.key for item in page.items]
            seen.update(keys)
        found = difference(page.items, await self._rows(keys))
        for listed in (*found.upserts, *found.retry):
            self._hold(listed.key, self._reflector.settings.transform.whole(listed))
        gone = found.gone
        if seen is not None:
            rows = await self._rows(KeyRange()) if page.last else []
            gone = tuple(row for row in rows if row.key not in seen)
        for row in gone:
            self._hold(row.key, None)

    def _hold(self, key: str, item: Item | None) -> None:
        self._held[key] = item
        self._held_bytes += 200 if item is None else item.size
        if self._held_bytes > HELD_BYTES or len(self._held) > HELD_KEYS:
            self._reflector.relist("too_much_drift", content=self._order.deep)
            raise Void("more differs than a reconcile holds; a relist brings the table level")

    async def _rows(self, keys: KeyRange | list[str]) -> list[RowVersion]:
        writer, store = self._reflector.writer, self._environment.store
        return await writer.attempt(lambda: store.rows(writer.row, keys, documents=self._order.deep))

    # --- catching up ------------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        """Until the stream has passed the list's version. A quiet resource gets a bookmark only each
        minute, so a short side watch asks for one; where none comes, a relist takes over.
        """
        timing = self._environment.timing
        if await self._passed(timing.side_watch * 0.1):
            return
        for _ in range(SIDE_WATCHES if self._reflector.settings.bookmarks else 0):
            await side_watch(self._environment, self._reflector, self.report.list_version)
            if await self._passed(timing.side_watch * 0.1):
                return
        if await self._passed(timing.catch_up):
            return
        self._reflector.relist("reconcile")
        raise Void("the stream did not reach the list's version; a relist brings the table level")

    async def _passed(self, patience: float) -> bool:
        clock = self._environment.clock
        until = clock.monotonic() + patience
        while True:
            if self._reflector.machine is not self._machine:
                raise Void("the stream began anew meanwhile")
            if self._machine.passed(self.report.list_version):
                return True
            if clock.monotonic() >= until:
                return False
            await clock.sleep(min(0.02, patience / 4))

    # --- judging ----------------------------------------------------------------------------------

    async def _between_batches(self, work: Callable[[], Awaitable[None]]) -> None:
        """Posts the work behind all that was received, for the stream's one writer, and waits for it."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def work_now() -> None:
            if self._reflector.machine is not self._machine:
                void("the stream began anew meanwhile")
            if done.done():
                return
            try:
                await work()
            except BaseException as error:
                if not done.done():
                    done.set_exception(Void(str(error) or type(error).__name__))
                raise
            if not done.done():
                done.set_result(None)

        def void(reason: str) -> None:
            if not done.done():
                done.set_exception(Void(reason))

        self._reflector.inbox.post(Task(work_now, void))
        await done

    async def _judge(self, received: str) -> None:
        held = list(self._held.items())  # who asked may give up, and forget them, at any time
        for start in range(0, len(held), _CHUNK):
            await self._judge_keys(dict(held[start : start + _CHUNK]), received)

    async def _judge_keys(self, held: dict[str, Item | None], received: str) -> None:
        keys = list(held)
        writer, store = self._reflector.writer, self._environment.store
        rows = {row.key: row for row in await self._rows(keys)}
        buried = await writer.attempt(lambda: store.tombstones(writer.row, keys))
        tombstones = {stone.key: stone for stone in buried if stone.cause.guards}
        versions = (self.report.list_version, received)
        batch = Batch(guarded=False, reconciliation_id=self.report.reconciliation_id)
        upserts: list[Item] = []
        deletes: list[Deletion] = []
        findings: list[Drift] = []
        for key, item in held.items():
            row = rows.get(key)
            if row is not None and row.quarantined and item is not None and _same(item, row):
                upserts.append(item)  # not drift: the database refused it; it may take it now
                continue
            kind = judge(item, row, tombstones.get(key), versions)
            if kind is None:
                continue
            findings.append(_drift(kind, item, row))
            if item is not None:
                upserts.append(item)
            elif row is not None:
                deletes.append(Deletion(key, row.uid, self.report.list_version, Cause.RECONCILE))
        batch.drift = findings
        batch.repaired = not self._order.dry_run
        if batch.repaired:
            batch.upserts, batch.deletes = upserts, deletes
        if findings or batch.upserts:
            await writer.commit(batch, changes=len(batch.upserts) + len(batch.deletes))
        self._count(findings)

    def _count(self, findings: list[Drift]) -> None:
        report = self.report
        report.repaired += 0 if self._order.dry_run else len(findings)
        for finding in findings:
            self._environment.metrics.drift(self._reflector.stream, finding.kind)
            match finding.kind:
                case DriftKind.MISSING:
                    report.missing += 1
                case DriftKind.STALE:
                    report.stale += 1
                case DriftKind.GHOST:
                    report.ghost += 1
                case DriftKind.ALTERED:
                    report.altered += 1


def _limit(page: SnapshotPage, *, quiet: bool, largest: int) -> int:
    """Of the page after the next: a stream that moves has readers who wait, a quiet one has none."""
    if quiet and page.size <= PAGE_BYTES // 2:
        return min(2 * max(len(page.items), PAGE), largest)
    return min(PAGE, largest)


def _same(item: Item, row: RowVersion) -> bool:
    return (item.uid, item.resource_version) == (row.uid, row.resource_version)


def _drift(kind: DriftKind, item: Item | None, row: RowVersion | None) -> Drift:
    subject = item or row
    if subject is None:
        raise ProtocolError("drift without an object and without a row")
    return Drift(
        kind=kind,
        key=subject.key,
        namespace=subject.namespace,
        name=subject.name,
        uid=subject.uid,
        table_version=row.resource_version if row else None,
        cluster_version=item.resource_version if item else None,
    )
