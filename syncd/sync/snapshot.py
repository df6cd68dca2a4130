"""One snapshot: the pages of a list, each compared with the rows of its range and written where they differ.

While a page is written the next is opened and the one after fetched; memory is three pages, whatever the
size of the cluster.
The checkpoint moves with the last page alone. With the stream stopped the snapshot is the truth and
overwrites; beside a watch from its own version it yields to what the watch brought (mirror.md §4, §5).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime, timedelta

from syncd.core.change import Batch, Deletion, KeyRange, Marks, RowVersion
from syncd.core.document import Head, Item
from syncd.core.errors import ConnectionLost, Expired, Inconsistent, Invalid, ServerError, TooManyRequests
from syncd.core.frames import UNVERSIONED, Page, parse_page
from syncd.core.listwatch import Listing, ListWatch, SnapshotPage
from syncd.core.recovery import backoff
from syncd.core.resource import Cause, State, Stream, compare_versions
from syncd.core.snapshot import DeletionGuard, Difference, difference, judge
from syncd.sync.environment import Environment, Settings
from syncd.sync.writer import Writer

PAGE_TRIES = 4
EXPIRED_TOKENS = 2  # after these everything is asked for at once, which needs no token
POLL_MARGIN = 2.0  # intervals that a polled stream may be without a snapshot before it counts as stale
STEP = 50  # objects that are opened at a time: a millisecond
PAGE_BYTES = 16 * 1024 * 1024  # a page larger than this halves the limit of the next
MIN_LIMIT = 50


class RolledBack(Exception):
    """The cluster went back in time: every version of it is distrusted."""


class Unconfirmed(Exception):
    """The list would delete more than the share; a second one has to say the same."""


class TokensExpired(Exception):
    """The continue tokens of two lists in a row were refused, or led elsewhere: without pages, then."""


class Unordered(Exception):
    """The server does not list in byte order: ranges say nothing."""


async def pages(
    environment: Environment, stream: Stream, machine: ListWatch, *, whole: bool, versioned: bool = True
) -> AsyncGenerator[SnapshotPage, None]:
    """The pages of one consistent list, the next one opened ahead, the one after fetched; the last has `last`
    set.

    Args:
        whole: open the objects wholly; with False the pages hold heads.
        versioned: as in `parse_page`.

    Raises:
        ApiError, ConnectionLost: after some tries of the same page.
        ProtocolError: the body is not a page of this list.
    """

    def fetched(after: Page | None = None) -> asyncio.Task[bytes]:
        return asyncio.ensure_future(_fetch(environment, stream, machine, after))

    opened = machine.transform if whole else machine.transform.head
    body = fetched()

    async def following() -> SnapshotPage:
        nonlocal body
        page = parse_page(await body, versioned=versioned)
        if page.size > PAGE_BYTES and machine.limit is not None:
            machine.limit = max(MIN_LIMIT, machine.limit // 2)
        if page.continue_token is not None:  # asked for first: the server works while this one is opened
            body = fetched(page)
        items: list[Item | Head] = []
        for start in range(0, len(page.items), STEP):
            await asyncio.sleep(0)  # each step holds up every watch of the process
            items += map(opened, page.items[start : start + STEP])
        return machine.page_received(page, items)

    coming = asyncio.ensure_future(following())
    try:
        while True:
            page = await coming
            if not page.last:
                coming = asyncio.ensure_future(following())
            yield page
            if page.last:
                return
    finally:
        for task in (coming, body):
            task.cancel()
        await asyncio.gather(coming, body, return_exceptions=True)


async def _fetch(environment: Environment, stream: Stream, machine: ListWatch, after: Page | None) -> bytes:
    attempt = 0
    while True:
        began = environment.clock.monotonic()
        try:
            body = await environment.api.list(stream, machine.next_page(after))
        except (ConnectionLost, ServerError, TooManyRequests) as error:
            attempt += 1
            if attempt == PAGE_TRIES:
                raise
            environment.metrics.retry(stream, "list")
            asked = 0.0 if isinstance(error, ConnectionLost) else error.retry_after or 0.0
            if machine.limit and not isinstance(error, TooManyRequests):
                machine.limit = max(min(MIN_LIMIT, machine.limit), machine.limit // 2)
            delay = backoff(attempt - 1, environment.random, environment.timing)
            await environment.clock.sleep(max(delay, asked))
        else:
            environment.metrics.listed(stream, environment.clock.monotonic() - began, len(body))
            return body


class Snapshot:
    """Brings one stream's rows to what a list says.

    Args:
        content: documents are compared too, not versions alone.
        retry: what stands in quarantine is written again, as a reconcile does.
        projection: stored with the checkpoint; None leaves the old one (not settled yet).
        progress: called after each page.
    """

    def __init__(
        self,
        environment: Environment,
        stream: Stream,
        settings: Settings,
        writer: Writer,
        *,
        content: bool,
        retry: bool = False,
        projection: str | None,
        progress: Callable[[SnapshotPage], None],
    ) -> None:
        self._environment = environment
        self._stream = stream
        self._settings = settings
        self._writer = writer
        # Without versions only documents can differ.
        self._content = content or writer.row.resource_version == UNVERSIONED
        self._retry = retry
        self._projection = projection
        self._progress = progress
        self._confirmed = False
        self._cause = Cause.LEFT_SELECTION if stream.selective else Cause.SNAPSHOT
        self._seen: set[str] | None = None
        self.begin()

    def begin(self) -> None:
        """From the first page on; nothing of another list counts."""
        share = 2.0 if self._confirmed else self._settings.deletion_share
        self._guard = DeletionGuard(self._writer.row.object_count, share=share)
        self._fresh = self._writer.row.object_count == 0
        ranges = self._settings.ranges and not self._writer.row.unordered
        self._seen = None if ranges else set()
        self._unseen_after: str | None = None  # `_seen` speaks for the keys above it
        self._held: dict[str, RowVersion] = {}

    @property
    def whole(self) -> bool:
        """Whether its pages need whole objects: all are written, or their content is compared."""
        return self._fresh or self._content

    async def run(self, *, paged: bool = True) -> str:
        """Lists, writes, checkpoints, with the stream stopped; the version it stands at.

        Raises:
            TokensExpired: for the second time, where the list is paged.
            RolledBack: the list is behind the checkpoint.
            FenceLost: the row moved.
            SyncdError: of the API, after some tries. Only complete pages have deleted anything.
        """
        limit = self._settings.page_size if paged else None
        expired = 0
        while True:
            machine = ListWatch(self._settings.transform, limit=limit)
            try:
                return await self._list(machine)
            except (Expired, Invalid, Inconsistent) as error:
                if not (isinstance(machine.state, Listing) and machine.state.continue_token is not None):
                    raise
                expired += 1
                if expired == EXPIRED_TOKENS:
                    raise TokensExpired from error
                self._environment.log.info("a continue token is refused: listing anew", error=str(error))
            except Unconfirmed:
                self.confirm()
            except Unordered:
                await self.remember_unordered()
            self.begin()

    def confirm(self) -> None:
        """What comes next is the second list to say the same: it may delete."""
        self._environment.log.warning(
            "a list would delete most of the rows; asking a second time", stream=str(self._stream)
        )
        self._confirmed = True

    async def remember_unordered(self) -> None:
        """From now on this stream's deletions wait for the last page."""
        self._environment.log.warning("the list is not in byte order", stream=str(self._stream))
        await self._writer.commit(Batch(marks=Marks(unordered=True)))

    async def _list(self, machine: ListWatch) -> str:
        versioned = self._settings.poll is None
        async with aclosing(
            pages(self._environment, self._stream, machine, whole=self.whole, versioned=versioned)
        ) as source:
            async for page in source:
                if page.first:
                    self.check_rollback(page.resource_version)
                await self.apply(page)
                if page.last:
                    return page.resource_version
        raise AssertionError("a list ends with a last page")

    def check_rollback(self, version: str) -> None:
        """A list made after the last commit cannot be behind it.

        Raises:
            RolledBack: it is.
        """
        checkpoint = self._writer.row.resource_version
        if checkpoint is not None and compare_versions(version, checkpoint) == -1:
            raise RolledBack(f"the cluster is at {version}, behind the checkpoint {checkpoint}")

    async def apply_initial(self, page: SnapshotPage) -> None:
        """Writes what differs in a page of a WatchList's initial events. What is gone leaves with the last
        page, which alone tells the version. So that the cluster went back may be seen only there, after
        objects of it were written: it has them, nothing left, and the new epoch compares them once more.

        Raises:
            RolledBack: the version is behind the checkpoint, or an object behind its row.
            Unconfirmed: nothing of the last page was written.
        """
        if page.last:
            self.check_rollback(page.resource_version)
        if not page.ordered:
            self._fresh = False  # a key may have come before
            if self._seen is None:
                self._seen, self._unseen_after = set(), page.range.after
        found = await self._compare(page, fresh=self._fresh)
        self._held |= {row.key: row for row in found.gone}
        if page.removed:
            self._held |= {row.key: row for row in await self._rows([*page.removed], documents=False)}
        if self._seen is not None:
            self._seen.update(item.key for item in page.items)
            self._seen.difference_update(page.removed)
        gone: list[RowVersion] = []
        if page.last:
            gone = await self._gone()
            if gone and not self._guard.allows(len(gone)):
                raise Unconfirmed
            self._report_newer(page, found, gone)
        self._check_order(found)
        await self._write(page, found.upserts, gone, fresh=self._fresh)

    async def _gone(self) -> list[RowVersion]:
        """The rows of which the initial events said nothing, or that they are deleted."""
        if self._seen is None:
            return list(self._held.values())
        rows = {**self._held, **{row.key: row for row in await self._unseen()}}
        return [row for row in rows.values() if row.key not in self._seen]

    async def apply(
        self, page: SnapshotPage, *, beside: ListWatch | None = None, reached: str | None = None
    ) -> None:
        """Writes what differs in the page's range; the last page brings the checkpoint.

        Args:
            beside: the machine of a watch from this list's version; None with the stream stopped.
            reached: the last version that the watch closed and that is applied, else the list's.

        Raises:
            Unconfirmed, Unordered: nothing of this page was written.
        """
        if not page.ordered and self._seen is None:
            raise Unordered
        fresh = self._fresh and beside is None  # a watch beside it writes rows too
        found = await self._compare(page, fresh=fresh)
        upserts, gone = [*found.upserts, *(found.retry if self._retry else ())], list(found.gone)
        if self._seen is not None:
            self._seen.update(item.key for item in page.items)
            gone = await self._unseen() if page.last else []
        if beside is not None:
            upserts, gone = await self._older(found, gone, (page.resource_version, beside.received))
        if gone and not self._guard.allows(len(gone)):
            raise Unconfirmed
        if beside is None:
            self._check_order(found)
            self._report_newer(page, found, gone)
        await self._write(page, upserts, gone, fresh=fresh, reached=reached)

    async def _write(
        self,
        page: SnapshotPage,
        upserts: list[Item | Head],
        gone: list[RowVersion],
        *,
        fresh: bool,
        reached: str | None = None,
    ) -> None:
        batch = Batch(
            upserts=[self._settings.transform.whole(listed) for listed in upserts],
            deletes=[Deletion(row.key, row.uid, page.resource_version, self._cause) for row in gone],
            guarded=False,
            fresh=fresh,
        )
        if page.last:
            now = self._environment.clock.now()
            # Not the machine's position: what was received up to there may still wait in the inbox.
            batch.resource_version = reached or page.resource_version
            batch.state = State.LIVE
            batch.projection = self._projection
            batch.marks = Marks(
                last_list_at=now, verified_at=now, deadline_at=self._deadline(), last_error=""
            )
        if batch.upserts or batch.deletes or page.last:
            await self._writer.commit(batch, changes=len(batch.upserts) + len(batch.deletes))
        self._progress(page)

    def _deadline(self) -> datetime | None:
        """By when a polled stream must have been polled again."""
        environment, every = self._environment, self._settings.poll
        if every is None:
            return None
        patience = POLL_MARGIN * every + environment.timing.watch_margin
        return environment.clock.now() + timedelta(seconds=patience)

    async def _compare(self, page: SnapshotPage, *, fresh: bool) -> Difference:
        if fresh:
            return Difference(page.items, (), (), (), (), 0)
        keys: KeyRange | list[str] = page.range
        if self._seen is not None:
            keys = [item.key for item in page.items]
        rows = await self._rows(keys, documents=self._content)
        return difference(page.items, rows)

    async def _unseen(self) -> list[RowVersion]:
        """The rows that no page named, where ranges cannot tell."""
        seen, above = self._seen or set(), KeyRange(self._unseen_after)
        return [row for row in await self._rows(above, documents=False) if row.key not in seen]

    async def _rows(self, keys: KeyRange | list[str], *, documents: bool) -> list[RowVersion]:
        store, writer = self._environment.store, self._writer
        return await writer.attempt(lambda: store.rows(writer.row, keys, documents=documents))

    async def _older(
        self, found: Difference, gone: list[RowVersion], versions: tuple[str, str]
    ) -> tuple[list[Item | Head], list[RowVersion]]:
        """Of what differs, only what the watch has not made newer than the list."""
        store, writer = self._environment.store, self._writer
        keys = [item.key for item in found.missing]
        buried = await writer.attempt(lambda: store.tombstones(writer.row, keys)) if keys else []
        tombstones = {stone.key: stone for stone in buried if stone.cause.guards}
        upserts = [item for item in found.missing if judge(item, None, tombstones.get(item.key), versions)]
        changed = (*found.stale, *found.altered)
        upserts += [item for item, row in changed if judge(item, row, None, versions)]
        return upserts, [row for row in gone if judge(None, row, None, versions)]

    def _check_order(self, found: Difference) -> None:
        """What has one name only ever rises in version: an item below its row says that the cluster went
        back, and then documents may differ under equal versions too. A new epoch compares them.

        Raises:
            RolledBack: so it did, since the checkpoint.
        """
        if self._writer.row.resource_version is None:
            return  # distrusted already
        for item, row in found.stale:
            if not row.quarantined and compare_versions(item.resource_version, row.resource_version) == -1:
                raise RolledBack(
                    f"{row.key} is at {item.resource_version} in the cluster, behind its row at "
                    f"{row.resource_version}"
                )

    def _report_newer(self, page: SnapshotPage, found: Difference, gone: list[RowVersion]) -> None:
        """Rows above the list are a sign of a rollback that went unnoticed; they are overwritten."""
        rows = [*(row for _, row in found.stale), *gone]
        newer = sum(compare_versions(row.resource_version, page.resource_version) == 1 for row in rows)
        if newer:
            self._environment.metrics.relist(self._stream, "rows_newer_than_list")
            self._environment.log.warning(
                "rows were newer than the cluster", stream=str(self._stream), rows=newer
            )
