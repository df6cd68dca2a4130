"""One look at the tables, in one transaction, as a stranger takes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.history import Type
from tests.e2e.table import Table

Row = tuple[str, int, int]
"""(uid, version, stream)."""


@dataclass(frozen=True, slots=True)
class StreamPicture:
    """One stream's row in one transaction, with how many rows it has then."""

    stream_id: int
    type_: Type
    namespace: str
    selector: str
    state: str
    version: int | None
    epoch: int
    counted: int
    error: str
    rows: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Streams and rows in one repeatable-read transaction, by key. What is quarantined stands for an object
    that the database refused.
    """

    streams: tuple[StreamPicture, ...]
    rows: dict[Type, dict[str, Row]]
    quarantine: dict[Type, dict[str, Row]]

    def standing(self, type_: Type) -> dict[str, Row]:
        """What counts as present: rows, and what stands in for one."""
        return {**self.rows.get(type_, {}), **self.quarantine.get(type_, {})}


def picture(table: Table) -> Picture:
    """Checkpoints are read first: were they read last, a reader that is not isolated would pass unseen."""
    with table.transaction() as cursor:
        cursor.execute(
            "SELECT stream_id, api_group, resource, namespace, label_selector, state, resource_version,"
            " epoch, object_count, last_error FROM syncd_streams"
        )
        streams = cursor.fetchall()
        found: list[dict[Type, dict[str, Row]]] = []
        for name in ("objects", "quarantine"):
            cursor.execute(
                f"SELECT api_group, resource, object_key, uid, resource_version, stream_id FROM syncd_{name}"
            )
            rows: dict[Type, dict[str, Row]] = {}
            for group, resource, key, uid, version, stream_id in cursor.fetchall():
                rows.setdefault((group, resource), {})[key] = (uid, int(version), stream_id)
            found.append(rows)
    counts = Counter(stream_id for each in found[0].values() for _, _, stream_id in each.values())
    return Picture(tuple(_stream(row, counts) for row in streams), found[0], found[1])


def _stream(row: Sequence[Any], counts: Counter[int]) -> StreamPicture:
    stream_id, group, resource, namespace, selector, state, version, epoch, counted, error = row
    return StreamPicture(
        stream_id=stream_id,
        type_=(group, resource),
        namespace=namespace,
        selector=selector,
        state=state,
        version=None if version is None else int(version),
        epoch=epoch,
        counted=counted,
        error=error,
        rows=counts[stream_id],
    )
