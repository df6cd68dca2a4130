"""Bytes, numbers and moments as people read them."""

from __future__ import annotations

from datetime import datetime

_UNITS = ("B", "kB", "MB", "GB", "TB")


def size(count: float) -> str:
    """`1.2 GB`, in thousands."""
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.0f} {_UNITS[unit]}" if count >= 10 or unit == 0 else f"{count:.1f} {_UNITS[unit]}"


def day(moment: datetime) -> str:
    """`2027-01-31`."""
    return moment.strftime("%Y-%m-%d")


def counted(count: int, noun: str) -> str:
    """`1 object`, `2,000 objects`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
