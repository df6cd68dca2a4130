"""Comparing a page with the rows of its range: one function serves first sync, relist and reconcile.

A page is the complete truth about a key range at one version (mirror.md §4), so what differs can be told,
deletions included, without ever holding more than a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from syncd.core.change import DriftKind, RowVersion, Tombstone
from syncd.core.document import Head, Item, same_content
from syncd.core.resource import compare_versions


@dataclass(frozen=True, slots=True)
class Difference:
    """What one page and the rows of its range disagree on. Objects are heads where the page gave heads.

    Attributes:
        missing: objects without a row.
        stale: objects whose row has another uid or version, with that row.
        altered: right version, other content; only where documents were compared.
        retry: objects that stand in quarantine at this very version.
        gone: rows without an object.
        equal: how many agree.
    """

    missing: tuple[Item | Head, ...]
    stale: tuple[tuple[Item | Head, RowVersion], ...]
    altered: tuple[tuple[Item | Head, RowVersion], ...]
    retry: tuple[Item | Head, ...]
    gone: tuple[RowVersion, ...]
    equal: int

    @property
    def upserts(self) -> list[Item | Head]:
        """What a snapshot writes. What is quarantined counts as present and is left to reconciles."""
        return [*self.missing, *(item for item, _ in self.stale), *(item for item, _ in self.altered)]


def difference(items: Iterable[Item | Head], rows: Sequence[RowVersion]) -> Difference:
    """Compares the items of a page with the rows of its range. Content is compared where the rows carry
    their documents and the page its whole objects.
    """
    by_key = {row.key: row for row in rows}
    missing: list[Item | Head] = []
    stale: list[tuple[Item | Head, RowVersion]] = []
    altered: list[tuple[Item | Head, RowVersion]] = []
    retry: list[Item | Head] = []
    equal = 0
    for item in items:
        row = by_key.pop(item.key, None)
        if row is None:
            missing.append(item)
        elif (row.uid, row.resource_version) != (item.uid, item.resource_version):
            stale.append((item, row))
        elif row.quarantined:
            retry.append(item)
        elif (
            isinstance(item, Item)
            and row.document is not None
            and not same_content(row.document, item.document)
        ):
            altered.append((item, row))
        else:
            equal += 1
    return Difference(
        tuple(missing), tuple(stale), tuple(altered), tuple(retry), tuple(by_key.values()), equal
    )


class DeletionGuard:
    """Refuses a snapshot that would empty the table by mistake.

    Deletions count against the stream's rows at the start; the page that would pass the share holds its
    deletions until a second list confirms them (mirror.md §4).
    """

    def __init__(self, rows: int, *, share: float = 0.5, minimum: int = 100) -> None:
        self._allowed = rows * share if rows >= minimum else float("inf")
        self._deleted = 0

    def allows(self, deletions: int) -> bool:
        """Counts a page's deletions; False once they pass the share."""
        self._deleted += deletions
        return self._deleted <= self._allowed


def judge(
    item: Item | Head | None,
    row: RowVersion | None,
    tombstone: Tombstone | None,
    versions: tuple[str, str],
) -> DriftKind | None:
    """What is wrong with one key that differed from a snapshot, now that the stream has passed it.

    A row or tombstone with L < version ≤ P is newer than the snapshot and left alone; anything else that
    still differs is drift (mirror.md §6).

    Args:
        item: the object in the snapshot, None where it was absent.
        row: the row now; with its document where content is to be compared.
        tombstone: the newest guarding tombstone of the key in this epoch.
        versions: (L, P): the snapshot's version, and the one the stream has received up to.
    """
    if row is not None and _between(row.resource_version, versions):
        return None
    if row is None and tombstone is not None and _between(tombstone.resource_version, versions):
        return None
    if item is None:
        return DriftKind.GHOST if row is not None else None
    if row is None:
        return DriftKind.MISSING
    if (row.uid, row.resource_version) != (item.uid, item.resource_version):
        return DriftKind.STALE
    if isinstance(item, Item) and row.document is not None and not same_content(row.document, item.document):
        return DriftKind.ALTERED
    return None


def _between(version: str, versions: tuple[str, str]) -> bool:
    listed, received = versions
    return compare_versions(version, listed) == 1 and compare_versions(version, received) in (-1, 0)
