"""PostgreSQL: what was granted on a view, so that it has it again when it is made anew, at once or, where its
type has gone, when that comes back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.errors import UNDECODABLE
from syncd.store.engine import Engine
from syncd.store.lease import database_now
from syncd.store.schema import views

_NAME = "(grants on {})"
"""The row of `syncd_views` that remembers what was granted on a view that is gone."""
_PRIVILEGE = re.compile(r"[A-Z]+\Z")
_HELD = sa.text("""
SELECT g.attname, g.privilege_type, coalesce(r.rolname, ''), g.is_grantable
FROM (
  SELECT '' AS attname, c.relowner, acl.*
  FROM pg_class c, aclexplode(c.relacl) AS acl WHERE c.oid = to_regclass(:name)
  UNION ALL
  SELECT a.attname::text, c.relowner, acl.*
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid, aclexplode(a.attacl) AS acl
  WHERE c.oid = to_regclass(:name)
) AS g
LEFT JOIN pg_roles r ON r.oid = g.grantee
WHERE g.grantee <> g.relowner AND (g.grantee = 0 OR r.oid IS NOT NULL)
""")


@dataclass(frozen=True, slots=True)
class Grant:
    """One privilege. `column` '' is the whole view, `grantee` '' everybody."""

    column: str
    privilege: str
    grantee: str
    grantable: bool


async def held(connection: AsyncConnection, view: str) -> list[Grant]:
    """What others than its owner may do with a view."""
    found = await connection.execute(_HELD, {"name": f'"{view}"'})
    return [Grant(*row) for row in found]


async def give(
    connection: AsyncConnection, view: str, grants: Iterable[Grant], columns: Collection[str]
) -> None:
    """Grants it again, save to roles that are gone and on columns that are."""
    wanted = [grant for grant in grants if not grant.column or grant.column in columns]
    if not wanted:
        return
    roles = set((await connection.execute(sa.text("SELECT rolname FROM pg_roles"))).scalars())
    raw: Any = (await connection.get_raw_connection()).driver_connection
    for grant in wanted:
        if (grant.grantee and grant.grantee not in roles) or not _PRIVILEGE.match(grant.privilege):
            continue
        on = sql.SQL(" ({})").format(sql.Identifier(grant.column)) if grant.column else sql.SQL("")
        await raw.execute(
            sql.SQL("GRANT {}{} ON {} TO {}{}").format(
                sql.SQL(grant.privilege),
                on,
                sql.Identifier(view),
                sql.Identifier(grant.grantee) if grant.grantee else sql.SQL("PUBLIC"),
                sql.SQL(" WITH GRANT OPTION" if grant.grantable else ""),
            )
        )


async def remember(connection: AsyncConnection, engine: Engine, view: str, grants: list[Grant]) -> None:
    """For when the view comes back."""
    await recall(connection, view)
    if grants:
        await connection.execute(
            views.insert().values(
                relation=_NAME.format(view),
                subject="",
                short=False,
                description=msgspec.json.encode(grants).decode(),
                digest="kept",
                note="",
                applied_at=await database_now(connection, engine),
            )
        )


async def recall(connection: AsyncConnection, view: str) -> list[Grant]:
    """What was remembered, and is no more."""
    this = views.c.relation == _NAME.format(view)
    found = (await connection.execute(views.delete().where(this).returning(views.c.description))).scalar()
    try:
        return msgspec.json.decode(found, type=list[Grant]) if found else []
    except UNDECODABLE:
        return []  # somebody else wrote there
