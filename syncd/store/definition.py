"""Definitions of custom types as they are kept, and what views ask of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.definition import ClusterType, Definition, SelectedType
from syncd.store.schema import definitions, streams, view_columns, views

_SOME = 500  # names in one statement


async def identities(connection: AsyncConnection, cluster: str) -> dict[str, tuple[str, int]]:
    """(uid, generation) of what is kept of a cluster, by name."""
    query = sa.select(definitions.c.name, definitions.c.uid, definitions.c.generation)
    found = await connection.execute(query.where(definitions.c.cluster == cluster))
    return {name: (uid, generation) for name, uid, generation in found}


async def keep(
    connection: AsyncConnection, cluster: str, found: Sequence[Definition], gone: Collection[str]
) -> None:
    """These are so now, and those are no more."""
    names = [*gone, *(one.name for one in found)]
    for begin in range(0, len(names), _SOME):
        some = definitions.c.name.in_(names[begin : begin + _SOME])
        await connection.execute(definitions.delete().where(definitions.c.cluster == cluster, some))
    if found:
        await connection.execute(
            definitions.insert(),
            [
                {
                    "cluster": cluster,
                    "name": one.name,
                    "uid": one.uid,
                    "generation": one.generation,
                    "document": dict(one.document),
                }
                for one in found
            ],
        )


async def selected(connection: AsyncConnection) -> list[SelectedType]:
    """Every type that some stream selects, built in or not, in a fixed order; without documents."""
    query = (
        sa.select(
            streams.c.api_group,
            streams.c.resource,
            streams.c.kind,
            streams.c.cluster,
            streams.c.api_version,
            definitions.c.uid,
            definitions.c.generation,
        )
        .join_from(
            streams,
            definitions,
            sa.and_(
                definitions.c.cluster == streams.c.cluster,
                definitions.c.name == streams.c.resource + "." + streams.c.api_group,
            ),
            isouter=True,
        )
        .order_by(streams.c.stream_id)
    )
    kinds: dict[tuple[str, str], str] = {}
    clusters: dict[tuple[str, str], dict[str, ClusterType]] = {}
    for group, resource, kind, cluster, version, uid, generation in await connection.execute(query):
        kinds.setdefault((group, resource), kind)
        identity = None if uid is None else (uid, generation)
        known = clusters.setdefault((group, resource), {})
        known.setdefault(cluster, ClusterType(cluster, version, identity))
    return [
        SelectedType(*type_, kinds[type_], tuple(of[name] for name in sorted(of)))
        for type_, of in sorted(clusters.items())
    ]


async def described(connection: AsyncConnection, types: Sequence[SelectedType]) -> list[SelectedType]:
    """The types with their documents, as they are now."""
    names = {f"{one.resource}.{one.group}" for one in types}
    query = sa.select(definitions).where(definitions.c.name.in_(names))
    found = {(row.cluster, row.name): row.document for row in await connection.execute(query)}
    return [
        replace(
            one,
            clusters=tuple(
                replace(each, document=found.get((each.cluster, f"{one.resource}.{one.group}")))
                for each in one.clusters
            ),
        )
        for one in types
    ]


async def shown(connection: AsyncConnection) -> dict[str, tuple[str, str]]:
    """What each view of one type shows, and its digest, by the view's name."""
    query = sa.select(views.c.relation, views.c.subject, views.c.digest).where(views.c.subject != "")
    return {row.relation: (row.subject, row.digest) for row in await connection.execute(query)}


async def origins(connection: AsyncConnection, relations: Sequence[str]) -> dict[str, dict[str, str]]:
    """Of some views, where each of their columns comes from."""
    found: dict[str, dict[str, str]] = {}
    query = sa.select(view_columns.c.relation, view_columns.c.name, view_columns.c.origin)
    for begin in range(0, len(relations), _SOME):
        some = view_columns.c.relation.in_(relations[begin : begin + _SOME])
        for relation, name, origin in await connection.execute(
            query.where(some, view_columns.c.origin != "")
        ):
            found.setdefault(relation, {})[name] = origin
    return found


async def documents(connection: AsyncConnection) -> list[dict[str, Any]]:
    """What is kept of every definition, of every cluster."""
    query = sa.select(definitions.c.document).order_by(definitions.c.name, definitions.c.cluster)
    return [document for document in (await connection.execute(query)).scalars() if document]
