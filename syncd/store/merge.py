"""What both bulk writers share: a row's columns, the scope of a write, and the guard, as SQL text.

`incoming` (upserts) and `leaving` (deletions) are the two relations that a writer fills, by whatever is
quickest in its dialect, and that the statements here are written against. Nothing is executed here.
"""

# ruff: noqa: S608 - statements are rendered from this room's own names; every value is a parameter

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from syncd.core.change import Deletion
from syncd.core.document import Item
from syncd.core.history import UNRECORDED, History, Source
from syncd.core.resource import Cause, version_number

ITEM_COLUMNS = (
    "object_key",
    "namespace",
    "api_version",
    "kind",
    "name",
    "uid",
    "resource_version",
    "resource_version_number",
    "generation",
    "creation_timestamp",
    "deletion_timestamp",
    "owner_uid",
    "labels",
    "annotations",
    "object",
)
LEAVING_COLUMNS = (*ITEM_COLUMNS, "cause", "has_item")
SCOPE_COLUMNS = ("cluster", "api_group", "resource", "stream_id", "first_seen_at", "committed_at")
OBJECT_COLUMNS = (*SCOPE_COLUMNS, *ITEM_COLUMNS)
TOMBSTONE_COLUMNS = (*OBJECT_COLUMNS, "epoch", "cause", "deleted_at", "last_alive_at")

_UNGUARDING = ", ".join(f"'{cause.value}'" for cause in Cause if not cause.guards)


@dataclass(frozen=True, slots=True)
class Scope:
    """What holds for every row of one write; `alive` is when the stream was last level with the API.
    `history`, `source` and `initial` are about the records of its changes.
    """

    cluster: str
    api_group: str
    resource: str
    stream_id: int
    epoch: int
    guarded: bool
    replaced: Cause
    now: datetime
    alive: datetime | None
    history: History = UNRECORDED
    source: Source = Source.WATCH
    initial: bool = False


@dataclass(slots=True)
class Tally:
    """What a write did. `left` counts rows that left other streams, by stream: they were adopted or
    deleted from here.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    tombstones: int = 0
    skipped: int = 0
    gained: int = 0
    recorded: int = 0
    left: dict[int, int] = field(default_factory=dict)

    def met(self, scope: Scope, stream_id: int | None, replaced: bool, count: int) -> None:
        """So many upserts were written over rows of that stream, None where there was no row."""
        if stream_id is None or replaced:
            self.inserted += count
        else:
            self.updated += count
        if stream_id is not None and replaced:
            self.deleted += count
        if stream_id != scope.stream_id:
            self.gained += count
            if stream_id is not None:
                self.left[stream_id] = self.left.get(stream_id, 0) + count

    def removed(self, scope: Scope, stream_id: int, count: int) -> None:
        """So many rows of that stream left the table."""
        self.deleted += count
        if stream_id == scope.stream_id:
            self.gained -= count
        else:
            self.left[stream_id] = self.left.get(stream_id, 0) + count

    def add(self, other: Tally) -> None:
        self.inserted += other.inserted
        self.updated += other.updated
        self.deleted += other.deleted
        self.tombstones += other.tombstones
        self.skipped += other.skipped
        self.gained += other.gained
        self.recorded += other.recorded
        for stream_id, count in other.left.items():
            self.left[stream_id] = self.left.get(stream_id, 0) + count


class BulkWriter(Protocol):
    """One dialect's way to write many rows. It gets a connection inside a transaction: it cannot commit,
    and it sees no checkpoint. Errors of the driver pass through.
    """

    async def insert(self, connection: AsyncConnection, scope: Scope, items: Sequence[Item]) -> Tally:
        """Plain inserts; a row that exists is an integrity error."""
        ...

    async def upsert(self, connection: AsyncConnection, scope: Scope, items: Sequence[Item]) -> Tally:
        """Inserts or overwrites; where guarded, only what is newer. A row replaced by another uid leaves
        a tombstone.
        """
        ...

    async def delete(self, connection: AsyncConnection, scope: Scope, deletions: Sequence[Deletion]) -> Tally:
        """Rows leave and tombstones are written; where guarded, only what is not newer."""
        ...


def api_time(text: str | None) -> datetime | None:
    """RFC 3339 as the API writes it; what cannot be read is NULL, the row is kept."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def item_values(item: Item) -> tuple[Any, ...]:
    """An item in the order of ITEM_COLUMNS."""
    return (
        item.key,
        item.namespace,
        item.api_version,
        item.kind,
        item.name,
        item.uid,
        item.resource_version,
        version_number(item.resource_version),
        item.generation,
        api_time(item.creation_timestamp),
        api_time(item.deletion_timestamp),
        item.owner_uid,
        item.labels,
        item.annotations,
        item.document,
    )


