"""What is remembered of an object's changes, and what two of its documents differ in.

A path is spelt as SQL takes it after `$.`, on PostgreSQL (jsonpath) as on SQLite (json_extract):
`spec.containers[0].image`, `metadata.labels."app.kubernetes.io/name"`. Knows no database; PostgreSQL has the
same comparison as a function of its own, and a test holds the two together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from syncd.core.number import values

NOISE = frozenset(
    {
        ("coordination.k8s.io", "leases"),
        ("", "events"),
        ("events.k8s.io", "events"),
        ("discovery.k8s.io", "endpointslices"),
    }
)
"""(group, resource) of what changes for ever and says nothing in hindsight: no history unless asked for."""

MOST = 64
"""Paths below one object or array, past which its own path stands for them."""

_UNSAID = {"metadata": ("managedFields", "resourceVersion")}  # they change with every write, and say nothing
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_STATUS = re.compile(r"status([.\[]|\Z)")


class Record(StrEnum):
    """How much is remembered of a resource's changes."""

    NONE = "none"
    CHANGES = "changes"  # that it changed, and where
    VERSIONS = "versions"  # the whole object too


@dataclass(frozen=True, slots=True)
class History:
    """What is asked for. `status`: an update that touches nothing but `status` counts as a change."""

    record: Record = Record.NONE
    status: bool = True

    def __bool__(self) -> bool:
        return self.record is not Record.NONE


UNRECORDED = History()


class Source(StrEnum):
    """How a change came to be known."""

    WATCH = "watch"
    SNAPSHOT = "snapshot"  # found by comparing with a list, or with what is configured
    RECONCILE = "reconcile"  # the table was wrong, and a reconcile repaired it
    EPOCH = "epoch"  # found in the first list after the cluster's versions began anew


@dataclass(frozen=True, slots=True)
class Difference:
    """One path whose value is another now; a value that is not there is ABSENT."""

    path: str
    old: Any
    new: Any


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


def default_history(group: str, resource: str, configured: History) -> History:
    """What holds for a resource whose entry asks for nothing by itself."""
    return UNRECORDED if (group, resource) in NOISE else configured


def changed_paths(old: str, new: str, *, status: bool = True) -> list[str] | None:
    """Where two stored documents of one object differ, in byte order; None where in nothing that counts.

    An array whose length changed, and an object or array with more than MOST differences below it, stand for
    all that is in them.

    Args:
        status: False: differences in `status` alone do not count.

    Raises:
        ValueError: one of them is not JSON.
    """
    if old == new:
        return None
    paths = list(_paths(values(old), values(new), ""))
    if not paths or not (status or any(not _STATUS.match(path) for path in paths)):
        return None
    return paths


def differences(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    """Every leaf in which two decoded values differ. Items of an array are told apart by their name or type
    where each has one that is its own, else by their place.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({**old, **new}):
            if key not in _UNSAID.get(path, ()):
                yield from differences(old.get(key, ABSENT), new.get(key, ABSENT), join(path, key))
    elif isinstance(old, list) and isinstance(new, list):
        before, after = _named(old, new)
        for key in [*before, *(key for key in after if key not in before)]:
            yield from differences(before.get(key, ABSENT), after.get(key, ABSENT), f"{path}[{key}]")
    elif not _same(old, new):
        yield Difference(path, old, new)


def join(path: str, key: str) -> str:
    """The path of a key under a path."""
    spelt = key if _PLAIN.match(key) else json.dumps(key, ensure_ascii=False)
    return f"{path}.{spelt}" if path else spelt


def _paths(old: Any, new: Any, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(old, dict) and isinstance(new, dict):
        unsaid = _UNSAID.get(path, ())
        for key in sorted({**old, **new}):
            if key in unsaid:
                continue
            if key in old and key in new:
                if old[key] is not new[key]:
                    found += _paths(old[key], new[key], join(path, key))
            else:
                found.append(join(path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (left, right) in enumerate(zip(old, new, strict=True)):
            found += _paths(left, right, f"{path}[{place}]")
    elif not _same(old, new):
        return [path]
    return [path] if path and len(found) > MOST else found


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _named(old: list[Any], new: list[Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    for field in ("name", "type", "uid", "ip"):
        keyed = [_keyed(items, field) for items in (old, new)]
        if keyed[0] is not None and keyed[1] is not None:
            return keyed[0], keyed[1]
    return dict(enumerate(old)), dict(enumerate(new))


def _keyed(items: list[Any], field: str) -> dict[str, Any] | None:
    found = {item[field]: item for item in items if isinstance(item, dict) and type(item.get(field)) is str}
    return found if len(found) == len(items) else None
