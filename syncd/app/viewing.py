"""The views: made and changed with syncd's version, and with the types that are selected while syncd runs;
tried again where somebody held one.

They are a convenience: what goes wrong with them is logged, and never stops the mirror.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from time import monotonic

from syncd.core.definition import SelectedType
from syncd.core.errors import StoreError
from syncd.core.relation import Relations
from syncd.logs import get
from syncd.store.database import Database
from syncd.store.glossary import described
from syncd.store.views import Action, Outcome
from syncd.views.catalogue import everything
from syncd.views.custom import Present, custom, extended

RETRY_SECONDS = 15.0
SETTLING = 0.3  # seconds: what changes with one definition comes in several steps
_IDLE_SHARE = 3  # so many times as long as the last look took is rested: thousands of types come in bursts
_LAST_LOOK = 20.0  # seconds that leaving may take for views


@cache
def _known(dialect: str) -> Relations:
    return everything(dialect, described(dialect))


async def show(database: Database, *, rebuild: bool = False) -> list[Outcome]:
    """Brings the views to what this version knows of them, and the database of custom types; what was done,
    nothing where they are so already.

    Args:
        rebuild: without columns that are gone; a view that something depends on stays as it is.

    Raises:
        StoreUnavailable: the database is away.
    """
    return await _shown(database, custom(await database.types()), rebuild=rebuild)


async def _shown(database: Database, types: list[SelectedType], *, rebuild: bool = False) -> list[Outcome]:
    dialect = "sqlite" if database.engine.is_sqlite else "postgresql"

    async def once(rebuild: bool) -> list[Outcome]:
        subjects, origins = await database.shown()
        present = Present(subjects, {} if rebuild else origins)
        # In a thread: a cluster may have thousands of types.
        wanted = await asyncio.to_thread(lambda: extended(_known(dialect), types, present, dialect))
        return await database.show_views(wanted, rebuild=rebuild)

    outcomes = await once(rebuild)
    if any(outcome.action is Action.REMOVED for outcome in outcomes):
        outcomes += await once(False)  # what has gone leaves its name to another
    return outcomes


class _Views:
    """Attributes:
    waiting: some are to be tried again.
    """

    def __init__(self, database: Database, retyped: asyncio.Event) -> None:
        self.waiting = True
        self._database = database
        self._retyped = retyped
        self._types: list[SelectedType] | None = None
        self._said: set[str] = set()
        self._log = get("app")

    async def look(self) -> None:
        """Makes what is missing, where something came or changed."""
        self._retyped.clear()
        try:
            types = custom(await self._database.types())
            if types == self._types and not self.waiting:
                return
            outcomes = await _shown(self._database, types)
        except asyncio.CancelledError:
            self._retyped.set()
            raise
        except Exception as error:  # the database's, or a fault of our own over an odd definition
            said = str(error) if isinstance(error, StoreError) else repr(error)
            self._tell(said, error=said)
            self.waiting = True
            return
        self._types = types
        self.waiting = any(outcome.action is Action.WAITING for outcome in outcomes)
        by_note: dict[tuple[Action, str], list[str]] = {}
        for outcome in outcomes:
            if outcome.note:
                by_note.setdefault((outcome.action, outcome.note), []).append(outcome.name)
        for (action, note), names in by_note.items():
            self._tell(f"{action} {note} {names}", views=names, outcome=action.value, why=note)
        made = len(outcomes) - sum(map(len, by_note.values()))
        if made:
            self._log.info("views made, changed or removed", count=made)

    def _tell(self, once: str, **about: object) -> None:
        say = self._log.debug if once in self._said else self._log.warning
        self._said.add(once)
        say("views are not as wanted", **about)

    async def follow(self) -> None:
        """Looks whenever a type may be another, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS if self.waiting else None):
                    await self._retyped.wait()
            await asyncio.sleep(SETTLING)
            began = monotonic()
            await self.look()
            await asyncio.sleep(_IDLE_SHARE * (monotonic() - began))


@asynccontextmanager
async def shown(database: Database, retyped: asyncio.Event) -> AsyncIterator[None]:
    """Inside the block the views are there, and follow the types; one that somebody holds a lock on follows
    later.

    Args:
        retyped: set whenever a type may have come, changed or gone.
    """
    views = _Views(database, retyped)
    await views.look()
    following = asyncio.create_task(views.follow(), name="views")
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    if retyped.is_set():
        with suppress(TimeoutError):  # a database that is away must not keep anybody from leaving
            async with asyncio.timeout(_LAST_LOOK):
                await views.look()
