"""Making views: appended to, never taken from anybody, and one that cannot be had stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from syncd.core.relation import Relation, RelationColumn, Relations
from syncd.store.database import Database
from syncd.store.view import SOME
from syncd.store.views import MARK, RETIRED, Action, Outcome, layout
from tests.conftest import Begin
from tests.contract.mirror_case import Place, look

A = RelationColumn("a", "text", "'a'", "The first.", "spec.a")
B = RelationColumn("b", "bigint", "2", "The second.")
C = RelationColumn("c", "boolean", "true", "The third.")
SOURCE = "FROM (SELECT 1) AS o"


def things(*columns: RelationColumn, name: str = "things") -> Relation:
    return Relation(name, "Things.", columns, SOURCE, "x.io/things")


def wanted(*views: Relation) -> Relations:
    return Relations((), views)


@pytest.fixture
def begin() -> Begin:
    return Begin.NOTHING


@pytest.fixture
async def database(place: Place) -> AsyncIterator[Database]:
    database = Database(place.url, place.schema)
    await database.migrate()
    yield database
    await database.close()


@pytest.fixture
async def server(postgres_place: Place) -> AsyncIterator[Database]:
    database = Database(postgres_place.url, postgres_place.schema)
    await database.migrate()
    yield database
    await database.close()


def session(place: Place) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(place.url, options=f"-c search_path={place.schema}")


async def test_what_is_there_is_made_once(database: Database, place: Place) -> None:
    made = [Outcome("things", Action.MADE), Outcome("more", Action.MADE)]
    views = wanted(things(A, B), things(C, name="more"))
    assert await database.show_views(views) == made
    assert await database.show_views(views) == []
    assert look(place, "SELECT * FROM things") == [("a", 2)]
    recorded = "SELECT relation, subject, note FROM syncd_views WHERE relation = 'things'"
    assert look(place, recorded) == [("things", "x.io/things", "")]
    columns = "SELECT name, type, description, origin FROM syncd_view_columns WHERE relation = 'things'"
    assert look(place, f"{columns} ORDER BY place") == [
        ("a", "text", "The first.", "spec.a"),
        ("b", "bigint", "The second.", ""),
    ]


async def test_columns_are_only_appended(database: Database, place: Place) -> None:
    await database.show_views(wanted(things(A, B)))
    changed = wanted(things(C, B))
    assert await database.show_views(changed) == [Outcome("things", Action.CHANGED)]
    [row] = look(place, "SELECT a, b, c FROM things")
    assert row[:2] == (None, 2)
    assert look(place, "SELECT * FROM things") == [row]
    described = "SELECT name, description FROM syncd_view_columns WHERE relation = 'things' ORDER BY place"
    assert look(place, described) == [("a", RETIRED), ("b", "The second."), ("c", "The third.")]
    assert await database.show_views(changed) == []
    await database.show_views(wanted(things(A, B, C)))
    assert look(place, "SELECT a FROM things") == [("a",)]


async def test_a_rebuild_leaves_what_is_gone_out(database: Database, place: Place) -> None:
    await database.show_views(wanted(things(A, B)))
    await database.show_views(wanted(things(C, B)))
    assert await database.show_views(wanted(things(C, B)), rebuild=True) == [
        Outcome("things", Action.CHANGED)
    ]
    [row] = look(place, "SELECT * FROM things")
    assert (len(row), row[1]) == (2, 2)


async def test_a_view_that_is_no_longer_wanted_goes(database: Database, place: Place) -> None:
    await database.show_views(wanted(things(A), things(B, name="more")))
    assert await database.show_views(wanted(things(A))) == [Outcome("more", Action.REMOVED)]
    assert look(place, "SELECT relation FROM syncd_views WHERE relation = 'more'") == []
    with pytest.raises(Exception, match="more"):
        look(place, "SELECT * FROM more")


async def test_a_relation_of_the_user_is_left_alone(database: Database, place: Place) -> None:
    look(place, "CREATE TABLE things (own text)")
    look(place, "CREATE VIEW more AS SELECT 1 AS own")
    views = wanted(things(A), things(B, name="more"), things(C, name="others"))
    outcomes = {one.name: one for one in await database.show_views(views)}
    assert {name: one.action for name, one in outcomes.items()} == {
        "things": Action.SKIPPED,
        "more": Action.SKIPPED,
        "others": Action.MADE,
    }
    assert "another relation" in outcomes["things"].note
    assert look(place, "SELECT note <> '' FROM syncd_views WHERE relation = 'more'")[0][0]
    assert look(place, "SELECT * FROM more") == [(1,)]
    assert await database.show_views(views) == []
    await database.show_views(views, rebuild=True)
    assert look(place, "SELECT own FROM things") == []
    look(place, "DROP TABLE things")
    assert await database.show_views(views) == [Outcome("things", Action.MADE)]


@pytest.mark.postgres
async def test_comments_tell_what_it_is(server: Database, postgres_place: Place) -> None:
    await server.show_views(wanted(things(A)))
    asked = "SELECT obj_description('things'::regclass), col_description('things'::regclass, 1)"
    assert look(postgres_place, asked) == [("Things." + MARK, "The first.")]


@pytest.mark.postgres
async def test_another_type_waits_for_a_rebuild(server: Database, postgres_place: Place) -> None:
    await server.show_views(wanted(things(B, C)))
    text = replace(B, type="text", value="'12'")
    odd = replace(C, type="text", value="'perhaps'")
    assert await server.show_views(wanted(things(text, odd))) == [Outcome("things", Action.CHANGED)]
    assert look(postgres_place, "SELECT * FROM things") == [(12, None)]
    await server.show_views(wanted(things(text, odd)), rebuild=True)
    assert look(postgres_place, "SELECT * FROM things") == [("12", "perhaps")]


def test_every_type_is_kept_in_every_other() -> None:
    kinds = ("text", "jsonb", "bigint", "double precision", "boolean", "timestamptz")
    for kind in kinds:
        relation = things(*(RelationColumn(other, other, "1", "") for other in kinds))
        columns = layout(relation, [(other, kind) for other in kinds], "postgresql")
        assert [found for _, found, _ in columns] == [kind] * len(kinds)
        assert all(("1" in value) for _, _, value in columns)


@pytest.mark.postgres
async def test_what_users_built_on_a_view_survives(server: Database, postgres_place: Place) -> None:
    role = f"{postgres_place.schema}_reader"
    await server.show_views(wanted(things(A, B)))
    look(postgres_place, f"CREATE ROLE {role}")
    try:
        look(postgres_place, f"GRANT SELECT ON things TO {role} WITH GRANT OPTION")
        look(postgres_place, "CREATE VIEW mine AS SELECT a, b FROM things")
        await server.show_views(wanted(things(B, C)))
        assert look(postgres_place, "SELECT * FROM mine") == [(None, 2)]
        [kept] = await server.show_views(wanted(things(B, C)), rebuild=True)
        assert kept.action is Action.KEPT
        assert "view mine depends on view things" in kept.note
        [kept] = await server.show_views(wanted())
        assert kept.action is Action.KEPT
        assert look(postgres_place, "SELECT * FROM mine") == [(None, 2)]
        look(postgres_place, "DROP VIEW mine")
        await server.show_views(wanted(things(B, C)), rebuild=True)
        may = f"SELECT has_table_privilege('{role}', 'things', 'SELECT WITH GRANT OPTION')"
        assert look(postgres_place, may) == [(True,)]
    finally:
        look(postgres_place, f"DROP OWNED BY {role}")
        look(postgres_place, f"DROP ROLE {role}")


@pytest.mark.postgres
async def test_a_view_that_is_held_waits_and_no_other(server: Database, postgres_place: Place) -> None:
    await server.show_views(wanted(things(A), things(A, name="more")))
    changed = wanted(things(A, B), things(A, B, name="more"))
    with session(postgres_place) as reader:
        reader.execute("SELECT * FROM things")  # its lock lasts as long as the transaction
        async with asyncio.timeout(30):
            outcomes = await server.show_views(changed)
        assert [(one.name, one.action) for one in outcomes] == [
            ("things", Action.WAITING),
            ("more", Action.CHANGED),
        ]
    assert await server.show_views(changed) == [Outcome("things", Action.CHANGED)]


@pytest.mark.postgres
async def test_a_role_that_may_make_none_is_told(server: Database, postgres_place: Place) -> None:
    role = f"{postgres_place.schema}_writer"
    look(postgres_place, f"CREATE ROLE {role}")
    try:
        look(postgres_place, f"GRANT USAGE ON SCHEMA {postgres_place.schema} TO {role}")
        tables = f"ALL TABLES IN SCHEMA {postgres_place.schema}"
        look(postgres_place, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {role}")
        limited = Database(f"{postgres_place.url}&options=-c%20role%3D{role}", postgres_place.schema)
        try:
            [outcome] = await limited.show_views(wanted(things(A)))
        finally:
            await limited.close()
        assert outcome.action is Action.SKIPPED
        assert "permission denied" in outcome.note
    finally:
        look(postgres_place, f"DROP OWNED BY {role}")
        look(postgres_place, f"DROP ROLE {role}")


@pytest.mark.postgres
async def test_functions_come_before_the_views_that_call_them(
    server: Database, postgres_place: Place
) -> None:
    body = "CREATE OR REPLACE FUNCTION syncd_f() RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT '{}' $$"
    called = things(replace(A, value="syncd_f()"))
    for word in ("one", "two"):
        await server.show_views(Relations((("syncd_f", body.format(word)),), (called,)))
        assert look(postgres_place, "SELECT a FROM things") == [(word,)]


@pytest.mark.postgres
async def test_a_dump_and_restore_leaves_them_ours(server: Database, postgres_place: Place) -> None:
    """Nothing that a restore changes, as an object's number, says whose a view is."""
    await server.show_views(wanted(things(A)))
    look(postgres_place, "DROP VIEW things")
    look(postgres_place, "CREATE VIEW things AS SELECT 'a'::text AS a")
    look(postgres_place, f"COMMENT ON VIEW things IS 'Things.{MARK}'")
    assert await server.show_views(wanted(things(A, B))) == [Outcome("things", Action.CHANGED)]
    assert look(postgres_place, "SELECT * FROM things") == [("a", 2)]


