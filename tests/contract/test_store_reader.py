"""The role that reads: it sees what syncd makes, and can do nothing else."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from sqlalchemy.engine import make_url

from syncd.app.viewing import show
from syncd.core.errors import ConfigError, StoreError
from syncd.store.database import Database
from tests.conftest import DatabasePlace
from tests.contract.mirror_case import item, look, opened

pytestmark = pytest.mark.postgres


@pytest.fixture
def role(postgres_place: DatabasePlace) -> Iterator[str]:
    """A name that no role has; what has it in the end goes."""
    name = f"reader_{secrets.token_hex(6)}"
    yield name
    with psycopg.connect(postgres_place.url, autocommit=True) as session:
        if session.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone():
            session.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
            session.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def as_role(place: DatabasePlace, role: str, text: str) -> list[tuple[object, ...]]:
    """What the role sees."""
    with psycopg.connect(place.url, options=f"-c search_path={place.schema} -c role={role}") as session:
        return session.execute(text.encode()).fetchall()


async def test_it_reads_tables_and_views_and_what_comes_later(
    postgres_place: DatabasePlace, role: str
) -> None:
    place = postgres_place
    async with opened(place) as mirror:
        await show(mirror.database)
        await mirror.open(item("shop/web", 1))
        look(place, "CREATE TABLE mine AS SELECT 1 AS one")
        assert await mirror.database.allow_reader(role)
        assert not await mirror.database.allow_reader(role)  # again changes nothing
        look(place, "CREATE VIEW later AS SELECT name FROM syncd_objects")
    for relation in ("syncd_objects", "syncd_changes", "syncd_migrations", "pods", "pods_core", "later"):
        assert as_role(place, role, f"SELECT count(*) FROM {relation}")
    assert as_role(place, role, "SELECT name, restarts FROM pods") == [("web", 0)]
    for text in (
        "SELECT * FROM mine",
        "DELETE FROM syncd_objects RETURNING name",
        "INSERT INTO syncd_requests (command) VALUES ('x') RETURNING 1",
        "UPDATE pods SET name = 'x' RETURNING 1",
        f"CREATE TABLE {place.schema}.other (a int)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_role(place, role, text)
    assert look(place, f"SELECT rolcanlogin, rolsuper FROM pg_roles WHERE rolname = '{role}'") == [
        (False, False)
    ]


async def test_who_may_not_make_a_role_is_told_what_to_do(postgres_place: DatabasePlace, role: str) -> None:
    place = postgres_place
    user = f"{role}_user"
    with psycopg.connect(place.url, autocommit=True) as session:
        session.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(user)))
    try:
        async with opened(place) as mirror:
            await show(mirror.database)
        look(place, f"GRANT USAGE ON SCHEMA {place.schema} TO {user}")
        look(place, f"GRANT SELECT ON ALL TABLES IN SCHEMA {place.schema} TO {user}")
        url = make_url(place.url).set(username=user).render_as_string()
        database = Database(url, place.schema)
        with pytest.raises(StoreError, match=f"CREATE ROLE {role} NOLOGIN"):
            await database.allow_reader(role)
        await database.close()
    finally:
        with psycopg.connect(place.url, autocommit=True) as session:
            session.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(user)))
            session.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(user)))


async def test_sqlite_has_no_roles(sqlite_place: DatabasePlace) -> None:
    database = Database(sqlite_place.url)
    with pytest.raises(ConfigError, match="PostgreSQL"):
        await database.allow_reader("anybody")
    await database.close()
