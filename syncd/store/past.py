"""One object's records of changes, each with the version before it where versions are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.store.feed import ChangeRecord, columns, of_kind
from syncd.store.schema import changes


@dataclass(frozen=True, slots=True)
class Named:
    """An object as a user names it; '' is any namespace, any cluster."""

    kind: str
    name: str
    namespace: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A change; `before` is the document that it changed, None where that is not known."""

    change: ChangeRecord
    before: Any


async def steps(connection: AsyncConnection, named: Named, since: datetime) -> list[Step]:
    """The changes of all objects so named since a moment, in their order."""
    query = (
        sa.select(*columns())
        .where(changes.c.committed_at >= since, *_named(named))
        .order_by(changes.c.sequence)
    )
    found = [ChangeRecord(**one) for one in (await connection.execute(query)).mappings()]
    known: dict[tuple[str, ...], Any] = {}
    result = []
    for change in found:
        identity = (change.cluster, change.api_group, change.resource, change.object_key)
        if identity not in known:
            known[identity] = await _version_before(connection, identity, change.sequence)
        before = known[identity] if change.change_type == "updated" else None
        result.append(Step(change, before))
        known[identity] = None if change.change_type == "deleted" else change.object
    return result


def _named(named: Named) -> list[sa.ColumnElement[bool]]:
    conditions = [changes.c.name == named.name, of_kind(named.kind)]
    if named.namespace:
        # by the key, which has an index; an object of the whole cluster has no namespace in it
        keys = (named.name, f"{named.namespace}/{named.name}")
        conditions += [changes.c.object_key.in_(keys), changes.c.namespace.in_(("", named.namespace))]
    if named.cluster:
        conditions.append(changes.c.cluster == named.cluster)
    return conditions


async def _version_before(connection: AsyncConnection, identity: Sequence[str], sequence: int) -> Any:
    """The document as of the last record before this one; None where that has none."""
    cluster, group, resource, key = identity
    query = (
        sa.select(changes.c.object)
        .where(
            changes.c.object_key == key,
            changes.c.cluster == cluster,
            changes.c.api_group == group,
            changes.c.resource == resource,
            changes.c.sequence < sequence,
            changes.c.change_type != "deleted",
        )
        .order_by(changes.c.sequence.desc())
        .limit(1)
    )
    return (await connection.execute(query)).scalar_one_or_none()
