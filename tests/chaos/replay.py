"""The records of changes, replayed from nothing, must give the table: reads as a stranger does."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.chaos.history import Type
from tests.e2e.table import Table

Replayed = dict[tuple[Type, str], tuple[str, Any]]


def replayed(table: Table) -> tuple[Replayed, list[str]]:
    """(uid, document) by type and key, and what makes no sense on the way there."""
    there: Replayed = {}
    found: list[str] = []
    query = (
        "SELECT sequence, api_group, resource, object_key, uid, change_type, source, initial, object"
        " FROM syncd_changes ORDER BY sequence"
    )
    for sequence, group, resource, key, uid, change, source, initial, document in table.ask(query):
        name = ((group, resource), key)
        known = there.get(name)
        out_of_line = (known is None) != (change == "created") or (known is not None and known[0] != uid)
        if out_of_line and not initial:  # which says what there is when more is recorded from then on
            before = known[0] if known else "nothing"
            found.append(f"{resource}: change {sequence}, {key} of {uid} {change} by {source} after {before}")
        if change == "deleted":
            there.pop(name, None)
        else:
            there[name] = (uid, document)
    return there, found


def unequal(table: Table, *, documents: bool) -> list[str]:
    """How the table differs from its records. `documents`: those hold whole objects."""
    there, found = replayed(table)
    rows = {
        ((group, resource), key): (uid, document)
        for group, resource, key, uid, document in table.ask(
            "SELECT api_group, resource, object_key, uid, object FROM syncd_objects"
        )
    }
    for (type_, key), (uid, document) in rows.items():
        told = there.pop((type_, key), None)
        if told is None or told[0] != uid:
            found.append(f"{type_[1]}: the records have {told and told[0]} for {key}, not {uid}")
        elif documents and _said(told[1]) != _said(document):
            found.append(f"{type_[1]}: the records have another {key} than the table")
    found += [
        f"{type_[1]}: by the records {key} of {told[0]} is there" for (type_, key), told in there.items()
    ]
    return found


def _said(document: Any) -> Any:
    """An object without what changes at every write; that alone is no change."""
    value = json.loads(document) if isinstance(document, str) else copy.deepcopy(document)
    value["metadata"].pop("resourceVersion")
    return value
