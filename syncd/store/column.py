"""The types of columns that both dialects share: one value in Python, each dialect's own in the database."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql.base import ischema_names as postgresql_types
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import TypeDecorator, TypeEngine


def time_text(moment: datetime) -> str:
    """`YYYY-MM-DD HH:MM:SS.ffffff` in UTC: six digits always, so that text sorts as time.

    Raises:
        ValueError: the datetime is naive.
    """
    if moment.tzinfo is None:
        raise ValueError(f"a naive datetime: {moment!r}")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")


class UtcTime(TypeDecorator[datetime]):
    """A moment, aware and UTC in Python; timestamptz on PostgreSQL, text on SQLite. Naive is an error."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(sa.Text() if dialect.name == "sqlite" else sa.DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        text = time_text(value)
        return text if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if dialect.name == "sqlite":
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
        moment: datetime = value
        return moment.astimezone(UTC)


class Json(TypeDecorator[Any]):
    """A JSON value: jsonb on PostgreSQL, JSON text on SQLite."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(postgresql.JSONB() if dialect.name == "postgresql" else sa.Text())

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        if value is None or dialect.name == "postgresql":
            return value
        return json.dumps(value, ensure_ascii=False)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        if value is None or dialect.name == "postgresql":
            return value
        return json.loads(value)


class Xid8(sa.types.UserDefinedType[str]):
    """A transaction's id on PostgreSQL, which never comes round again; it goes in and out as text."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "xid8"


class CurrentTransaction(sa.ColumnElement[Any]):
    """The id of the writing transaction; 0 on SQLite, where one writes at a time and a sequence tells all."""

    inherit_cache = True


@compiles(CurrentTransaction)
def _compiled(element: CurrentTransaction, compiler: Any, **_: Any) -> str:
    return "pg_current_xact_id()" if compiler.dialect.name == "postgresql" else "0"


postgresql_types["xid8"] = Xid8

IDENTITY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")  # BINARY is SQLite's own default
