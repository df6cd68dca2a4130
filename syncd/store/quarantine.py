"""Rows that the database refused for their data: kept by key, version and error code (mirror.md §10)."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.document import Item
from syncd.core.resource import compare_versions
from syncd.store.errors import error_code
from syncd.store.merge import Scope
from syncd.store.row import chunks
from syncd.store.schema import quarantine


async def admit(connection: AsyncConnection, scope: Scope, items: Sequence[Item]) -> tuple[list[Item], int]:
    """The items that the guard lets pass a quarantined version of theirs, and how many it does not."""
    if not scope.guarded or not items:
        return list(items), 0
    held = await _held(connection, scope, [item.key for item in items])
    passed = [item for item in items if item.key not in held or _newer(item, held[item.key])]
    return passed, len(items) - len(passed)


async def heal(
    connection: AsyncConnection, scope: Scope, keys: Sequence[str], *, kept: Sequence[str]
) -> None:
    """Forgets what was written or removed since."""
    for part in chunks(sorted(set(keys) - set(kept))):
        await connection.execute(sa.delete(quarantine).where(*_of(scope), quarantine.c.object_key.in_(part)))


async def put_away(
    connection: AsyncConnection, scope: Scope, refused: Sequence[tuple[Item, BaseException]]
) -> None:
    """Remembers what was refused. Class and code of the error only: its text may quote the row."""
    for item, error in refused:
        values = {
            "stream_id": scope.stream_id,
            "uid": item.uid,
            "resource_version": item.resource_version,
            "error": error_code(error),
            "last_tried_at": scope.now,
        }
        known = await connection.execute(
            sa.update(quarantine)
            .where(*_of(scope), quarantine.c.object_key == item.key)
            .values(**values, attempts=quarantine.c.attempts + 1)
        )
        if known.rowcount == 0:
            await connection.execute(
                sa.insert(quarantine).values(
                    cluster=scope.cluster,
                    api_group=scope.api_group,
                    resource=scope.resource,
                    object_key=item.key,
                    namespace=item.namespace,
                    name=item.name,
                    first_seen_at=scope.now,
                    attempts=1,
                    **values,
                )
            )


def _of(scope: Scope) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        quarantine.c.cluster == scope.cluster,
        quarantine.c.api_group == scope.api_group,
        quarantine.c.resource == scope.resource,
    )


async def _held(connection: AsyncConnection, scope: Scope, keys: Sequence[str]) -> dict[str, str]:
    held: dict[str, str] = {}
    for part in chunks(keys):
        query = sa.select(quarantine.c.object_key, quarantine.c.resource_version).where(
            *_of(scope), quarantine.c.object_key.in_(part)
        )
        held.update((key, version) for key, version in await connection.execute(query))
    return held


def _newer(item: Item, version: str) -> bool:
    order = compare_versions(item.resource_version, version)
    return order is None or order > 0
