"""The configured database, for as long as a command needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from syncd.config import Config

if TYPE_CHECKING:
    from syncd.store.database import Database


@asynccontextmanager
async def opened(config: Config, *, checked: bool = True) -> AsyncIterator[Database]:
    """Closed at the end.

    Args:
        checked: only with the schema that this version needs.

    Raises:
        SchemaMismatch: it has another; says what to run.
        StoreUnavailable: it does not answer.
    """
    from syncd.app.database import configured

    database = configured(config)
    try:
        if checked:
            await database.check()
        yield database
    finally:
        await database.close()
