"""Custom resources, and the schema over time: what changes, what stays, what is left alone."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url

from syncd.app.steampipe import steampipe_names
from syncd.core.errors import StoreError
from syncd.store.database import Database
from syncd.store.steampipe import Shown
from tests.conftest import DatabasePlace
from tests.contract.steampipe.case import SCHEMA, Session, documents, mirror, names, rows, show

pytestmark = pytest.mark.postgres


def test_a_custom_resource_has_its_tables(session: Session) -> None:
    for table in ("kubernetes_certificate", "kubernetes_certificate_cert_manager_io"):
        [found] = rows(
            session,
            "SELECT kind, api_version, namespace, context_name, source_type, path, dns_names, is_ca, "
            "issuer_ref, renew_before, spec_labels, labels, ratio, secret_name, status_secret_name, "
            "not_after, conditions, revision "
            f"FROM {table} WHERE uid = 'cert-1'",
        )
        assert found == (
            "Certificate",
            "cert-manager.io/v1",
            "shop",
            "prod",
            "deployed",
            None,
            ["shop.example.com"],
            False,
            {"name": "letsencrypt", "kind": "ClusterIssuer"},
            "360h",
            {"x": "y"},
            {"team": "web"},
            0.5,
            "web-tls",
            "web-tls-2",
            "2026-04-05T09:59:00Z",
            [{"type": "Ready", "status": "True"}],
            1,
        )


def test_a_custom_value_of_another_type_is_null_and_breaks_no_query(session: Session) -> None:
    query = (
        "SELECT secret_name, revision_history_limit, is_ca, dns_names FROM "
        "kubernetes_certificate WHERE uid = 'cert-2'"
    )
    assert rows(session, query) == [("7", None, None, None)]


def test_a_custom_resource_named_as_a_built_in_has_the_long_name_alone(session: Session) -> None:
    assert names(session, "SELECT kind FROM kubernetes_pod_metrics_example_com") == {"PodMetric"}
    assert "m1" not in names(session, "SELECT name FROM kubernetes_pod")


def views(session: Session, like: str = "%") -> set[str]:
    query = "SELECT viewname FROM pg_views WHERE schemaname = 'kubernetes' AND viewname LIKE %s"
    return {row[0] for row in rows(session, query, like)}


def columns(session: Session, view: str) -> dict[str, str]:
    query = (
        "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = "
        "%s::regclass AND attnum > 0"
    )
    return dict(rows(session, query, f"kubernetes.{view}"))


REDEFINE = f"""
    UPDATE {SCHEMA}.syncd_definitions SET generation = generation + 1, document = jsonb_set(document,
      '{{spec,versions,1,schema,openAPIV3Schema,properties,spec,properties}}',
      '{{"secretName": {{"type": "integer"}}, "addedLater": {{"type": "string"}}}}')"""


def test_a_view_grows_with_its_definition_and_keeps_what_was_built_on_it(own: DatabasePlace) -> None:
    asyncio.run(show(own))
    with psycopg.connect(own.url, autocommit=True) as session:
        before = columns(session, "kubernetes_certificate")
        session.execute(
            "CREATE VIEW public.mine AS SELECT name, secret_name FROM kubernetes.kubernetes_certificate"
        )
        session.execute("GRANT SELECT ON kubernetes.kubernetes_certificate_cert_manager_io TO PUBLIC")
        session.execute(REDEFINE.encode())
        assert asyncio.run(show(own)) == Shown()
        after = columns(session, "kubernetes_certificate")
        assert after == before | {"added_later": "text"}
        session.execute(f"DELETE FROM {SCHEMA}.syncd_definitions".encode())
        assert set(asyncio.run(show(own)).kept) == {
            "kubernetes_certificate",
            "kubernetes_certificate_cert_manager_io",
        }
        assert rows(session, "SELECT count(*) FROM public.mine") == [(0,)]
        session.execute("DROP VIEW public.mine")
        session.execute("REVOKE ALL ON kubernetes.kubernetes_certificate_cert_manager_io FROM PUBLIC")
        kept = asyncio.run(show(own)).kept
        assert kept == ("kubernetes_certificate_cert_manager_io",)  # what was granted once is not the default
        assert views(session, "%certificate%") == {"kubernetes_certificate_cert_manager_io"}


def test_a_second_run_writes_nothing_and_waits_for_nobody(own: DatabasePlace) -> None:
    asyncio.run(show(own))
    with psycopg.connect(own.url) as reader:
        made = rows(
            reader,
            "SELECT oid, xmin FROM pg_class WHERE relnamespace = 'kubernetes'::regnamespace ORDER BY 1",
        )
        rows(reader, "SELECT * FROM kubernetes.kubernetes_pod")  # its lock is held to the end of the block
        asyncio.run(show(own))
        again = rows(
            reader,
            "SELECT oid, xmin FROM pg_class WHERE relnamespace = 'kubernetes'::regnamespace ORDER BY 1",
        )
        assert again == made


def test_a_change_waits_a_second_for_a_reader_and_is_all_or_nothing(own: DatabasePlace) -> None:
    asyncio.run(show(own))
    with psycopg.connect(own.url) as reader, psycopg.connect(own.url, autocommit=True) as session:
        rows(reader, "SELECT * FROM kubernetes.kubernetes_certificate")
        session.execute(REDEFINE.encode())
        with pytest.raises(StoreError, match="lock"):
            asyncio.run(show(own))
        reader.rollback()
        assert "added_later" not in columns(session, "kubernetes_certificate_cert_manager_io")
        asyncio.run(show(own))
        assert "added_later" in columns(session, "kubernetes_certificate_cert_manager_io")


def test_a_view_that_is_missing_is_made_again(own: DatabasePlace) -> None:
    asyncio.run(show(own))
    with psycopg.connect(own.url, autocommit=True) as session:
        session.execute("DROP VIEW kubernetes.kubernetes_pod")
        asyncio.run(show(own))
        assert "kubernetes_pod" in views(session)


def test_a_custom_resource_that_cannot_be_shown_is_left_out_alone(own: DatabasePlace) -> None:
    asyncio.run(show(own))
    with psycopg.connect(own.url, autocommit=True) as session:
        session.execute("DROP VIEW kubernetes.kubernetes_certificate, kubernetes.kubernetes_pod")
        session.execute("CREATE TABLE kubernetes.kubernetes_certificate (mine text)")
        [(name, why)] = asyncio.run(show(own)).refused.items()
        assert name == "kubernetes_certificate"
        assert "is not a view" in why
        assert "kubernetes_pod" in views(session)
        assert "kubernetes_certificate_cert_manager_io" in views(session)
        assert columns(session, "kubernetes_certificate") == {"mine": "text"}


def test_a_role_that_has_the_schema_alone_can_make_it(own: DatabasePlace, postgres_url: str) -> None:
    role = f"steampipe_{own.application}"
    with psycopg.connect(own.url, autocommit=True) as session:
        session.execute(f"CREATE ROLE {role} LOGIN")
        session.execute(f"CREATE SCHEMA kubernetes AUTHORIZATION {role}")
        session.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO {role}")
        session.execute(f"GRANT SELECT ON {SCHEMA}.syncd_objects, {SCHEMA}.syncd_definitions TO {role}")
        try:
            url = make_url(own.url).set(username=role).render_as_string(hide_password=False)
            asyncio.run(show(DatabasePlace("postgresql", url, SCHEMA)))
            assert "kubernetes_pod" in views(session)
        finally:
            session.execute(f"DROP OWNED BY {role} CASCADE")
            session.execute(f"DROP ROLE {role}")


def test_the_schema_of_another_is_left_alone(own: DatabasePlace) -> None:
    other = DatabasePlace("postgresql", own.url, "second")
    asyncio.run(mirror(other, "prod", []))
    asyncio.run(show(own))
    with pytest.raises(StoreError, match="schema mirror already"):
        asyncio.run(show(other))
    with psycopg.connect(own.url, autocommit=True) as session:
        session.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
        asyncio.run(show(other))  # a mirror that is gone has no claim
        assert "kubernetes_pod" in views(session)
        session.execute("DROP SCHEMA kubernetes CASCADE")
        session.execute("CREATE SCHEMA kubernetes")
        session.execute("CREATE TABLE kubernetes.kubernetes_pod (name text)")
    with pytest.raises(StoreError, match="not syncd's"):
        asyncio.run(show(other))


def test_the_mirror_may_itself_be_in_the_schema(own: DatabasePlace) -> None:
    inside = DatabasePlace("postgresql", own.url, "kubernetes")
    asyncio.run(mirror(inside, "prod", [each for each in documents() if each["kind"] == "Pod"]))
    asyncio.run(show(inside))
    with psycopg.connect(own.url) as session:
        assert rows(session, "SELECT count(*) FROM kubernetes.kubernetes_pod") == [(3,)]


def test_it_says_of_itself_what_it_is(session: Session) -> None:
    query = (
        "SELECT obj_description('kubernetes.kubernetes_pod'::regclass), "
        "col_description('kubernetes.kubernetes_pod'::regclass, 5)"
    )
    [(view, column)] = rows(session, query)
    assert "Steampipe" in view
    assert column == "From spec.volumes; NULL when absent."


async def test_names_follow_the_definitions_while_syncd_runs(own: DatabasePlace) -> None:
    database = Database(own.url, own.schema)
    wanted = False
    with psycopg.connect(own.url, autocommit=True) as session:
        async with steampipe_names(database, lambda: wanted, every=0.05):
            assert views(session) == set()
            wanted = True
            await until(lambda: "kubernetes_certificate" in views(session))
            session.execute(REDEFINE.encode())
            await until(lambda: "added_later" in columns(session, "kubernetes_certificate"))
            session.execute(f"DELETE FROM {SCHEMA}.syncd_definitions".encode())
            await until(lambda: not views(session, "%certificate%"))
    await database.close()


async def test_names_that_cannot_be_made_stop_nothing(own: DatabasePlace) -> None:
    database = Database(own.url, own.schema)
    with psycopg.connect(own.url, autocommit=True) as session:
        session.execute("CREATE SCHEMA kubernetes")
        session.execute("CREATE TABLE kubernetes.kubernetes_pod (name text)")
        async with steampipe_names(database, lambda: True, every=0.05):
            assert views(session) == set()
            session.execute("DROP TABLE kubernetes.kubernetes_pod")
            await until(lambda: "kubernetes_pod" in views(session))
    await database.close()


async def until(true: Any) -> None:
    """Waits for what comes by itself, for a generous while."""
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.05)
