"""Rows in columns."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]]) -> str:
    """A line a row, each column as wide as it must be. Nothing is cut: a terminal wraps what does not fit,
    and a pipe wants lines whole. What is not printable, as in some server's error, is a space.
    """
    cells = [["".join(c if c.isprintable() else " " for c in cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
