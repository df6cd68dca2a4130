"""The scalars of the configuration that YAML has no type for: durations, shares, sizes, addresses,
a database's URL.

Parsers raise ValueError with a text that says what is wanted; the annotated types wrap them for pydantic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from syncd.config.source import expanded

_DURATION = r"([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))+"
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SHARE = r"[0-9]{1,3}(\.[0-9]+)?%"
_SIZE = r"([0-9]{1,15})\s*(B|KiB|MiB|GiB|kB|MB|GB)"
_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_LONGEST = timedelta(days=36500)


def duration(value: object) -> timedelta:
    """`500ms`, `90s`, `1h30m`, `7d`: numbers with units, up to a hundred years."""
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str) or not re.fullmatch(_DURATION, value.strip(), re.ASCII):
        raise ValueError("must be a duration with a unit (ms, s, m, h, d, w), like 90s or 1h30m")
    seconds = sum(float(count) * _SECONDS[unit] for count, unit in _DURATION_PART.findall(value))
    if seconds > _LONGEST.total_seconds():
        raise ValueError("is longer than a hundred years")
    return timedelta(seconds=seconds)


def spelt(value: timedelta) -> str:
    """The duration as a file would say it: `1h30m`."""
    rest, text = round(value.total_seconds() * 1000), ""
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, length)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def share(value: object) -> float:
    """`20%`, or a number from 0 to 1."""
    if isinstance(value, str) and re.fullmatch(_SHARE, value.strip(), re.ASCII):
        value = float(value.strip().removesuffix("%")) / 100
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("must be a share from 0% to 100%, like 20%")
    return float(value)


def size(value: object) -> int:
    """`64MiB`, `500kB`, or a number of bytes."""
    if isinstance(value, str) and (match := re.fullmatch(_SIZE, value.strip(), re.ASCII)):
        value = int(match[1]) * _BYTES[match[2]]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("must be a size with a unit (B, kB, MB, GB, KiB, MiB, GiB), like 64MiB")
    return value


def address(value: str) -> tuple[str, int]:
    """`host:port`, `[::1]:8090`, or `:8090` for every interface."""
    host, colon, port = value.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port, re.ASCII) or (":" in host and not bracketed):
        raise ValueError('must be host:port, like "127.0.0.1:8090"; "" turns the server off')
    if int(port) > 65535:
        raise ValueError("has a port above 65535")
    return (host.strip("[]") or "0.0.0.0", int(port))  # noqa: S104 - as `:8090` asks


def cron(value: str) -> str:
    """Five fields: minute, hour, day of month, month, day of week (0 or 7 is Sunday)."""
    fields = value.split()
    if len(fields) != 5 or not all(re.fullmatch(r"[0-9A-Za-z*/,-]+", each, re.ASCII) for each in fields):
        raise ValueError('must have five fields, like "0 3 * * *" (minute hour day month weekday, UTC)')
    return " ".join(fields)


def no_shorter_than(shortest: timedelta) -> AfterValidator:
    """A bound on a duration, worded as a file would say it."""

    def bounded(value: timedelta) -> timedelta:
        if value < shortest:
            raise ValueError(f"must be at least {spelt(shortest)}")
        return value

    return AfterValidator(bounded)


Duration = Annotated[
    timedelta,
    BeforeValidator(duration),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION}$", "examples": ["1h", "7d", "500ms"]}),
]
Share = Annotated[
    float,
    BeforeValidator(share),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": f"^{_SHARE}$"},
                {"type": "number", "minimum": 0, "maximum": 1},
            ],
            "examples": ["20%"],
        }
    ),
]
Size = Annotated[
    int,
    BeforeValidator(size),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "pattern": f"^{_SIZE}$"}, {"type": "integer", "minimum": 0}],
            "examples": ["64MiB"],
        }
    ),
]


def database_url(text: str, base: Path, environ: Mapping[str, str]) -> str:
    """A URL without its driver, which is syncd's choice, and with the path of a SQLite file made absolute.

    Raises:
        ValueError: another database, or no file. The text never repeats the URL: it may hold a password.
    """
    scheme, separator, rest = text.partition("://")
    dialect = scheme.partition("+")[0]
    if not separator or dialect not in ("sqlite", "postgresql", "postgres"):
        raise ValueError("must be sqlite:///FILE or postgresql://USER@HOST/DATABASE")
    if dialect != "sqlite":
        return f"postgresql://{rest}"
    file, question, query = rest.partition("?")
    if not file.startswith("/") or file[1:] in ("", ":memory:"):
        raise ValueError("must name a file: sqlite:///syncd.db, or sqlite:////var/lib/syncd.db from the root")
    path = expanded(file[1:], base, environ)
    if "\0" in file:
        raise ValueError("has a NUL in its path")
    return f"sqlite:///{path}{question}{query}"
