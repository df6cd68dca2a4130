"""What `syncd check` says of the database, from an inspection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from syncd.app.cluster_check import Expected
from syncd.app.database import configured
from syncd.app.finding import Finding, Kind, error, ok, warning
from syncd.app.quantity import counted, size
from syncd.config import Config
from syncd.core.errors import ConfigError, StoreError
from syncd.store.inspection import Inspection, SchemaState

SUBJECT = "database"
DISK_PER_BYTE = 1.2
DISK_PER_ROW = 700
"""Bytes on disk of an object beside its JSON: labels, indexes, free space in pages. 2,000 simulated pods of
4.3 kB took 11.6 MB on SQLite, and these say 11.7."""


async def check_database(config: Config) -> tuple[list[Finding], Inspection | None]:
    """The findings, and the inspection where there was one."""
    try:
        database = configured(config)
    except ConfigError as problem:
        return [error(SUBJECT, "reachable", str(problem), "mend database.url", Kind.CONFIG)], None
    try:
        found = await database.inspect()
    except StoreError as problem:
        message = f"{config.database.shown}: {problem}"
        step = "see that it runs, that database.url is right, and that it lets this account in"
        return [error(SUBJECT, "reachable", message, step, Kind.UNCHECKED)], None
    finally:
        await database.close()
    return list(_findings(found, config)), found


def _findings(found: Inspection, config: Config) -> Iterator[Finding]:
    if found.supported:
        yield ok(SUBJECT, "version", f"{config.database.shown}: {found.server}")
    else:
        yield error(SUBJECT, "version", f"{found.server} is too old", f"syncd needs {found.floor} or newer")
    for obstacle, step in found.obstacles:
        yield error(SUBJECT, "privileges", obstacle, step)
    if not found.obstacles:
        yield ok(SUBJECT, "privileges", "this account may make and write its tables")
    yield _schema(found)
    if found.lease is not None:
        held = found.lease
        since = f"{held.host} pid {held.pid} (syncd {held.version})"
        message = (
            f"{since} has stopped without giving it back" if found.lapsed else f"{since} mirrors into it"
        )
        yield ok(SUBJECT, "lease", message)


def _schema(found: Inspection) -> Finding:
    match found.schema:
        case SchemaState.HEAD:
            return ok(SUBJECT, "schema", f"its schema is at {found.revision}, as this version needs")
        case SchemaState.ABSENT:
            return ok(SUBJECT, "schema", "it has no schema yet; `syncd run` makes it")
        case SchemaState.BEHIND:
            message = f"its schema is at {found.revision}, and this version needs {found.needed}"
            return warning(SUBJECT, "schema", message, "`syncd run` migrates it, or do so now: syncd migrate")
        case SchemaState.AHEAD:
            message = f"its schema is at {found.revision}, made by a newer version of syncd"
            return error(SUBJECT, "schema", message, "upgrade syncd")
        case SchemaState.UNKNOWN:
            message = "its schema was not looked at, for lack of privileges"
            return error(SUBJECT, "schema", message, "mend those first", Kind.UNCHECKED)


def check_room(found: Inspection, expected: Sequence[Expected]) -> Finding:
    """Whether what is to come has room. What is stored already is not asked for again."""
    rows = sum(each.rows for each in expected)
    total = round(DISK_PER_BYTE * sum(each.bytes for each in expected)) + DISK_PER_ROW * rows
    least = "" if all(each.exact for each in expected) else "at least "
    wanted = f"{least}{counted(rows, 'object')}, about {size(total)} on disk"
    if found.free_bytes is None:
        return ok(SUBJECT, "room", f"{wanted}; it holds {size(found.used_bytes)} now")
    message = f"{wanted}; it holds {size(found.used_bytes)} now, and {size(found.free_bytes)} are free"
    need = max(0, total - found.used_bytes)
    if found.free_bytes < need:
        return error(SUBJECT, "room", message, "make room on its disk, or mirror less")
    if found.free_bytes < 2 * need:
        return warning(
            SUBJECT, "room", message, "make room on its disk: what changes is kept for a while too"
        )
    return ok(SUBJECT, "room", message)
