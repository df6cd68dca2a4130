"""What must hold of the tables, in every picture and at rest. Reads as a stranger does."""

from __future__ import annotations

import json
from typing import Any

from syncd.simulator.simulator import Simulator
from tests.chaos.history import History, Type
from tests.chaos.picture import Picture, Row, StreamPicture
from tests.e2e.table import Table
from tests.e2e.world import stored


class Checker:
    """Judges pictures one after the other.

    Attributes:
        seen: every (resource, key, uid) that the table ever held.
    """

    def __init__(self, simulator: Simulator, history: History, types: tuple[Type, ...]) -> None:
        self._simulator = simulator
        self._history = history
        self._types = types
        self._trusted: set[int] = set()
        self._highest: dict[int, tuple[int, int]] = {}
        self.seen: set[tuple[Type, str, str]] = set()
        self.pictures = self.compared = 0

    def distrust(self) -> None:
        """The past is another: a stream's version means nothing until it is level once."""
        self._trusted.clear()

    def wrong(self, taken: Picture) -> list[str]:
        """What is wrong in a picture that was taken since the last rollback."""
        self.pictures += 1
        found: list[str] = []
        for stream in taken.streams:
            if stream.type_ not in self._types:
                continue
            rows = _of(stream, taken.rows.get(stream.type_, {}))
            standing = _of(stream, taken.standing(stream.type_))
            self.seen |= {(stream.type_, key, uid) for key, (uid, _, _) in rows.items()}
            name = stream.type_[1]
            if stream.counted != stream.rows:
                found.append(f"{name}: object_count is {stream.counted}, there are {stream.rows} rows")
            for key, (uid, version, _) in (*rows.items(), *standing.items()):
                if not self._history.existed(stream.type_, key, uid, version):
                    found.append(f"{name}: {key} of uid {uid} never was at {version}")
            if stream.version is None:
                continue
            highest = self._highest.get(stream.stream_id, (0, 0))
            if highest[0] == stream.epoch and stream.version < highest[1]:
                found.append(f"{name}: the checkpoint went back from {highest[1]} to {stream.version}")
            self._highest[stream.stream_id] = (stream.epoch, stream.version)
            if stream.selector != self._history.scopes[stream.type_].selector:
                continue  # of a scope that was; it goes as soon as that is known
            if stream.stream_id in self._trusted:
                found += self._behind(stream, standing)
            else:
                self._trust_again(stream, standing)
        return found

    def _trust_again(self, stream: StreamPicture, rows: dict[str, Row]) -> None:
        now = self._history.now(stream.type_, stream.namespace)
        level = {key: (record.uid, record.version) for key, record in now.items()}
        there = {key: (uid, version) for key, (uid, version, _) in rows.items()}
        if there == level and (stream.version or 0) <= self._simulator.resource_version:
            self._trusted.add(stream.stream_id)

    def _behind(self, stream: StreamPicture, rows: dict[str, Row]) -> list[str]:
        """Where rows are behind the version that their stream claims."""
        assert stream.version is not None
        self.compared += 1
        name, version = stream.type_[1], stream.version
        then, left = self._history.at(stream.type_, stream.namespace, version)
        doubtful = self._history.doubtful[stream.type_]
        found = []
        for key, record in then.items():
            row = rows.get(key)
            if key in doubtful:
                continue
            if row is None and key not in left:
                found.append(f"{name}: {key} of version {record.version} is missing at {version}")
            elif row is not None and row[1] < record.version:
                found.append(f"{name}: {key} is at {row[1]}, but at {version} it was at {record.version}")
        for key, (uid, at, _) in rows.items():
            before = then.get(key)
            if key not in doubtful and at <= version and (before is None or before.uid != uid):
                found.append(f"{name}: {key} at {at} was gone at {version}")
        return found

    # --- at rest ----------------------------------------------------------------------------------

    def unlevel(self, taken: Picture) -> dict[Type, dict[str, str]]:
        """How the table differs from the cluster, versions alone: what, by key. What is quarantined is
        there.
        """
        found: dict[Type, dict[str, str]] = {}
        for type_ in self._types:
            now, rows = self._history.now(type_), taken.standing(type_)
            differs = found[type_] = dict.fromkeys(now.keys() - rows.keys(), "missing")
            differs |= dict.fromkeys(rows.keys() - now.keys(), "ghost")
            for key in now.keys() & rows.keys():
                if rows[key][:2] != (now[key].uid, now[key].version):
                    differs[key] = "stale"
        return found

    def documents(self, table: Table) -> list[str]:
        """Rows whose document, or whose columns, are not those of the cluster."""
        found = []
        for type_ in self._types:
            now = self._history.now(type_)
            if not now:
                continue
            kind = self._simulator.kind(*type_)
            for key, row in table.rows(*type_).items():
                if key not in now:
                    continue
                wanted = kind.decode(now[key].body)
                wanted["metadata"].pop("managedFields", None)
                wanted |= {"apiVersion": kind.api_version, "kind": kind.kind}
                if (row.namespace, row.name) != (now[key].namespace, now[key].name):
                    found.append(f"{type_[1]}: {key} has columns {row.namespace!r}, {row.name!r}")
                if row.document != stored(wanted):
                    found.append(f"{type_[1]}: {key} is altered: {_clip(row.document)}, not {_clip(wanted)}")
        return found

    def tombstones(self, table: Table, taken: Picture, *, rescoped: bool) -> list[str]:
        """Tombstones that lack, that are of nothing, or that are newer than what lives.

        Args:
            rescoped: the scopes changed: what left one may live on in another, at the same version.
        """
        found = []
        causes = {"deleted", "snapshot", "type_removed"} | (set() if rescoped else {"left_selection"})
        stones: dict[tuple[Type, str, str], list[tuple[int, int, str]]] = {}
        for group, resource, key, uid, version, epoch, cause in table.ask(
            "SELECT api_group, resource, object_key, uid, resource_version, epoch, cause"
            " FROM syncd_deleted_objects"
        ):
            type_ = (group, resource)
            stones.setdefault((type_, key, uid), []).append((epoch, int(version), cause))
            told = key not in self._history.doubtful[type_]  # of the object that took its name, perhaps
            if cause == "deleted" and told and not self._history.told(type_, key, int(version)):
                past = self._history.past(type_, key)
                found.append(f"{resource}: {key} of {uid} was not deleted at {version}: {past}")
            if (type_, key, uid) not in self.seen and not self._existed(type_, key, uid):
                found.append(f"{resource}: a tombstone of {key} of {uid}, which never was")
        epochs = {stream.type_: stream.epoch for stream in taken.streams}
        for type_, key, uid in self.seen:
            row = taken.rows.get(type_, {}).get(key)
            if row is not None and row[0] == uid:
                if key in self._history.doubtful[type_]:
                    continue  # its deletion was undone, and the epoch need not have noticed
                newest = [
                    v
                    for e, v, cause in stones.get((type_, key, uid), [])
                    if e == epochs.get(type_) and cause in causes
                ]
                if newest and max(newest) >= row[1]:
                    found.append(f"{type_[1]}: {key} lives at {row[1]}, with a tombstone at {max(newest)}")
            elif (type_, key, uid) not in stones:
                found.append(f"{type_[1]}: {key} of {uid} left without a tombstone")
        return found

    def _existed(self, type_: Type, key: str, uid: str) -> bool:
        return self._history.was(type_, key, uid)


def _of(stream: StreamPicture, rows: dict[str, Row]) -> dict[str, Row]:
    return {key: row for key, row in rows.items() if row[2] == stream.stream_id}


def _clip(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, sort_keys=True)
    return text if len(text) < 600 else f"{text[:600]}… ({len(text)})"
