"""Applies what is rendered for the schema of Steampipe's names, and reads what such a rendering needs.

PostgreSQL alone. All or nothing, in one transaction that waits at most a second for any lock; nothing that
somebody else built on a view, and no grant, is ever dropped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.errors import StoreError
from syncd.store import definition
from syncd.store.engine import Engine

SCHEMA = "kubernetes"
LOCK_TIMEOUT = "1s"
_LOCK = 0x73746561  # "stea": one at a time in a database
_MARK = "Steampipe's names for the mirror in schema {schema} ({digest})"


@dataclass(frozen=True, slots=True)
class SeenView:
    """A view of the schema: what its comment says, its columns as (name, type)."""

    about: str
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Rendering:
    """What is to be run.

    Attributes:
        statements: in order, all or nothing.
        views: what they make, by name.
        custom: the statements of each custom resource's view, by its name; one that is refused is left out.
        retired: the views that are no longer wanted.
    """

    statements: Sequence[str]
    views: Sequence[str]
    custom: Mapping[str, Sequence[str]]
    retired: Sequence[str]


@dataclass(frozen=True, slots=True)
class Shown:
    """What is not as rendered: views that stay, for somebody uses them; views that were refused, and why."""

    kept: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


Render = Callable[[Sequence[Mapping[str, Any]], Mapping[str, SeenView]], Rendering]
"""From what is kept of CustomResourceDefinitions, and the views that are there."""


async def definitions(engine: Engine) -> str:
    """What changes when a CustomResourceDefinition of any cluster comes, goes or changes."""
    async with engine.reading() as connection:
        found = await connection.execute(
            sa.text(
                "SELECT md5(string_agg(concat_ws('/', cluster, name, uid, generation), ',' "
                "ORDER BY cluster, name)) FROM syncd_definitions"
            )
        )
        return str(found.scalar_one() or "")


async def apply(engine: Engine, render: Render) -> Shown:
    """Brings the schema to what is rendered.

    Where it is there already, nothing is locked and nothing is written.

    Raises:
        StoreError: the schema is another's, or of another mirror.
        StoreUnavailable: the database is away or refuses; also when a lock is not to be had within a second.
    """
    async with engine.writing() as connection:
        await connection.execute(sa.text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
        await connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        mark = await _mark(connection, engine.schema)
        views = await _views(connection)
        rendering = render(await definition.documents(connection), views)
        wanted = _MARK.format(schema=engine.schema, digest=_digest(rendering))
        raw: Any = (await connection.get_raw_connection()).driver_connection
        refused: dict[str, str] = {}
        if mark != wanted or not views.keys() >= {*rendering.views, *rendering.custom}:
            for statement in rendering.statements:
                await raw.execute(statement)
            for name, statements in rendering.custom.items():
                why = await _refused(raw, statements)
                if why:
                    refused[name] = why
            quoted = wanted.replace("'", "''")
            await raw.execute(f"COMMENT ON TYPE {SCHEMA}.label_set IS '{quoted}'")
        kept = [name for name in rendering.retired if not await _dropped(raw, name)]
        return Shown(tuple(kept), refused)


def _digest(rendering: Rendering) -> str:
    everything = [*rendering.statements, *(each for group in rendering.custom.values() for each in group)]
    return hashlib.sha256("\0".join(everything).encode()).hexdigest()[:16]


async def _refused(raw: Any, statements: Sequence[str]) -> str:
    """Why the statements cannot be, '' where they could: a relation of another has the name, or the type
    defines more than PostgreSQL takes. They are undone then, and nothing else.
    """
    try:
        async with raw.transaction():
            for statement in statements:
                await raw.execute(statement)
    except (psycopg.ProgrammingError, psycopg.errors.ProgramLimitExceeded) as error:
        return str(error).splitlines()[0]
    return ""


async def _mark(connection: AsyncConnection, schema: str) -> str:
    """What is written on the schema's type, '' where there is none yet.

    Raises:
        StoreError: the schema's names are taken.
    """
    found = await connection.execute(
        sa.text(
            "SELECT obj_description(t.oid, 'pg_type') FROM pg_type t JOIN pg_namespace n "
            "ON n.oid = t.typnamespace WHERE n.nspname = :schema AND t.typname = 'label_set'"
        ),
        {"schema": SCHEMA},
    )
    mark = str(found.scalar_one_or_none() or "")
    begin, _, rest = _MARK.partition("{schema}")
    owner = mark.removeprefix(begin).rpartition(rest[:2])[0] if mark.startswith(begin) else ""
    if owner and owner != schema and await _exists(connection, f'"{owner}".syncd_objects'):
        raise StoreError(
            f"the schema {SCHEMA} shows the mirror in schema {owner} already, "
            "and a database has one such schema: turn `views.steampipe` off in one of the two configurations"
        )
    if not mark and await _exists(connection, f"{SCHEMA}.kubernetes_pod"):
        raise StoreError(
            f"{SCHEMA}.kubernetes_pod is there and not syncd's (a Steampipe of its own?): "
            "rename that schema, or turn `views.steampipe` off"
        )
    return mark


async def _exists(connection: AsyncConnection, relation: str) -> bool:
    found = await connection.execute(sa.text("SELECT to_regclass(:name) IS NOT NULL"), {"name": relation})
    return bool(found.scalar_one())


async def _views(connection: AsyncConnection) -> dict[str, SeenView]:
    found = await connection.execute(
        sa.text(
            "SELECT c.relname, coalesce(obj_description(c.oid, 'pg_class'), ''), "
            "array_agg(a.attname::text ORDER BY a.attnum), "
            "array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum) "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
            "WHERE n.nspname = :schema AND c.relkind = 'v' GROUP BY c.oid, c.relname"
        ),
        {"schema": SCHEMA},
    )
    return {
        name: SeenView(about, tuple(zip(names, types, strict=True)))
        for name, about, names, types in found.all()
    }


async def _dropped(raw: Any, name: str) -> bool:
    """Whether a view could go: nothing is built on it, and nobody was granted it."""
    quoted = name.replace('"', '""')
    cursor = await raw.execute(
        "SELECT relacl IS NULL FROM pg_class WHERE oid = to_regclass(%s)", (f'{SCHEMA}."{quoted}"',)
    )
    row = await cursor.fetchone()
    if row is None or not row[0]:
        return row is None
    try:
        async with raw.transaction():
            await raw.execute(f'DROP VIEW {SCHEMA}."{quoted}"')
    except psycopg.errors.DependentObjectsStillExist:
        return False
    return True