async def test_a_view_that_users_built_on_stays_when_its_type_goes(database: Database, place: Place) -> None:
    await database.show_views(wanted(things(A, B), things(A, name="more")))
    look(place, "CREATE VIEW mine AS SELECT a FROM things")
    outcomes = {one.name: one for one in await database.show_views(wanted())}
    assert {name: one.action for name, one in outcomes.items()} == {
        "things": Action.KEPT,
        "more": Action.REMOVED,
    }
    assert "view mine" in outcomes["things"].note
    [(note,)] = look(place, "SELECT note FROM syncd_views WHERE relation = 'things'")
    assert "it stays for what is built on it" in note
    assert look(place, "SELECT * FROM mine") == [("a",)]
    # It comes back as it was, and what was said of it is said no more.
    assert await database.show_views(wanted(things(A, B))) == [Outcome("things", Action.CHANGED)]
    assert look(place, "SELECT note FROM syncd_views WHERE relation = 'things'") == [("",)]
    await database.show_views(wanted())
    look(place, "DROP VIEW mine")
    assert await database.show_views(wanted()) == [Outcome("things", Action.REMOVED)]


async def test_many_are_made_and_go(database: Database, place: Place) -> None:
    many = wanted(*(things(A, B, name=f"things_{number}") for number in range(2 * SOME + 3)))
    assert len(await database.show_views(many)) == 2 * SOME + 3
    assert await database.show_views(many) == []
    assert {one.action for one in await database.show_views(wanted())} == {Action.REMOVED}
    assert look(place, "SELECT count(*) FROM syncd_views WHERE relation LIKE 'things%'") == [(0,)]


