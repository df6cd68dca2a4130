"""Databases that are slow, refuse, lose their answer, or dislike what is in an object: nothing is lost."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from syncd.app.reconciling import Wanted, reconcile
from syncd.core.change import Batch, Committed, StreamRow
from syncd.core.errors import StoreUnavailable
from syncd.store.store import MirrorStore
from tests.conformance.site import CONFIGMAPS, Site, changed, made, target, within
from tests.conftest import DatabasePlace
from tests.e2e.world import parts

POISON = "poison"


@asynccontextmanager
async def refusing(place: DatabasePlace) -> AsyncIterator[None]:
    """Writes are refused inside the block: another holds the file, or all sessions are new and read-only."""
    if place.dialect == "sqlite":
        async with holding(place):
            yield
        return
    name = place.application
    await asyncio.to_thread(_tell, place, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    try:
        yield
    finally:
        await asyncio.to_thread(
            _tell,
            place,
            "SET default_transaction_read_only = off",
            f'ALTER DATABASE "{name}" RESET default_transaction_read_only',
        )


def _tell(place: DatabasePlace, *statements: str) -> None:
    """And ends all other sessions, so that what was told is true of all."""
    with psycopg.connect(place.url, autocommit=True) as admin:
        for statement in statements:
            admin.execute(statement)
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = %s AND pid <> pg_backend_pid()",
            (place.application,),
        )


@asynccontextmanager
async def holding(place: DatabasePlace) -> AsyncIterator[None]:
    """Another's transaction holds what a commit needs. It may have to wait for one of this process first."""
    if place.dialect == "sqlite":
        connection: Any = sqlite3.connect(
            place.path, isolation_level=None, timeout=20, check_same_thread=False
        )
        statements = ["BEGIN IMMEDIATE"]
    else:
        connection = psycopg.connect(place.url, autocommit=True)
        statements = ["BEGIN", f'LOCK TABLE "{place.schema}".syncd_streams IN ACCESS EXCLUSIVE MODE']
    try:
        for statement in statements:
            await asyncio.to_thread(connection.execute, statement)
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


async def poisoned(site: Site) -> None:
    """From now on the database refuses objects of a certain content, as their own fault."""
    if site.table.sqlite:
        for verb in ("INSERT", "UPDATE"):
            await site.write(
                f"CREATE TRIGGER refuse_{verb} BEFORE {verb} ON syncd_objects"
                f" WHEN NEW.object LIKE '%{POISON}%' BEGIN SELECT RAISE(ABORT, 'refused'); END"
            )
        return
    await site.write(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF NEW.object::text LIKE '%{POISON}%' THEN RAISE 'refused' USING ERRCODE = '23514'; END IF;"
        " RETURN NEW; END $$",
        "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON syncd_objects"
        " FOR EACH ROW EXECUTE FUNCTION refuse()",
    )


async def healthy(site: Site) -> None:
    if site.table.sqlite:
        await site.write("DROP TRIGGER refuse_INSERT", "DROP TRIGGER refuse_UPDATE")
    else:
        await site.write("DROP TRIGGER refuse ON syncd_objects")


def quarantined(site: Site) -> dict[str, str]:
    """Version by key."""
    return dict(site.table.ask("SELECT object_key, resource_version FROM syncd_quarantine"))


@pytest.mark.cluster
async def test_48_a_slow_database(site: Site) -> None:
    """While the database keeps it waiting, what waits in memory is bounded: it stops reading, and goes on
    from its version when it can.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 10)
    limit = 2**20
    async with site.mirror(within(CONFIGMAPS, namespace), limits={"queue_bytes": limit}) as daemon:
        await site.mirrored(CONFIGMAPS, namespace)
        [reflector] = daemon.reflectors
        most = 0
        async with holding(site.place):
            for number in range(60):
                text = f"{number}" + "x" * 100_000
                await site.cluster.patch(CONFIGMAPS, keys[number % 10], changed(CONFIGMAPS, text))
                most = max(most, reflector.inbox.size)
            await site.until(lambda: reflector.inbox.full, "the queue is full")
            most = max(most, reflector.inbox.size)
        assert most < limit + 2**20
        await site.cluster.delete(CONFIGMAPS, keys[0])
        await site.mirrored(CONFIGMAPS, namespace)
        await site.live(daemon)


@pytest.mark.cluster
async def test_50_objects_that_the_database_refuses(site: Site) -> None:
    """An object that the database refuses for its data stands alone in quarantine with the error; the
    others are written, and the version goes on. A NUL, which PostgreSQL cannot hold, is replaced.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 20)
    async with site.mirror(within(CONFIGMAPS, namespace)):
        await site.mirrored(CONFIGMAPS, namespace)
        await poisoned(site)
        for number, key in enumerate(keys):
            text = POISON if number == 7 else "nul \0 and \\u0000 in it" if number == 8 else f"{number}"
            await site.cluster.patch(CONFIGMAPS, key, changed(CONFIGMAPS, text))
        await site.until(lambda: quarantined(site), "it is set apart")
        await site.fill(CONFIGMAPS, namespace, 3, "after")
        _, listed = await site.cluster.listed(CONFIGMAPS, namespace)
        only = [f"stale {keys[7]}"]
        await site.until(lambda: len(site.rows(CONFIGMAPS)) == len(listed), "the others are written")
        for _ in range(400):
            wrong = await site.wrong(CONFIGMAPS, namespace)
            if [line.split(":")[0] for line in wrong] == only:
                break
            await asyncio.sleep(0.02)
        assert [line.split(":")[0] for line in wrong] == only
        assert quarantined(site) == {keys[7]: listed[keys[7]]["metadata"]["resourceVersion"]}
        assert site.table.one("SELECT error FROM syncd_quarantine")
        assert site.rows(CONFIGMAPS)[keys[8]].document["data"]["text"] == "nul \ufffd and \\u0000 in it"


