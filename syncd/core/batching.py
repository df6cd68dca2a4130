"""Gathering changes into a batch: the last state of an object wins for the row, and where each change is
recorded, a batch holds one of an object.

There are no timers here: while one commit is in flight changes queue, and all that queued becomes the next
batch, cut at a count and a byte bound (mirror.md §3).
"""

from __future__ import annotations

from dataclasses import replace

from syncd.core.change import Batch, Change, Deletion, Marks, Reached, Upsert
from syncd.core.document import Item
from syncd.core.resource import Cause

MAX_CHANGES = 2_000
"""A batch of this many 8 KB pods is 8 MB once managedFields are gone: one COPY of about 0.3 s."""
MAX_BYTES = 16 * 1024 * 1024


class Gathering:
    """A batch in the making.

    Args:
        cause: of the tombstones that DELETED events leave.
        each: each change of an object must be in a batch of its own, so that the feed keeps all of them; else
            the last state of an object wins.
        max_changes, max_bytes: where the batch is cut. A single change larger than the bound is a batch
            of its own.
    """

    def __init__(
        self,
        cause: Cause,
        *,
        each: bool = False,
        max_changes: int = MAX_CHANGES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._cause = cause
        self._each = each
        self._max_changes = max_changes
        self._max_bytes = max_bytes
        self._upserts: dict[str, Item] = {}
        self._deletes: dict[str, Deletion] = {}
        self.changes = 0
        self.size = 0
        self.reached: str | None = None
        self.bookmarked = False

    def add(self, change: Change) -> bool:
        """Takes a change; False where it must open the next batch and was not taken.

        Two deletions of one key are two objects that bore its name; each wants its tombstone, so the
        second opens a new batch.
        """
        if isinstance(change, Reached):
            self.reached = change.resource_version
            self.bookmarked |= change.bookmark
            return True
        item = change.item
        if self.changes and (self.changes >= self._max_changes or self.size + item.size > self._max_bytes):
            return False
        if self._each and (item.key in self._upserts or item.key in self._deletes):
            return False
        if isinstance(change, Upsert):
            self._upserts[item.key] = item
        else:
            if item.key in self._deletes:
                return False
            self._upserts.pop(item.key, None)
            self._deletes[item.key] = Deletion(item.key, item.uid, item.resource_version, self._cause, item)
        self.changes += 1
        self.size += item.size
        return True

    def batch(self, marks: Marks) -> Batch:
        """What one transaction writes."""
        return Batch(
            upserts=list(self._upserts.values()),
            deletes=list(self._deletes.values()),
            guarded=True,
            resource_version=self.reached,
            marks=replace(marks),
        )
