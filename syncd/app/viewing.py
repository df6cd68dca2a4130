"""The views by kind: made and changed with syncd's version, tried again where somebody held one.

They are a convenience: what goes wrong with them is logged, and never stops the mirror.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from syncd.core.errors import StoreError
from syncd.logs import get
from syncd.store.database import Database
from syncd.store.glossary import described
from syncd.store.views import Action, Outcome
from syncd.views.catalogue import everything

RETRY_SECONDS = 30.0


async def show(database: Database, *, rebuild: bool = False) -> list[Outcome]:
    """Brings the views to what this version knows of them; what was done, nothing where they
    are so already.

    Args:
        rebuild: without columns that are gone; a view that something depends on stays as it is.

    Raises:
        StoreUnavailable: the database is away.
    """
    dialect = "sqlite" if database.engine.is_sqlite else "postgresql"
    return await database.show_views(everything(dialect, described(dialect)), rebuild=rebuild)


@asynccontextmanager
async def shown(database: Database) -> AsyncIterator[None]:
    """Inside the block the views are there; one that somebody holds a lock on follows later."""
    waiting = await _look(database)
    retrying = asyncio.create_task(_retry(database), name="views") if waiting else None
    try:
        yield
    finally:
        if retrying is not None:
            retrying.cancel()
            await asyncio.gather(retrying, return_exceptions=True)


async def _retry(database: Database) -> None:
    waiting = True
    while waiting:
        await asyncio.sleep(RETRY_SECONDS)
        waiting = await _look(database)


async def _look(database: Database) -> bool:
    """Makes them; whether some are to be tried again."""
    log = get("app")
    try:
        outcomes = await show(database)
    except StoreError as error:
        log.warning("views could not be made; trying again", error=str(error))
        return True
    by_note: dict[tuple[Action, str], list[str]] = {}
    for outcome in outcomes:
        if outcome.note:
            by_note.setdefault((outcome.action, outcome.note), []).append(outcome.name)
    for (action, note), names in by_note.items():
        log.warning("views are not as wanted", views=names, outcome=action.value, why=note)
    if len(outcomes) > sum(map(len, by_note.values())):
        log.info("views made", count=len(outcomes))
    return any(outcome.action is Action.WAITING for outcome in outcomes)
