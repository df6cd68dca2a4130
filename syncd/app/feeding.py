"""Following the feed of changes, for whoever hands them on: a command's output or a sink. Prints nothing and
knows no daemon but the one whose records it announces.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from syncd.core.errors import StoreError
from syncd.logs import get
from syncd.store.database import Database
from syncd.store.feed import BEGINNING, Page, Position, Purged, Wanted, settle

_APART = 0.2  # seconds between two announcements: each costs a commit, and one is for all that came meanwhile
_LONGEST = 5.0  # seconds between two looks: who announces may have died after its commit


@dataclass(frozen=True, slots=True)
class Start:
    """Where a reader begins.

    Attributes:
        gap: what was purged before it was read; None where nothing is missing.
    """

    position: Position
    gap: Purged | None = None


async def start(database: Database, cursor: str, *, from_now: bool) -> Start:
    """Where the reader of this name begins: where it stopped. One without a cursor, or with a new one, begins
    with the oldest change that is kept, or with those to come.
    """
    position, purged = await database.cursor(cursor) if cursor else (None, None)
    if position is None:
        return Start(await database.newest_change() if from_now else BEGINNING)
    if purged is not None and position < purged.position:
        return Start(position, purged)
    return Start(position)


async def pages(
    database: Database, position: Position, wanted: Wanted, *, follow: bool, limit: int = 500
) -> AsyncGenerator[Page, None]:
    """What comes after a position, page by page; with `follow` without an end. A page may hold nothing and
    say how far was looked. Close it: it holds a connection.

    Raises:
        StoreUnavailable: the database is away.
    """
    if not follow:
        while True:
            page = await database.changes(position, wanted, limit=limit)
            position = page.upto
            yield page
            if not page.more:
                return
    async with database.listening() as wait:
        tries = 0
        while True:
            page = await database.changes(position, wanted, limit=limit)
            if page.upto != position:
                position, tries = page.upto, 0
                yield page
            if page.more:
                continue
            if page.settling:
                await settle(tries)
                tries += 1
            else:
                await wait(_LONGEST)


async def announcing(database: Database, recorded: asyncio.Event) -> None:
    """Until cancelled: tells other processes of what this one recorded, whenever the event is set."""
    log = get("app")
    while True:
        await recorded.wait()
        recorded.clear()
        try:
            await database.announce()
        except StoreError as error:
            log.debug("nobody could be told of changes", error=str(error))
        await asyncio.sleep(_APART)
