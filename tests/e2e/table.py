"""The mirror as a stranger reads it: plain SQL over a connection of its own, one transaction a question."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.conftest import DatabasePlace


@dataclass(frozen=True, slots=True)
class Row:
    """An object's row: what must equal the API, and when it was written."""

    key: str
    namespace: str
    name: str
    uid: str
    version: str
    document: dict[str, Any]
    committed_at: str


@dataclass(frozen=True, slots=True)
class Glimpse:
    """Streams and rows as one transaction saw them: versions by namespace of the stream, rows by key."""

    checkpoints: dict[str, str | None]
    rows: dict[str, tuple[str, int]]


class Table:
    """Reads, and spoils, the tables of one database. Questions are written with `?` for values."""

    def __init__(self, place: DatabasePlace) -> None:
        self.place = place

    @property
    def sqlite(self) -> bool:
        return self.place.dialect == "sqlite"

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Any]:
        """A cursor in one transaction: repeatable read, or one deferred read transaction on SQLite."""
        if self.sqlite:
            connection: Any = sqlite3.connect(self.place.path, isolation_level=None, timeout=20)
        else:
            options = f'-c search_path="{self.place.schema}"'
            connection = psycopg.connect(self.place.url, options=options, autocommit=True)
        try:
            cursor = connection.cursor()
            if self.sqlite:
                cursor.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            else:
                cursor.execute("BEGIN" if write else "BEGIN ISOLATION LEVEL REPEATABLE READ")
            yield cursor
            cursor.execute("COMMIT")
        finally:
            connection.close()

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of one question."""
        with self.transaction() as cursor:
            return self._execute(cursor, query, values)

    def write(self, *statements: str) -> None:
        """Changes made behind syncd's back, in one transaction."""
        with self.transaction(write=True) as cursor:
            for statement in statements:
                cursor.execute(statement)

    def one(self, query: str, *values: Any) -> Any:
        """The only value of a question."""
        [(value,)] = self.ask(query, *values)
        return value

    def _execute(self, cursor: Any, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        cursor.execute(query if self.sqlite else query.replace("?", "%s"), values)
        return list(cursor.fetchall())

    def rows(self, group: str, resource: str, *, cluster: str = "c") -> dict[str, Row]:
        """A resource's rows by key, in one transaction."""
        found = self.ask(
            "SELECT object_key, namespace, name, uid, resource_version, object, committed_at"
            " FROM syncd_objects WHERE cluster = ? AND api_group = ? AND resource = ?",
            cluster,
            group,
            resource,
        )
        return {
            key: Row(key, namespace, name, uid, version, self._json(document), str(committed_at))
            for key, namespace, name, uid, version, document, committed_at in found
        }

    def _json(self, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value

    def glimpse(self, group: str, resource: str) -> Glimpse:
        """Checkpoints and rows in one transaction. The checkpoints are read first: were they read last,
        a reader that is not isolated would pass unseen.
        """
        with self.transaction() as cursor:
            checkpoints = self._execute(
                cursor,
                "SELECT namespace, resource_version FROM syncd_streams WHERE api_group = ? AND resource = ?",
                (group, resource),
            )
            rows = self._execute(
                cursor,
                "SELECT object_key, uid, resource_version FROM syncd_objects"
                " WHERE api_group = ? AND resource = ?",
                (group, resource),
            )
        return Glimpse(dict(checkpoints), {key: (uid, int(version)) for key, uid, version in rows})

    def tombstones(self, resource: str) -> dict[str, tuple[str, str, str]]:
        """Key to (cause, uid, version) of what left; for keys that left once."""
        found = self.ask(
            "SELECT object_key, cause, uid, resource_version FROM syncd_deleted_objects WHERE resource = ?"
            " ORDER BY resource_version_number",
            resource,
        )
        return {key: (cause, uid, version) for key, cause, uid, version in found}

    def states(self) -> dict[tuple[str, str], str]:
        """State by (resource, namespace) of each stream."""
        found = self.ask("SELECT resource, namespace, state FROM syncd_streams")
        return {(resource, namespace): state for resource, namespace, state in found}

    def holding(self, *needles: str) -> list[str]:
        """Where any of these texts is: files by name, whose every byte is looked at, or tables."""
        if self.sqlite:
            files = [
                path
                for path in self.place.path.parent.iterdir()
                if path.name.startswith(self.place.path.name)
            ]
            return [path.name for path in files if any(n.encode() in path.read_bytes() for n in needles)]
        tables = self.ask(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema = ? AND table_type = 'BASE TABLE'",
            self.place.schema,
        )
        query = 'SELECT count(*) FROM "{}" AS t WHERE CAST(t AS text) LIKE ?'
        return [table for (table,) in tables for n in needles if self.one(query.format(table), f"%{n}%")]

    def spoil(self, resource: str, keys: Sequence[str], invented: str) -> None:
        """One row deleted, one given a lower version, and one invented, as a bug or a hand would."""
        missing, stale = keys
        columns = [
            "cluster", "api_group", "resource", "stream_id", "namespace", "api_version", "kind", "name",
            "resource_version", "resource_version_number", "first_seen_at", "committed_at", "object",
        ]  # fmt: skip
        self.write(
            f"DELETE FROM syncd_objects WHERE object_key = '{missing}' AND resource = '{resource}'",
            "UPDATE syncd_objects SET resource_version = '7', resource_version_number = 7"
            f" WHERE object_key = '{stale}' AND resource = '{resource}'",
            f"INSERT INTO syncd_objects ({', '.join(columns)}, object_key, uid) SELECT {', '.join(columns)},"
            f" '{invented}', 'no-such-uid' FROM syncd_objects"
            f" WHERE object_key = '{stale}' AND resource = '{resource}'",
        )

    # --- an audit of writes -----------------------------------------------------------------------

    def watch_writes(self) -> None:
        """From now on every row of objects or deleted objects that is written is noted, by triggers."""
        serial = "INTEGER PRIMARY KEY" if self.sqlite else "bigserial PRIMARY KEY"
        columns = "what text, object_key text, resource_version text"
        statements = [f"CREATE TABLE audit (n {serial}, {columns})"]
        for table in ("syncd_objects", "syncd_deleted_objects"):
            for verb, side in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
                name = f"audit_{table}_{verb.lower()}"
                note = (
                    "INSERT INTO audit (what, object_key, resource_version)"
                    f" VALUES ('{verb.lower()} {table}', {side}.object_key, {side}.resource_version);"
                )
                if self.sqlite:
                    statements.append(f"CREATE TRIGGER {name} AFTER {verb} ON {table} BEGIN {note} END")
                else:
                    statements += [
                        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS"
                        f" $$ BEGIN {note} RETURN NULL; END $$",
                        f"CREATE TRIGGER {name} AFTER {verb} ON {table}"
                        f" FOR EACH ROW EXECUTE FUNCTION {name}()",
                    ]
        self.write(*statements)

    def writes(self) -> list[tuple[str, str, str]]:
        """(what, key, version) of each write since `watch_writes`, in order."""
        found = self.ask("SELECT what, object_key, resource_version FROM audit ORDER BY n")
        return [(what.replace("syncd_", ""), key, version) for what, key, version in found]
