"""The answer to a query on stdout, as a table, as JSON or as CSV, while it comes."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from syncd.store.query import Answer

WIDEST = 80
"""Characters of a cell in a table. CSV and JSON cut nothing."""


class Form(StrEnum):
    """Forms of an answer."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


async def write(answer: Answer, form: Form) -> int:
    """Writes it; how many rows it had."""
    match form:
        case Form.TABLE:
            return await _table(answer)
        case Form.JSON:
            return await _json(answer)
        case Form.CSV:
            return await _csv(answer)


async def _table(answer: Answer) -> int:
    """Columns are as wide as the first page needs. NULL is a word here, so that it is not ''."""
    count, widths, right = 0, [len(name) for name in answer.columns], [False] * len(answer.columns)
    async for page in answer.pages:
        cells = [[_cell(value) for value in row] for row in page]
        if not count:
            widths = [
                max(width, *map(len, column))
                for width, column in zip(widths, zip(*cells, strict=True), strict=True)
            ]
            right = [all(_is_number(value) for value in column) for column in zip(*page, strict=True)]
            _line(answer.columns, widths, right)
        for row in cells:
            _line(row, widths, right)
        count += len(page)
    if not count:
        _line(answer.columns, widths, right)
    return count


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> None:
    placed = (
        cell.rjust(width) if to_the_right else cell.ljust(width)
        for cell, width, to_the_right in zip(cells, widths, right, strict=True)
    )
    typer.echo("  ".join(placed).rstrip())


def _cell(value: Any) -> str:
    text = " ".join(plain(value).split()) if value is not None else "NULL"
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float, Decimal)) and not isinstance(value, bool))


async def _json(answer: Answer) -> int:
    """One array, an object a row and a line."""
    count = 0
    async for page in answer.pages:
        for row in page:
            values = dict(zip(answer.columns, map(_value, row), strict=True))
            before = ",\n" if count else "[\n"
            typer.echo(before + json.dumps(values, ensure_ascii=False), nl=False)
            count += 1
    typer.echo("\n]" if count else "[]")
    return count


def _value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value if isinstance(value, (bool, int, float, str, dict, list, type(None))) else plain(value)


async def _csv(answer: Answer) -> int:
    """As RFC 4180 has it; NULL is nothing between the commas."""
    out, count = csv.writer(sys.stdout), 0
    out.writerow(answer.columns)
    async for page in answer.pages:
        out.writerows([None if value is None else plain(value) for value in row] for row in page)
        count += len(page)
    return count


def plain(value: Any) -> str:
    """A value as text: times in UTC as SQLite keeps them, JSON in one line, true and false."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            return moment.isoformat(" ", "microseconds")
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        case bytes() | memoryview():
            return bytes(value).hex()
        case _:
            return str(value)
