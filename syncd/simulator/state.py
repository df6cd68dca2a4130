"""The store behind the simulated API server: one revision counter, sorted collections, their history.

Pure and synchronous: no clock, no socket, no JSON of requests. What a collection was at a version can be
had in two ways: `at`, as the server can answer it (bounded by history and compaction), and `past`, the
oracle of the tests, which knows every version since the start or the last rollback.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from syncd.simulator.record import Event, Record

_LINES_KEPT = 2_000  # events whose encoded lines are kept for the next watcher
_SNAPSHOTS_KEPT = 8  # past states that are kept for the next page


class VersionExpired(LookupError):
    """The version is older than what the collection still knows."""

    def __init__(self, floor: int) -> None:
        super().__init__(floor)
        self.floor = floor


@dataclass(slots=True)
class Snapshot:
    """A collection at one version: the keys in byte order and the records under them. Read only."""

    keys: list[str]
    records: dict[str, Record]

    def range(self, namespace: str = "", start: str = "") -> tuple[int, int]:
        """Indexes [low, high) of the keys of a namespace ('' for all) not below `start`."""
        low, high = 0, len(self.keys)
        if namespace:
            low = bisect_left(self.keys, f"{namespace}/")
            high = bisect_left(self.keys, f"{namespace}0")  # '0' follows '/'
        if start:
            low = min(high, max(low, bisect_left(self.keys, start)))
        return low, high


@dataclass(slots=True)
class Log:
    """A list whose front may be dropped while positions stay absolute."""

    events: list[Event] = field(default_factory=list)
    start: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.events)

    def from_position(self, position: int) -> list[Event]:
        return self.events[max(0, position - self.start) :]

    def position_after(self, version: int) -> int:
        """The position of the first event with a higher version."""
        return self.start + bisect_right(self.events, version, key=lambda event: event.version)

    def drop(self, count: int) -> None:
        del self.events[:count]
        self.start += count


class Collection:
    """The objects of one stored resource.

    Attributes:
        floor: a watch from below this version is too old, and so is a list at one.
        hide: how many of the next changes watchers never see (a fault).
    """

    def __init__(self, *, history: int, remember: bool) -> None:
        self.current = Snapshot([], {})
        self.log = Log()
        self.floor = 0
        self.version = 0
        self.hide = 0
        self.listeners: set[Callable[[], None]] = set()
        self._history = history
        self._remember = remember
        self._past: list[tuple[int, str, Record | None]] = []
        self._snapshots: OrderedDict[int, Snapshot] = OrderedDict()
        self._encoded: deque[Event] = deque()

    def __len__(self) -> int:
        return len(self.current.keys)

    def apply(self, event: Event) -> None:
        """One change; its version must not be below the last one."""
        self._set(event.key, event.after)
        self.version = event.version
        if self.hide > 0:
            self.hide -= 1
            event.hidden = True
        self.log.events.append(event)
        if len(self.log.events) > self._history * 1.1:
            count = len(self.log.events) - self._history
            self.floor = self.log.events[count - 1].version
            self.log.drop(count)
        self._encoded.append(event)
        if len(self._encoded) > _LINES_KEPT:
            self._encoded.popleft().lines.clear()
        if self._remember:
            self._past.append((event.version, event.key, event.after))
        for listener in tuple(self.listeners):
            listener()

    def load(self, records: Iterable[Record]) -> None:
        """Many new objects at once, as so many creations; keys are sorted once."""
        new = list(records)
        self.current.keys.extend(record.key for record in new)
        self.current.keys.sort()
        for record in new:
            self.current.records[record.key] = record
            self.apply(Event(record.version, record.key, None, record))

    def rewrite(self, version: int, convert: Callable[[Record], Record]) -> None:
        """Other contents under the versions that the objects have (a schema's new default)."""
        for key, record in list(self.current.records.items()):
            changed = convert(record)
            if changed is not record:
                self.current.records[key] = changed
                if self._remember:
                    self._past.append((version, key, changed))
        self._snapshots.clear()

    def _set(self, key: str, record: Record | None) -> None:
        if record is None:
            if self.current.records.pop(key, None) is not None:
                del self.current.keys[bisect_left(self.current.keys, key)]
        else:
            if key not in self.current.records:
                insort(self.current.keys, key)
            self.current.records[key] = record

    # --- the past ---------------------------------------------------------------------------------

    def at(self, version: int) -> Snapshot:
        """The collection at a version, as the server still knows it.

        Raises:
            VersionExpired: below the floor.
        """
        if version < self.floor:
            raise VersionExpired(self.floor)
        if version >= self.version:
            return self.current
        if version not in self._snapshots:
            snapshot = Snapshot(list(self.current.keys), dict(self.current.records))
            first = self.log.position_after(version)
            undone: dict[str, Record | None] = {}
            for event in reversed(self.log.from_position(first)):
                undone[event.key] = event.before
            for key, record in undone.items():
                if record is None:
                    snapshot.records.pop(key, None)
                else:
                    snapshot.records[key] = record
            snapshot.keys = sorted(snapshot.records)
            self._snapshots[version] = snapshot
            while len(self._snapshots) > _SNAPSHOTS_KEPT:
                self._snapshots.popitem(last=False)
        self._snapshots.move_to_end(version)
        return self._snapshots[version]

    def past(self, version: int) -> dict[str, Record]:
        """The oracle: the collection at any version since the start or the last rollback.

        Raises:
            VersionExpired: the oracle is switched off and the history does not reach so far.
        """
        if not self._remember:
            return dict(self.at(version).records)
        records: dict[str, Record] = {}
        for at, key, record in self._past:
            if at > version:
                break
            if record is None:
                records.pop(key, None)
            else:
                records[key] = record
        return records

    def compact(self, version: int) -> None:
        """Forget what happened up to a version."""
        if version > self.floor:
            self.log.drop(self.log.position_after(version) - self.log.start)
            self.floor = version
            self._snapshots.clear()

    def rollback(self, version: int) -> None:
        """Become what it was at a version, with an empty history, as after a restore from a backup."""
        records = self.past(version)
        self.current = Snapshot(sorted(records), records)
        self.log.drop(len(self.log.events))
        self.floor = version
        self.version = max((record.version for record in records.values()), default=0)
        self._past = [entry for entry in self._past if entry[0] <= version]
        self._snapshots.clear()


class State:
    """All collections under one revision counter.

    Args:
        history: events that a collection keeps for watches and past lists.
        remember: keep every version for `Collection.past` (memory grows with every write).
    """

    def __init__(self, *, history: int = 100_000, remember: bool = True) -> None:
        self.version = 0
        self.compacted = 0
        self._history = history
        self._remember = remember
        self._collections: dict[tuple[str, str], Collection] = {}

    def __iter__(self) -> Iterator[tuple[tuple[str, str], Collection]]:
        return iter(list(self._collections.items()))

    def collection(self, storage: tuple[str, str]) -> Collection:
        """The collection of a stored (group, resource), made when first asked for."""
        if storage not in self._collections:
            made = Collection(history=self._history, remember=self._remember)
            made.floor = self.compacted
            self._collections[storage] = made
        return self._collections[storage]

    def next_version(self) -> int:
        self.version += 1
        return self.version

    def advance(self, version: int) -> None:
        """Let the counter run to a version, as if other writes had happened.

        Raises:
            ValueError: the counter is already past it.
        """
        if version < self.version:
            raise ValueError(f"the version is already {self.version}, past {version}")
        self.version = version

    def compact(self, version: int) -> None:
        self.compacted = max(self.compacted, version)
        for _, collection in self:
            collection.compact(version)

    def rollback(self, version: int) -> None:
        """Contents and counter go back; nothing after the version ever happened.

        Raises:
            ValueError: a version of the future.
        """
        if version > self.version:
            raise ValueError(f"the version is {self.version}, below {version}")
        for _, collection in self:
            collection.rollback(version)
        self.version = version
        self.compacted = version