@pytest.mark.postgres
async def test_one_that_cannot_be_stops_no_other(server: Database, postgres_place: Place) -> None:
    odd = things(replace(A, value="no_such_function()"), name="odd")
    outcomes = {one.name: one for one in await server.show_views(wanted(things(A), odd, things(B, name="z")))}
    assert {name: one.action for name, one in outcomes.items()} == {
        "things": Action.MADE,
        "odd": Action.SKIPPED,
        "z": Action.MADE,
    }
    recorded = "SELECT digest, note FROM syncd_views WHERE relation = 'odd'"
    assert look(postgres_place, recorded) == [("", "function no_such_function() does not exist")]
    assert await server.show_views(wanted(things(A), things(B, name="z"))) == [Outcome("odd", Action.REMOVED)]
    assert look(postgres_place, recorded) == []


@pytest.mark.postgres
async def test_a_conflict_of_types_is_text_at_once_unless_something_is_built_on_it(
    server: Database, postgres_place: Place
) -> None:
    role = f"{postgres_place.schema}_reader"
    text = replace(B, type="text", value="'12'")
    before = replace(things(A, B, C), agreeing=True)
    after = replace(things(C, text, A), agreeing=True)
    look(postgres_place, f"CREATE ROLE {role}")
    try:
        await server.show_views(wanted(before, replace(before, name="more")))
        look(postgres_place, f"GRANT SELECT ON things TO {role}")
        look(postgres_place, f"GRANT UPDATE (b) ON things TO {role}")
        look(postgres_place, "CREATE VIEW mine AS SELECT b + 1 AS n FROM more")
        changed = await server.show_views(wanted(after, replace(after, name="more")))
        assert changed == [Outcome("things", Action.CHANGED), Outcome("more", Action.CHANGED)]
        assert look(postgres_place, "SELECT * FROM things") == [("a", "12", True)]
        assert look(postgres_place, "SELECT * FROM more") == [("a", 12, True)]
        assert look(postgres_place, "SELECT * FROM mine") == [(13,)]
        may = (
            f"SELECT has_table_privilege('{role}', 'things', 'SELECT'), "
            f"has_column_privilege('{role}', 'things', 'b', 'UPDATE'), "
            f"has_column_privilege('{role}', 'things', 'a', 'UPDATE')"
        )
        assert look(postgres_place, may) == [(True, True, False)]
        said = "SELECT description FROM syncd_view_columns WHERE relation = 'more' AND name = 'b'"
        assert "Still bigint" in look(postgres_place, said)[0][0]
    finally:
        look(postgres_place, f"DROP OWNED BY {role}")
        look(postgres_place, f"DROP ROLE {role}")


