"""Steampipe's names over the mirror, made at the start and kept up with custom types while syncd runs.

They are a convenience: what goes wrong with them is logged and tried again, and never stops the mirror.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from syncd.core.errors import StoreError
from syncd.logs import get
from syncd.store.database import Database
from syncd.store.steampipe import Rendering, SeenView, Shown
from syncd.store.views import Action, Outcome
from syncd.views.steampipe.custom import Present, custom_resource, retired
from syncd.views.steampipe.rendering import statements
from syncd.views.steampipe.table import tables


async def make(database: Database) -> Shown:
    """Makes or renews the views, custom resources included; what is not as wanted.

    Raises:
        StoreError: as `syncd.store.steampipe.apply`.
    """
    schema = database.engine.schema

    def render(documents: Sequence[Mapping[str, Any]], views: Mapping[str, SeenView]) -> Rendering:
        present = {name: Present(seen.about, seen.columns) for name, seen in views.items()}
        return Rendering(
            statements(schema),
            [table.name for table in tables()],
            custom_resource(schema, documents, present),
            retired(documents, present),
        )

    return await database.show_steampipe(render)


def outcomes(shown: Shown) -> list[Outcome]:
    """The same, as it is told of the views by kind."""
    refused = [Outcome(f"kubernetes.{name}", Action.SKIPPED, why) for name, why in shown.refused.items()]
    why = "its type is gone, but something is built on it"
    return refused + [Outcome(f"kubernetes.{name}", Action.KEPT, why) for name in shown.kept]


class _Names:
    def __init__(self, database: Database, wanted: Callable[[], bool]) -> None:
        self._database = database
        self._wanted = wanted
        self._made_for: str | None = None
        self._error = ""
        self._log = get("app")

    async def look(self) -> None:
        """Makes what is missing, where it is asked for and something came or changed."""
        if not self._wanted():
            self._made_for = None
            return
        try:
            definitions = await self._database.definitions()
            if definitions == self._made_for:
                return
            shown = await make(self._database)
        except Exception as error:  # the database's, or a fault of our own over an odd definition
            said = str(error) if isinstance(error, StoreError) else repr(error)
            if said != self._error:
                self._log.warning("Steampipe's names could not be made; trying again", error=said)
            self._error = said
            return
        self._made_for, self._error = definitions, ""
        self._log.info("Steampipe's names are made")
        for outcome in outcomes(shown):
            self._log.warning(
                "a view is not as wanted", view=outcome.name, outcome=outcome.action.value, why=outcome.note
            )

    async def follow(self, every: float) -> None:
        """Looks again and again, until cancelled."""
        while True:
            await asyncio.sleep(every)
            await self.look()


@asynccontextmanager
async def steampipe_names(
    database: Database, wanted: Callable[[], bool], *, every: float
) -> AsyncIterator[None]:
    """Inside the block the names are there, where `wanted` says so, and follow the definitions that are
    known, which are looked at `every` so many seconds and at the end.
    """
    names = _Names(database, wanted)
    await names.look()
    following = asyncio.create_task(names.follow(every), name="steampipe")
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    with suppress(TimeoutError):  # a database that is away must not keep anybody from leaving
        async with asyncio.timeout(every):
            await names.look()
