"""The tables as a model: rows, tombstones, a checkpoint, and the rules of a commit.

Nothing of the real store is used: what is tested is whether the core tells it the right things.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from syncd.core.change import Batch, KeyRange, RowVersion, StreamRow
from syncd.core.document import Head, Item
from syncd.core.resource import State
from tests.properties.cluster import State as Rows

PROJECTION = "p"


@dataclass(slots=True)
class Table:
    """One stream's rows."""

    rows: Rows = field(default_factory=dict)
    tombstones: dict[str, int] = field(default_factory=dict)
    checkpoint: int | None = None
    state: State = State.PENDING

    @property
    def row(self) -> StreamRow:
        """The stream's own."""
        version = None if self.checkpoint is None else str(self.checkpoint)
        projection = PROJECTION if version else ""
        return StreamRow(1, "me", 1, projection, self.state, version, len(self.rows))

    def within(self, keys: KeyRange) -> list[RowVersion]:
        """The rows of a range."""
        return [self.version(key) for key in self.rows if key in keys]

    def version(self, key: str) -> RowVersion:
        uid, version = self.rows[key]
        namespace, _, name = key.rpartition("/")
        return RowVersion(key, namespace, name, uid, str(version))

    def newest(self) -> RowVersion | None:
        """The row of the highest version."""
        if not self.rows:
            return None
        return self.version(max(self.rows, key=lambda key: self.rows[key][1]))

    def commit(self, batch: Batch) -> None:
        """What the live stream says: newer wins."""
        for deletion in batch.deletes:
            key, version = deletion.key, int(deletion.resource_version)
            if version < self.tombstones.get(key, 0) or version < self.rows.get(key, ("", 0))[1]:
                continue
            self.rows.pop(key, None)
            self.tombstones[key] = version
        for item in batch.upserts:
            key, version = item.key, int(item.resource_version)
            if version > self.tombstones.get(key, 0) and version > self.rows.get(key, ("", 0))[1]:
                self.rows[key] = (item.uid, version)
        if batch.resource_version is not None:
            self.checkpoint = int(batch.resource_version)

    def overwrite(self, upserts: list[Item | Head], gone: list[RowVersion], version: int) -> None:
        """What a snapshot says, with the stream stopped."""
        for row in gone:
            del self.rows[row.key]
            self.tombstones[row.key] = version
        for item in upserts:
            self.rows[item.key] = (item.uid, int(item.resource_version))
