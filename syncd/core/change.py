"""The values that flow from the wire to the database: changes, ranges, batches and what a commit answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from syncd.core.document import Item
from syncd.core.history import UNRECORDED, History, Record
from syncd.core.resource import Cause, State


@dataclass(frozen=True, slots=True)
class Upsert:
    """The object is, as of its version, like this. ADDED and MODIFIED are one thing to a mirror."""

    item: Item


@dataclass(frozen=True, slots=True)
class Delete:
    """The object left the stream; the item is its last content, its version that of the deletion."""

    item: Item


@dataclass(frozen=True, slots=True)
class Reached:
    """Every change up to and including this version has been delivered: the only value a commit may
    checkpoint. A version is closed by an event with a higher one or by a bookmark (mirror.md §3).
    """

    resource_version: str
    bookmark: bool = False


Change = Upsert | Delete | Reached


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys in (after, upto], compared as UTF-8 bytes; None is unbounded on that side."""

    after: str | None = None
    upto: str | None = None

    def __contains__(self, key: str) -> bool:
        data = key.encode()
        return (self.after is None or data > self.after.encode()) and (
            self.upto is None or data <= self.upto.encode()
        )


@dataclass(frozen=True, slots=True)
class RowVersion:
    """What is compared of a stored row; `document` only where content is compared.

    `quarantined` rows stand for an object that the database refused: they count as present.
    """

    key: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    document: str | None = None
    quarantined: bool = False


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is compared of a tombstone of the present epoch."""

    key: str
    uid: str
    resource_version: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Deletion:
    """A row that leaves, and the tombstone it leaves behind.

    `item` is the last content as the watch delivered it; None: take it from the row.
    A tombstone is written even where there was no row, if there is an item.
    """

    key: str
    uid: str
    resource_version: str
    cause: Cause
    item: Item | None = None


class DriftKind(StrEnum):
    """What a reconcile found wrong with one row."""

    MISSING = "missing"  # in the cluster, not in the table
    STALE = "stale"  # another version or another object under the name
    GHOST = "ghost"  # in the table, not in the cluster
    ALTERED = "altered"  # the right version with another content


@dataclass(frozen=True, slots=True)
class Drift:
    """One finding, a row of `syncd_drift`."""

    kind: DriftKind
    key: str
    namespace: str
    name: str
    uid: str
    table_version: str | None
    cluster_version: str | None


@dataclass(frozen=True, slots=True)
class Marks:
    """What a commit says about the stream besides its rows. None leaves a column as it is.

    Times are aware UTC on the database's clock; `last_error` '' clears it.
    """

    last_event_at: datetime | None = None
    last_bookmark_at: datetime | None = None
    last_list_at: datetime | None = None
    verified_at: datetime | None = None
    deadline_at: datetime | None = None
    last_error: str | None = None
    unordered: bool | None = None


@dataclass(slots=True)
class Batch:
    """All that one transaction writes for one stream.

    Attributes:
        upserts, deletes: at most one of each for a key; where a key has both, the deletion came first
            (an object replaced under its name).
        guarded: True in the live stream: an upsert or deletion below the version of the row, or of a
            guarding tombstone of this epoch, is a no-op (equal versions too). False for a snapshot with
            the stream stopped and for repairs: they overwrite.
        resource_version: the new checkpoint; None leaves it.
        state, projection: None leaves it.
        fresh: the stream has no rows yet: nothing to compare with, a plain insert may do.
        drift, reconciliation_id: findings that this commit repairs or, in a dry run, only records.
        repaired: whether the findings are repaired by this same transaction.
        history: what is recorded of these changes in the same transaction.
    """

    upserts: Sequence[Item] = ()
    deletes: Sequence[Deletion] = ()
    guarded: bool = True
    resource_version: str | None = None
    state: State | None = None
    projection: str | None = None
    marks: Marks = field(default_factory=Marks)
    fresh: bool = False
    drift: Sequence[Drift] = ()
    reconciliation_id: int | None = None
    repaired: bool = True
    history: History = UNRECORDED


@dataclass(frozen=True, slots=True)
class StreamRow:
    """The durable model of a stream, and the fence of every commit (mirror.md §2)."""

    stream_id: int
    holder: str
    epoch: int
    projection: str
    state: State
    resource_version: str | None
    object_count: int = 0
    unordered: bool = False
    verified_at: datetime | None = None
    history: Record = Record.NONE


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did; `row` is the fence of the next one, `recorded` counts change records."""

    row: StreamRow
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    tombstones: int = 0
    quarantined: int = 0
    skipped: int = 0
    recorded: int = 0