@pytest.mark.cluster
async def test_75_quarantine_heals(site: Site) -> None:
    """What was refused is tried again by the next reconcile, healed by a later change that is accepted, and
    ended by a deletion; as long as it stands it is no drift.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 6)
    async with site.mirror(within(CONFIGMAPS, namespace)) as daemon:
        await site.mirrored(CONFIGMAPS, namespace)
        await poisoned(site)
        for key in keys[:3]:
            await site.cluster.patch(CONFIGMAPS, key, changed(CONFIGMAPS, POISON))
        await site.until(lambda: quarantined(site).keys() == set(keys[:3]), "they are set apart")
        run = await reconcile(daemon, Wanted(), lambda run: None)
        assert (run.failed, run.drift) == ([], 0)
        assert quarantined(site).keys() == set(keys[:3])
        await site.cluster.patch(CONFIGMAPS, keys[0], changed(CONFIGMAPS, "good"))
        await site.cluster.delete(CONFIGMAPS, keys[1])
        await site.until(lambda: quarantined(site).keys() == {keys[2]}, "one heals, one is gone")
        await healthy(site)
        run = await reconcile(daemon, Wanted(), lambda run: None)
        assert run.failed == []
        await site.mirrored(CONFIGMAPS, namespace)
        assert quarantined(site) == {}


@pytest.mark.cluster
async def test_76_the_database_refuses_writes(place: DatabasePlace, tmp_path: Path, cleaned: None) -> None:
    """The database refuses writes for a while in the middle of fifty updates and fifty deletions: none is
    lost, and nobody restarts anything.
    """
    async with Site(place, tmp_path, target()) as site:
        namespace = await site.namespace()
        keys = await site.fill(CONFIGMAPS, namespace, 100)
        seconds = 2.0 if site.simulated else 30.0
        async with site.mirror(within(CONFIGMAPS, namespace)) as daemon:
            await site.mirrored(CONFIGMAPS, namespace)
            uids = {key: row.uid for key, row in site.rows(CONFIGMAPS).items()}
            await _change(site, keys, range(15))
            async with refusing(place):
                await _change(site, keys, range(15, 40))
                await asyncio.sleep(seconds)
            await _change(site, keys, range(40, 50))
            await site.mirrored(CONFIGMAPS, namespace)
            gone = keys[50:]
            await site.until(lambda: site.table.tombstones("configmaps").keys() == set(gone), "tombstones")
            stones = site.table.tombstones("configmaps")
            assert {key: stone[:2] for key, stone in stones.items()} == {
                key: ("deleted", uids[key]) for key in gone
            }
            await site.live(daemon)
            assert daemon.failure is None


async def _change(site: Site, keys: list[str], numbers: range) -> None:
    for number in numbers:
        await site.cluster.patch(CONFIGMAPS, keys[number], changed(CONFIGMAPS, "changed"))
        await site.cluster.delete(CONFIGMAPS, keys[50 + number])


@pytest.mark.cluster
async def test_77_the_answer_to_a_commit_is_lost(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a commit was made and its answer lost, it looks before it tries again: nothing is written
    twice, and nothing is skipped.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 10)
    commit = MirrorStore.commit
    lost: list[Committed] = []

    async def unheard(store: MirrorStore, row: StreamRow, batch: Batch) -> Committed:
        done = await commit(store, row, batch)
        if (batch.upserts or batch.deletes) and len(lost) < 4:
            lost.append(done)
            raise StoreUnavailable("the connection broke after COMMIT")
        return done

    async with site.mirror(within(CONFIGMAPS, namespace)):
        await site.mirrored(CONFIGMAPS, namespace)
        await site.watch_writes()
        monkeypatch.setattr(MirrorStore, "commit", unheard)
        for number in range(6):
            await site.cluster.patch(CONFIGMAPS, keys[number], changed(CONFIGMAPS, f"{number}"))
            await site.mirrored(CONFIGMAPS, namespace)
        await site.cluster.delete(CONFIGMAPS, keys[9])
        await site.cluster.create(CONFIGMAPS, namespace, made(CONFIGMAPS, parts(keys[9])[1], "again"))
        await site.mirrored(CONFIGMAPS, namespace)
    writes: list[Any] = site.table.writes()
    assert len(lost) == 4
    assert len(writes) == len(set(writes))
