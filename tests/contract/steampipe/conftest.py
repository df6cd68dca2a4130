"""Databases for the tests of Steampipe's names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from tests.conftest import DatabasePlace, postgres_database
from tests.contract.steampipe.case import LIVE, Session, bare, documents, mirror, show


@pytest.fixture(scope="session")
def place(postgres_url: str) -> Iterator[DatabasePlace]:
    """Two clusters with the schema made: `prod` has objects.yaml, `bare` objects that have nothing."""
    with postgres_database(postgres_url) as where:
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
    with postgres_database(postgres_url) as where:
        certificates = [each for each in documents() if "certificates" in each["metadata"]["name"]]
        asyncio.run(mirror(where, "prod", certificates))
        yield where
