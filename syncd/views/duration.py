"""Durations as kubectl prints them."""

from __future__ import annotations

from syncd.views.expression import Bound, Call, Expression, Let, Type, above, call, case, concat, equal

_SECONDS = Bound("seconds", Type.INTEGER)


def human(seconds: Expression) -> Let:
    """A duration as kubectl prints it: `45s`, `3m20s`, `7h12m`, `5d3h`, `2y10d` (apimachinery's duration)."""

    def whole(size: int) -> Call:
        return call("/", Type.INTEGER, _SECONDS, size)

    def rest(size: int, within: int) -> Call:
        return call("%", Type.INTEGER, whole(size), within)

    def two(large: int, letter: str, small: int, within: int, other: str) -> Call:
        rounded = case((equal(rest(small, within), 0), ""), otherwise=concat(rest(small, within), other))
        return concat(whole(large), letter, rounded)

    def below(bound: int) -> Call:
        return above(bound, _SECONDS)

    day, year = 86400, 86400 * 365
    text = case(
        (below(-1), "<invalid>"),
        (below(0), "0s"),
        (below(120), concat(_SECONDS, "s")),
        (below(600), two(60, "m", 1, 60, "s")),
        (below(180 * 60), concat(whole(60), "m")),
        (below(8 * 3600), two(3600, "h", 60, 60, "m")),
        (below(48 * 3600), concat(whole(3600), "h")),
        (below(8 * day), two(day, "d", 3600, 24, "h")),
        (below(2 * year), concat(whole(day), "d")),
        (below(8 * year), two(year, "y", day, 365, "d")),
        otherwise=concat(whole(year), "y"),
    )
    return Let("seconds", seconds, text)
