"""`syncd check`: what would fail about the database."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from syncd.app.check import Verdict, check_all
from syncd.app.cluster_check import Expected
from syncd.app.database_check import check_room
from syncd.app.finding import Severity
from syncd.store.database import Database
from syncd.store.inspection import Inspection, SchemaState
from tests.conftest import Begin, DatabasePlace
from tests.fakes.finding import one
from tests.fakes.front import Cluster


@pytest.mark.parametrize("begin", [Begin.NOTHING])
async def test_a_database_is_inspected_before_during_and_after(place: DatabasePlace) -> None:
    database = Database(place.url, place.schema)
    try:
        fresh = await database.inspect()
        await database.migrate()
        made = await database.inspect()
        lease = database.lease("host", 7, "1.0")
        await lease.acquire()
        held = await database.inspect()
        await lease.release()
    finally:
        await database.close()
    assert (fresh.schema, made.schema) == (SchemaState.ABSENT, SchemaState.HEAD)
    assert fresh.supported
    assert fresh.obstacles == made.obstacles == ()
    assert made.revision == made.needed
    assert made.used_bytes > 0
    assert (fresh.free_bytes is None) == (place.dialect == "postgresql")
    assert held.lease is not None
    assert (held.lease.host, held.lease.pid, held.lapsed) == ("host", 7, False)


async def test_a_schema_from_the_future_would_fail(place: DatabasePlace, tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.configure(database={"url": place.url, "schema": place.schema})
        database = Database(place.url, place.schema)
        try:
            await database.migrate()
            async with database.engine.writing() as connection:
                await connection.exec_driver_sql("UPDATE syncd_migrations SET version_num = '9999'")
        finally:
            await database.close()
        findings, result = await check_all(cluster.config)
    assert result is Verdict.FAILS
    assert one(findings, "schema").next_step == "upgrade syncd"


async def test_a_directory_that_is_not_there_would_fail(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.configure(database={"url": f"sqlite:///{tmp_path}/not/there/mirror.db"})
        findings, result = await check_all(cluster.config)
    assert result is Verdict.FAILS
    assert one(findings, "privileges").next_step == f"mkdir -p {tmp_path}/not/there"
    assert not (tmp_path / "not").exists()


async def test_a_directory_in_place_of_the_file_would_fail(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.configure(database={"url": f"sqlite:///{tmp_path}"})
        findings, result = await check_all(cluster.config)
    assert result is Verdict.FAILS
    assert one(findings, "privileges").message == f"{tmp_path} is no file"


async def test_a_file_that_may_not_be_looked_at_would_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Path.exists

    def refuse(path: Path) -> bool:
        if path.name == "mirror.db":
            raise PermissionError(13, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(Path, "exists", refuse)
    database = Database(f"sqlite:///{tmp_path}/mirror.db")
    try:
        found = await database.inspect()
        assert await database.current() is None  # SQLite's own look at it, which root may
    finally:
        await database.close()
    ((obstacle, step),) = found.obstacles
    assert obstacle == f"{tmp_path}/mirror.db: Permission denied"
    assert "uid" in step


async def test_a_file_that_may_not_be_written_would_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mirror.db"
    path.touch()
    # Modes bind nobody who is root, as tests often are.
    monkeypatch.setattr("syncd.store.inspection.os.access", lambda place, mode: place != path)
    database = Database(f"sqlite:///{path}")
    try:
        found = await database.inspect()
    finally:
        await database.close()
    assert [obstacle for obstacle, _ in found.obstacles] == [f"{path} is not writable"]
    assert found.schema is SchemaState.UNKNOWN


async def test_what_is_no_database_is_said(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.database.write_bytes(b"no database at all, and longer than a header would be" * 20)
        findings, result = await check_all(cluster.config)
    assert result is Verdict.UNCHECKED
    assert "mirror.db" in one(findings, "reachable", "database").message


@pytest.mark.postgres
@pytest.mark.parametrize("begin", [Begin.NOTHING])
async def test_the_privileges_that_an_account_lacks_are_named(postgres_place: DatabasePlace) -> None:
    place = postgres_place
    role = f"weak_{place.schema}"
    owner = Database(place.url, place.schema)
    with psycopg.connect(place.url, autocommit=True) as admin:
        admin.execute(f'CREATE ROLE "{role}" LOGIN')
        (name,) = admin.execute("SELECT current_database()").fetchone() or ("",)
        try:
            admin.execute(f'REVOKE TEMPORARY ON DATABASE "{name}" FROM PUBLIC')
            as_role = f"{place.url}&options=-c%20role%3D{role}"
            database = Database(as_role, place.schema)
            try:
                no_schema = await database.inspect()
                await owner.migrate()
                no_right = await database.inspect()
                admin.execute(f'GRANT USAGE, CREATE ON SCHEMA "{place.schema}" TO "{role}"')
                admin.execute(f'GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA "{place.schema}" TO "{role}"')
                admin.execute(f'GRANT TEMPORARY ON DATABASE "{name}" TO "{role}"')
                half = await database.inspect()
            finally:
                await database.close()
        finally:
            await owner.close()
            admin.execute(f'GRANT TEMPORARY ON DATABASE "{name}" TO PUBLIC')
            admin.execute(f'DROP OWNED BY "{role}"')
            admin.execute(f'DROP ROLE "{role}"')
    steps = [step for _, step in no_schema.obstacles]
    assert f'GRANT TEMPORARY ON DATABASE "{name}" TO "{role}"' in steps
    assert f'CREATE SCHEMA "{place.schema}" AUTHORIZATION "{role}"' in steps
    steps = [step for _, step in no_right.obstacles]
    assert f'GRANT USAGE ON SCHEMA "{place.schema}" TO "{role}"' in steps
    assert f'GRANT CREATE ON SCHEMA "{place.schema}" TO "{role}"' in steps
    assert no_right.schema is SchemaState.UNKNOWN
    steps = [step for _, step in half.obstacles]
    assert f'GRANT UPDATE, DELETE ON "{place.schema}".syncd_objects TO "{role}"' in steps
    assert all(step.startswith("GRANT UPDATE, DELETE ON") for step in steps)


@pytest.mark.parametrize(
    ("free", "severity"),
    [(10_000, Severity.ERROR), (150_000, Severity.WARNING), (1_000_000, Severity.OK), (None, Severity.OK)],
)
def test_room_is_measured_against_what_is_to_come(free: int | None, severity: Severity) -> None:
    inspection = Inspection(
        "SQLite", True, "", (), SchemaState.HEAD, "1", "1", free_bytes=free, used_bytes=41_000
    )
    # 50 × 700 + 80,000 × 1.2 = 131,000 on disk, of which 41,000 are there
    found = check_room(inspection, [Expected(50, 80_000), Expected(0, 0, exact=False)])
    assert found.severity is severity
    assert found.message.startswith("at least 50 objects, about 131 kB on disk")
