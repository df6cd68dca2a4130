"""Databases for the tests of Steampipe's names."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from sqlalchemy.engine import make_url

from tests.conftest import DatabasePlace
from tests.contract.steampipe.case import LIVE, SCHEMA, Session, bare, documents, mirror, show


@contextmanager
def fresh(postgres_url: str) -> Iterator[DatabasePlace]:
    """A database that is dropped at the end."""
    name = f"steampipe_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_url, autocommit=True) as session:
        session.execute(f'CREATE DATABASE "{name}"')
    url = make_url(postgres_url).set(database=name).render_as_string(hide_password=False)
    yield DatabasePlace("postgresql", url, SCHEMA)
    with psycopg.connect(postgres_url, autocommit=True) as session:
        session.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def place(postgres_url: str) -> Iterator[DatabasePlace]:
    """Two clusters with the schema made: `prod` has objects.yaml, `bare` objects that have nothing."""
    with fresh(postgres_url) as where:
        asyncio.run(mirror(where, "prod", documents()))
        asyncio.run(mirror(where, "bare", [bare(table) for table in LIVE]))
        asyncio.run(show(where))
        yield where


@pytest.fixture
def session(place: DatabasePlace) -> Iterator[Session]:
    """A reader as the ecosystem's tools are, whose transaction is undone."""
    with psycopg.connect(place.url, options="-c search_path=kubernetes,public -c timezone=UTC") as connection:
        yield connection
        connection.rollback()


@pytest.fixture
def own(postgres_url: str) -> Iterator[DatabasePlace]:
    """A database of a test's own, with the definition of certificates and nothing else."""
    with fresh(postgres_url) as where:
        certificates = [each for each in documents() if "certificates" in each["metadata"]["name"]]
        asyncio.run(mirror(where, "prod", certificates))
        yield where