@pytest.mark.postgres
async def test_a_view_that_comes_back_has_its_grants(server: Database, postgres_place: Place) -> None:
    role, gone = f"{postgres_place.schema}_reader", f"{postgres_place.schema}_gone"
    for each in (role, gone):
        look(postgres_place, f"CREATE ROLE {each}")
    try:
        await server.show_views(wanted(things(A, B)))
        look(postgres_place, f"GRANT SELECT ON things TO {role} WITH GRANT OPTION")
        look(postgres_place, f"GRANT UPDATE (a), UPDATE (b), SELECT (b) ON things TO {gone}, PUBLIC")
        assert await server.show_views(wanted()) == [Outcome("things", Action.REMOVED)]
        assert await server.show_views(wanted()) == []
        look(postgres_place, f"DROP ROLE {gone}")
        assert await server.show_views(wanted(things(B, C))) == [Outcome("things", Action.MADE)]
        may = (
            f"SELECT has_table_privilege('{role}', 'things', 'SELECT WITH GRANT OPTION'), "
            f"has_column_privilege('{role}', 'things', 'b', 'UPDATE'), "
            f"has_column_privilege('{role}', 'things', 'c', 'UPDATE')"
        )
        assert look(postgres_place, may) == [(True, True, False)]
        kept = "SELECT count(*) FROM syncd_views WHERE relation LIKE '(grants%'"
        assert look(postgres_place, kept) == [(0,)]
    finally:
        look(postgres_place, f"DROP OWNED BY {role}")
        look(postgres_place, f"DROP ROLE {role}")
