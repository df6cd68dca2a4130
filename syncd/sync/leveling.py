"""How the rows of a stream are brought level with the API: by a list, by a WatchList, or by a list beside a
watch. Which one is a matter of what the configuration prefers, the server can, and the last try came to.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from syncd.core.batching import Gathering
from syncd.core.errors import ConnectionLost, FenceLost, NoInitialEvents
from syncd.core.listwatch import ListWatch, SnapshotPage
from syncd.sync.feed import Feed
from syncd.sync.inbox import Ended, InitialPage, Message, Opened, Relist, Restart, Task
from syncd.sync.snapshot import Snapshot, TokensExpired, Unconfirmed, Unordered, pages

CUTS = 4  # so many: a link that cuts what takes long, and pages are short


class Unended(NoInitialEvents):
    """The server ended the watch in the middle of the initial events. It does so where more changes than it
    holds for a watch (as few as ten of a custom type) come while it sends them: another try would fare no
    better, and other types are no concern of it.
    """


class Leveling:
    """One stream's snapshots, whatever they are taken by; remembers what WatchLists came to."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._cuts = 0  # of WatchLists in a row, before their bookmark

    async def run(self, snapshot: Snapshot, wish: Relist) -> None:
        """By what the configuration prefers, as far as the server can; leaves a machine to watch from, or a
        watch that is open already.

        Raises:
            RolledBack: the API is behind the checkpoint.
            SyncdError: a fault like any other.
        """
        feed = self._feed
        if feed.settings.watch_list and await self._watch_list(snapshot):
            return
        if self._starved(wish):
            await self._list_beside(snapshot)
            return
        try:
            version = await snapshot.run()
        except TokensExpired:
            snapshot.begin()
            if await self._watch_list(snapshot):
                return
            version = await snapshot.run(paged=False)
        feed.begin(version)

    def _starved(self, wish: Relist) -> bool:
        """The watch after the last snapshot expired before it brought anything: writing takes longer
        than the server's history. Then the watch is opened first, and the list runs beside it.
        """
        settings = self._feed.settings
        ranges = settings.ranges and not self._feed.writer.row.unordered
        watched = settings.poll is None
        return wish.reason == "expired" and not self._feed.delivered and ranges and watched

    # --- WatchList --------------------------------------------------------------------------------

    async def _watch_list(self, snapshot: Snapshot) -> bool:
        """A WatchList: its initial events bring the rows level, and the same watch goes on. False where the
        server cannot, or where a list has to confirm what it said.

        Raises:
            SyncdError: a fault like any other.
        """
        feed, environment = self._feed, self._feed.environment
        if feed.settings.poll or not environment.knows_watch_list(feed.stream):
            return False
        if self._cuts >= CUTS:
            self._cuts = 0
            return False
        feed.begin(limit=feed.settings.page_size)
        later: list[Message] = []
        feed.start_reader(whole=snapshot.whole)
        try:
            await self._apply_initial(snapshot, later)
        except NoInitialEvents as error:
            environment.metrics.retry(feed.stream, "watch_list")
            environment.watch_list_refused(feed.stream, str(error), alone=isinstance(error, Unended))
        except Unconfirmed:
            snapshot.confirm()
        else:
            self._cuts = 0
            await feed.watch_opened()
            feed.post(later)
            return True
        await feed.stop_reader()
        feed.inbox.clear("a list takes over")
        feed.post(later)
        snapshot.begin()
        return False

    async def _apply_initial(self, snapshot: Snapshot, later: list[Message]) -> None:
        """Applies the initial events to their end. What can wait for it is put into `later`."""
        feed = self._feed
        while True:
            match await feed.inbox.take():
                case InitialPage(page):
                    await snapshot.apply_initial(page)
                    if page.last:
                        return
                case Ended(error=error):
                    feed.reader = None
                    self._cuts += isinstance(error, ConnectionLost) and error.connected
                    raise error or Unended("the server ended the watch before the end of the initial events")
                case Relist() as wish:
                    later.append(wish)
                case Restart(reason):
                    raise FenceLost(reason)
                case Task(void=void):
                    void("a relist is under way")

    # --- a list beside a watch --------------------------------------------------------------------

    async def _list_beside(self, snapshot: Snapshot) -> None:
        """A list beside a watch from its own version: what the watch brings is applied between the pages
        and is newer than they are; the checkpoint moves with the last page (mirror.md §4).
        """
        feed = self._feed
        lister = ListWatch(feed.settings.transform, limit=feed.settings.page_size)
        later: list[Message] = []
        source_of = pages(feed.environment, feed.stream, lister, whole=snapshot.whole)
        async with aclosing(source_of) as source:
            page = await anext(source)
            snapshot.check_rollback(page.resource_version)
            reached = page.resource_version
            feed.begin(reached)
            feed.start_reader()
            while True:
                try:
                    await snapshot.apply(page, beside=feed.machine, reached=reached)
                except Unconfirmed:
                    feed.delivered = True  # then the next list has the stream stopped, and may confirm
                    raise ConnectionLost("a list would delete most of the rows; asking again") from None
                except Unordered:
                    await snapshot.remember_unordered()
                    raise ConnectionLost("the list is not in byte order; asking again") from None
                if page.last:
                    break
                fetch = asyncio.ensure_future(anext(source))
                try:
                    reached = await self._apply_until(fetch, later) or reached
                    page = await fetch
                finally:
                    fetch.cancel()
                    await asyncio.gather(fetch, return_exceptions=True)
        feed.post(later)

    async def _apply_until(self, fetch: asyncio.Future[SnapshotPage], later: list[Message]) -> str | None:
        """Applies what the watch brings, without a checkpoint, until the next page is there and nothing
        is left; the last version it closed. What can wait for the end of the list is put into `later`.
        """
        feed = self._feed
        reached: str | None = None
        while not (fetch.done() and feed.inbox.empty):
            await feed.inbox.wait_or(fetch)
            while not feed.inbox.empty:
                match await feed.inbox.take():
                    case (Gathering() as gathering, float() as received_at):
                        reached, gathering.reached = gathering.reached or reached, None
                        await feed.commit(gathering, received_at)
                    case Ended() as ended:
                        feed.ended(ended)
                        feed.start_reader()
                    case Opened() | Relist() as message:
                        later.append(message)
                    case Restart(reason):
                        raise FenceLost(reason)
                    case Task(void=void):
                        void("a relist is under way")
        return reached
