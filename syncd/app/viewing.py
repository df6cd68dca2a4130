"""The views: made and changed with syncd's version, and with the types that are selected while syncd runs;
tried again where somebody held one.

They are a convenience: what goes wrong with them is logged, and never stops the mirror.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from time import monotonic

from syncd.core.definition import SelectedType
from syncd.core.errors import StoreError
from syncd.core.relation import Relation, Relations
from syncd.logs import get
from syncd.store.database import Database
from syncd.store.glossary import described
from syncd.store.views import Action, Outcome
from syncd.views.catalogue import everything
from syncd.views.custom import Names, custom, named, rendered

RETRY_SECONDS = 15.0
SETTLING = 0.3  # seconds: what changes with one definition comes in several steps
_IDLE_SHARE = 3  # so many times as long as the last look took is rested: thousands of types come in bursts
_SOME = 100  # types that are rendered at a time
_LAST_LOOK = 20.0  # seconds that leaving may take for views


@dataclass(frozen=True, slots=True)
class _Made:
    """What was rendered of a type. `digests`: by the names of its views."""

    type_: SelectedType
    names: Names
    digests: Mapping[str, str]


@cache
def _known(dialect: str) -> Relations:
    """What every database of the dialect shall have: the same for the life of the process."""
    return everything(dialect, described(dialect))


class _Showing:
    """Brings a database to what it shall have; remembers what it rendered."""

    def __init__(self, database: Database) -> None:
        dialect = "sqlite" if database.engine.is_sqlite else "postgresql"
        self._database = database
        self._dialect = dialect
        self._known = _known(dialect)
        self._taken = frozenset(relation.name for relation in self._known.views)
        self._made: dict[str, _Made] = {}

    async def show(self, types: Sequence[SelectedType], *, rebuild: bool = False) -> list[Outcome]:
        """Makes, changes and removes; `types` are the custom ones.

        Args:
            rebuild: as if no view were there.
        """
        outcomes = await self._once(types, rebuild=rebuild)
        if any(outcome.action is Action.REMOVED for outcome in outcomes):
            outcomes += await self._once(types)  # what has gone leaves its name to another
        return outcomes

    async def _once(self, types: Sequence[SelectedType], *, rebuild: bool = False) -> list[Outcome]:
        """Some types at a time, and never long at a stretch: a cluster may have thousands."""
        shown = await self._database.shown()
        names = named(types, self._taken, {name: subject for name, (subject, _) in shown.items()})
        self._made = {one.subject: self._made[one.subject] for one in types if one.subject in self._made}
        standing = frozenset(name for own in names.values() for name in own)
        stale = [one for one in types if rebuild or not self._stands(one, names[one.subject], shown)]
        outcomes: list[Outcome] = []
        for begin in range(0, max(1, len(stale)), _SOME):
            views = await self._rendered(stale[begin : begin + _SOME], names, rebuild=rebuild)
            known = self._known.views if begin == 0 else ()
            standing_too = standing if begin == 0 else standing | self._taken
            wanted = replace(self._known, views=(*known, *views), standing=standing_too)
            outcomes += await self._database.show_views(wanted, rebuild=rebuild)
        return outcomes

    async def _rendered(
        self, types: Sequence[SelectedType], names: Mapping[str, Names], *, rebuild: bool
    ) -> list[Relation]:
        long = [names[one.subject].long for one in types]
        origins = {} if rebuild else await self._database.origins(long)
        views: list[Relation] = []
        for one in await self._database.described(types):
            own = names[one.subject]
            made = rendered(one, own, self._dialect, origins.get(own.long, {}))
            bare = tuple(replace(each, document=None) for each in one.clusters)
            digests = {relation.name: relation.digest for relation in made}
            self._made[one.subject] = _Made(replace(one, clusters=bare), own, digests)
            views += made
            await asyncio.sleep(0)
        return views

    def _stands(self, type_: SelectedType, names: Names, shown: Mapping[str, tuple[str, str]]) -> bool:
        """Whether what was rendered of a type is what is there, and was rendered of the same."""
        made = self._made.get(type_.subject)
        if made is None or (made.type_, made.names) != (type_, names):
            return False
        return all(shown.get(name, ("", ""))[1] == digest for name, digest in made.digests.items())


async def show(database: Database, *, rebuild: bool = False) -> list[Outcome]:
    """Brings the views to what this version knows of them, and the database of custom types; what was done,
    nothing where they are so already.

    Args:
        rebuild: without columns that are gone; a view that something depends on stays as it is.

    Raises:
        StoreUnavailable: the database is away.
    """
    return await _Showing(database).show(custom(await database.types()), rebuild=rebuild)


class _Views:
    """Attributes:
    waiting: some are to be tried again.
    """

    def __init__(self, database: Database, retyped: asyncio.Event) -> None:
        self.waiting = True
        self._database = database
        self._showing = _Showing(database)
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
            outcomes = await self._showing.show(types)
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
