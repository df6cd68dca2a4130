"""What the database says of itself: the view `dictionary`, and comments on PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from syncd.app.viewing import show
from syncd.store.schema import metadata
from tests.conftest import Begin, DatabasePlace
from tests.contract.mirror_case import look, opened
from tests.contract.views.case import rows


def described(place: DatabasePlace) -> dict[str, dict[str, str]]:
    """Relation to column to type, of what has a description."""
    found: dict[str, dict[str, str]] = {}
    query = "SELECT * FROM dictionary WHERE place > 0 ORDER BY relation, place"
    for row in rows(place, query):
        assert row["description"], row
        found.setdefault(row["relation"], {})[row["column_name"]] = row["type"]
    return found


def present(place: DatabasePlace) -> dict[str, dict[str, str]]:
    """The same from what the database knows of itself; no types on SQLite, whose views have none."""
    found: dict[str, dict[str, str]] = {}
    if place.dialect == "sqlite":
        names = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        for (name,) in look(place, names):
            columns = look(place, f"SELECT name FROM pragma_table_info('{name}')")
            found[name] = dict.fromkeys((column for (column,) in columns), "")
        return found
    query = f"""
        SELECT c.relname, a.attname,
          replace(format_type(a.atttypid, -1), 'timestamp with time zone', 'timestamptz')
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = '{place.schema}'::regnamespace AND c.relkind IN ('r', 'v')
        ORDER BY c.relname, a.attnum"""
    for relation, column, kind in look(place, query):
        found.setdefault(relation, {})[column] = kind
    return found


async def test_the_dictionary_has_every_relation_and_column_and_no_other(place: DatabasePlace) -> None:
    async with opened(place) as mirror:
        await show(mirror.database)
        said, there = described(place), present(place)
        whole = rows(place, "SELECT * FROM dictionary WHERE place = 0")
    assert {name: list(columns) for name, columns in said.items()} == {
        name: list(columns) for name, columns in there.items()
    }
    if place.dialect == "postgresql":
        assert said == there
    assert {row["relation"] for row in whole} == set(there)
    assert all(row["description"] and row["column_name"] is None for row in whole)
    assert {row["relation"] for row in whole if row["relation_type"] == "table"} == {
        *metadata.tables,
        "syncd_migrations",
    }


async def test_the_dictionary_says_where_a_value_comes_from(place: DatabasePlace) -> None:
    async with opened(place) as mirror:
        await show(mirror.database)
        [qos] = rows(place, "SELECT * FROM dictionary WHERE relation = 'pods' AND column_name = 'qos_class'")
        [image] = rows(
            place, "SELECT * FROM dictionary WHERE relation = 'containers' AND column_name = 'image'"
        )
    assert (qos["source_path"], qos["subject"], qos["type"]) == ("status.qosClass", "/pods", "text")
    assert image["source_path"] == "spec.containers[].image"


@pytest.mark.parametrize("begin", [Begin.NOTHING])
async def test_a_view_that_could_not_be_made_is_in_the_dictionary_with_the_reason(
    place: DatabasePlace,
) -> None:
    async with opened(place) as mirror:
        look(place, "CREATE TABLE containers (mine integer)")
        await show(mirror.database)
        found = rows(place, "SELECT * FROM dictionary WHERE relation = 'containers'")
    assert [(row["place"], row["note"]) for row in found] == [(0, "another relation has this name")]


@pytest.mark.postgres
async def test_comments_say_the_same(postgres_place: DatabasePlace) -> None:
    place = postgres_place
    query = f"""
        SELECT c.relname, a.attnum, coalesce(col_description(c.oid, a.attnum), '')
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = '{place.schema}'::regnamespace AND c.relkind IN ('r', 'v')
        UNION ALL SELECT c.relname, 0, coalesce(obj_description(c.oid, 'pg_class'), '')
        FROM pg_class c WHERE c.relnamespace = '{place.schema}'::regnamespace AND c.relkind IN ('r', 'v')"""
    async with opened(place) as mirror:
        await show(mirror.database)
        comments = {(name, number): text for name, number, text in look(place, query)}
        said = {
            (row["relation"], row["place"]): row["description"]
            for row in rows(place, "SELECT relation, place, description FROM dictionary")
        }
        assert {key: text.removesuffix(" (made by syncd)") for key, text in comments.items()} == said
        assert await show(mirror.database) == []


@pytest.mark.postgres
@pytest.mark.parametrize("begin", [Begin.NOTHING])
async def test_a_table_that_somebody_holds_gets_its_comments_later(
    postgres_place: DatabasePlace,
) -> None:
    place = postgres_place
    query = "SELECT obj_description('syncd_objects'::regclass, 'pg_class')"
    async with opened(place) as mirror:
        with psycopg.connect(place.url, options=f"-c search_path={place.schema}") as session:
            session.execute("LOCK TABLE syncd_streams IN SHARE MODE")
            await show(mirror.database)
            assert look(place, query) == [(None,)]
        await show(mirror.database)
        [(comment,)] = look(place, query)
    assert comment.startswith("What is selected")