def deletion_values(deletion: Deletion) -> tuple[Any, ...]:
    """A deletion in the order of LEAVING_COLUMNS: its own uid and version, the content of its item."""
    number = version_number(deletion.resource_version)
    if deletion.item is None:
        head = (deletion.key, "", "", "", "", deletion.uid, deletion.resource_version, number)
        return (*head, *(None,) * 7, deletion.cause.value, False)
    values = item_values(deletion.item)
    return (
        deletion.key,
        *values[1:5],
        deletion.uid,
        deletion.resource_version,
        number,
        *values[8:],
        deletion.cause.value,
        True,
    )


def columns(names: Sequence[str], prefix: str = "") -> str:
    """`a, b` or `o.a, o.b`."""
    return ", ".join(f"{prefix}.{name}" if prefix else name for name in names)


def keyed(table: str, alias: str, source: str) -> str:
    """The join of a table to a relation by the object's key, within :cluster, :api_group, :resource."""
    return (
        f"{table} {alias} ON {alias}.cluster = :cluster AND {alias}.api_group = :api_group"
        f" AND {alias}.resource = :resource AND {alias}.object_key = {source}.object_key"
    )


def newer(left: str, right: str) -> str:
    """left is newer than right: by number where both compare, else whenever the texts differ."""
    return (
        f"coalesce({left}.resource_version_number > {right}.resource_version_number,"
        f" {left}.resource_version <> {right}.resource_version)"
    )


def not_older(left: str, right: str) -> str:
    """left is as new as right or newer, or they do not compare."""
    return f"coalesce({left}.resource_version_number >= {right}.resource_version_number, true)"


def guarding(tombstone: str) -> str:
    """The tombstone is of a cause that refuses older versions (mirror.md §8)."""
    return f"{tombstone}.cause NOT IN ({_UNGUARDING})"


def barred(source: str) -> str:
    """A guarding tombstone of this epoch, of any uid, is newer than the source's row."""
    return (
        "EXISTS (SELECT 1 FROM syncd_deleted_objects t WHERE t.cluster = :cluster"
        " AND t.api_group = :api_group AND t.resource = :resource"
        f" AND t.object_key = {source}.object_key AND t.epoch = :epoch AND {guarding('t')}"
        f" AND t.resource_version_number > {source}.resource_version_number)"
    )


KEEP_HIGHER = (
    "ON CONFLICT (cluster, api_group, resource, object_key, uid, epoch) DO UPDATE SET "
    + ", ".join(
        f"{name} = excluded.{name}"
        for name in TOMBSTONE_COLUMNS
        if name not in ("cluster", "api_group", "resource", "object_key", "uid", "epoch")
    )
    + " WHERE "
    + newer("excluded", "syncd_deleted_objects")
)

OVERWRITE = (
    "ON CONFLICT (cluster, api_group, resource, object_key) DO UPDATE SET "
    + ", ".join(
        f"{name} = excluded.{name}"
        for name in OBJECT_COLUMNS
        if name not in ("cluster", "api_group", "resource", "object_key", "first_seen_at")
    )
    # another object under the name is first seen now
    + ", first_seen_at = CASE WHEN syncd_objects.uid = excluded.uid"
    " THEN syncd_objects.first_seen_at ELSE excluded.first_seen_at END"
)
OVERWRITE_OLDER = f"{OVERWRITE} WHERE {newer('excluded', 'syncd_objects')}"
