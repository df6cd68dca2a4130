"""SQLite's views: a view is text there, nothing waits for it, and nobody is asked what is built on it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.relation import Relation, select
from syncd.store.engine import Engine
from syncd.store.view import (
    SOME,
    TAKEN,
    Action,
    Known,
    Made,
    Outcome,
    Plan,
    forget,
    layout,
    note_kept,
    record,
)

MARK = "/* made by syncd */"


class SqliteViews:
    """Carries out a plan, some views at a time: whoever writes objects waits meanwhile."""

    def __init__(self, engine: Engine, known: Known) -> None:
        self._engine = engine
        self._known = known

    async def run(self, plan: Plan) -> list[Outcome]:
        """What was done."""
        outcomes: list[Outcome] = []
        kept = self._built_on(plan.removed)
        for begin in range(0, len(plan.removed), SOME):
            async with self._engine.writing() as connection:
                some = plan.removed[begin : begin + SOME]
                outcomes += [await self._remove(connection, name, kept.get(name, "")) for name in some]
        for begin in range(0, len(plan.changed), SOME):
            async with self._engine.writing() as connection:
                # A read first: DROP and CREATE trust what the connection remembers of the schema.
                await connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1")
                changed = plan.changed[begin : begin + SOME]
                outcomes += await self._make(connection, changed, rebuild=plan.rebuild)
        return outcomes

    def _built_on(self, names: Sequence[str]) -> dict[str, str]:
        """Which of these views must stay, and what is built on each: views and triggers of others, and views
        of ours that stay for their sake.
        """
        left = {name for name in names if name in self._known.present and self._known.present[name].ours}
        using = {name: text for name, text in self._known.texts.items() if not _ours(text)}
        kept: dict[str, str] = {}
        while using:
            found = {name: f"view {other}" for other, text in using.items() for name in _named(text) & left}
            kept |= found
            left -= found.keys()
            using = {name: self._known.texts[name] for name in found}
        return kept

    async def _remove(self, connection: AsyncConnection, name: str, kept: str) -> Outcome:
        if kept:
            await note_kept(connection, name, kept)
            return Outcome(name, Action.KEPT, kept)
        present = self._known.present.get(name)
        if present is not None and present.ours:
            await connection.exec_driver_sql(f'DROP VIEW IF EXISTS "{name}"')
        await forget(connection, [name])
        return Outcome(name, Action.REMOVED)

    async def _make(
        self, connection: AsyncConnection, relations: Sequence[Relation], *, rebuild: bool
    ) -> list[Outcome]:
        made: list[Made] = []
        taken: list[Made] = []
        outcomes: list[Outcome] = []
        for relation in relations:
            present = self._known.present.get(relation.name)
            if present is not None and not present.ours:
                taken.append((relation, []))
                outcomes.append(Outcome(relation.name, Action.SKIPPED, TAKEN))
                continue
            columns = layout(relation, present.columns if present and not rebuild else (), "sqlite")
            query = select(relation, [(name, value) for name, _, value in columns])
            await connection.exec_driver_sql(f'DROP VIEW IF EXISTS "{relation.name}"')
            await connection.exec_driver_sql(f'CREATE VIEW "{relation.name}" AS {MARK} {query}')
            made.append((relation, columns))
            outcomes.append(Outcome(relation.name, Action.CHANGED if present else Action.MADE))
        await record(connection, self._engine, made)
        await record(connection, self._engine, taken, TAKEN)
        return outcomes


def _ours(text: str) -> bool:
    return MARK in text


def _named(text: str) -> set[str]:
    """Every word of a statement: whatever it selects from is among them."""
    return set(re.findall(r"\w+", text.lower()))
