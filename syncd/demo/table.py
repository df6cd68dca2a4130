"""The SQLite file as anybody may use it: read, compared with the cluster, and spoiled, in plain SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from syncd.simulator.simulator import Simulator

WAIT = 10.0
"""Seconds to wait for the daemon's commit in flight."""

Resource = tuple[str, str]
Row = tuple[Any, ...]

# Spoiled are deployments, since nothing else happens to them in the demo: the daemon mends a row by itself
# as soon as its object changes.
SPOILING = (
    "DELETE FROM syncd_objects WHERE name = ? AND kind = 'Deployment'",
    "UPDATE syncd_objects SET resource_version = '1',\n"
    "  resource_version_number = 1 WHERE name = ? AND kind = 'Deployment'",
    "INSERT INTO syncd_objects SELECT cluster,\n"
    "  api_group, resource, namespace || '/invented', stream_id, namespace, api_version, kind, 'invented',\n"
    "  'no-such-uid', resource_version, resource_version_number, generation, creation_timestamp,\n"
    "  deletion_timestamp, owner_uid, first_seen_at, committed_at, labels, annotations, object\n"
    "  FROM syncd_objects WHERE name = ? AND kind = 'Deployment'",
)


class Table:
    """One file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def size(self) -> int:
        """Bytes on disk, the write-ahead log included."""
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def ask(self, query: str) -> tuple[list[str], list[Row]]:
        """The names of the columns, and the rows."""
        with self._connected() as connection:
            cursor = connection.execute(query)
            return [column[0] for column in cursor.description], cursor.fetchall()

    def now(self) -> str:
        """The moment as the table writes it."""
        [(moment,)] = self.ask("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'")[1]
        return str(moment)

    def untouched_since(self, moment: str) -> int:
        """Rows that nobody has written since."""
        with self._connected() as connection:
            query = "SELECT count(*) FROM syncd_objects WHERE committed_at < ?"
            [(count,)] = connection.execute(query, (moment,))
        return int(count)

    def spoil(self) -> list[str]:
        """Deletes, sets back and invents a row; the statements."""
        with self._connected() as connection:
            query = "SELECT name FROM syncd_objects WHERE kind = 'Deployment' ORDER BY object_key LIMIT 3"
            names = [name for (name,) in connection.execute(query)]
            for statement, name in zip(SPOILING, names, strict=True):
                connection.execute(statement, (name,))
            connection.commit()
        return [text.replace("?", f"'{name}'") for text, name in zip(SPOILING, names, strict=True)]

    def differing(self, simulator: Simulator, resources: tuple[Resource, ...]) -> int:
        """How many objects have another uid or version here than in the cluster, or are not in both."""
        count = 0
        for group, resource in resources:
            present = simulator.collection(group, resource).current.records
            cluster = {(record.key, record.uid, str(record.version)) for record in present.values()}
            rows = set(self._rows("object_key, uid, resource_version", group, resource))
            count += len({row[:2] for row in rows ^ cluster})  # one replaced under its name is two
        return count

    def unlike(self, simulator: Simulator, resources: tuple[Resource, ...]) -> int:
        """How many documents are not the cluster's less managedFields; Secrets, which are stored without
        their values, are left out.
        """
        count = 0
        for group, resource in resources:
            if resource == "secrets":
                continue
            documents: dict[str, str] = dict(self._rows("object_key, object", group, resource))
            kind = simulator.kind(group, resource)
            for key, record in simulator.collection(group, resource).current.records.items():
                cluster = kind.decode(record.body)
                cluster["metadata"].pop("managedFields", None)
                stored = msgspec.json.decode(documents[key]) if key in documents else {}
                count += {**stored, **cluster} != stored  # of a list's item kind and apiVersion are ours
        return count

    def _rows(self, columns: str, group: str, resource: str) -> list[Row]:
        query = f"SELECT {columns} FROM syncd_objects WHERE api_group = ? AND resource = ?"  # noqa: S608 - ours
        with self._connected() as connection:
            return connection.execute(query, (group, resource)).fetchall()

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=WAIT)
        try:
            yield connection
        finally:
            connection.close()
