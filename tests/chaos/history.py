"""The oracle of one seed: everything that any object of the mirrored resources ever was, across rollbacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from syncd.simulator.record import Record
from syncd.simulator.simulator import Simulator
from syncd.simulator.state import Collection

Type = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Scope:
    """What is mirrored of a resource: in these namespaces, () for all; of one tier, '' for all."""

    namespaces: tuple[str, ...] = ()
    tier: str = ""

    @property
    def selector(self) -> str:
        """As streams spell it."""
        return f"tier={self.tier}" if self.tier else ""

    def has(self, record: Record) -> bool:
        """Whether the object is in it."""
        inside = not self.namespaces or record.namespace in self.namespaces
        return inside and self.tier in ("", record.labels.get("tier"))


def inside(namespace: str, key: str) -> bool:
    """Whether a stream of the namespace, '' for all, may have the key."""
    return not namespace or key.startswith(f"{namespace}/")


@dataclass(slots=True)
class Lines:
    """One resource. `events` of the present past alone: (version, key, what it became)."""

    collection: Collection
    events: list[tuple[int, str, Record | None]] = field(default_factory=list)
    versions: set[tuple[str, str, int]] = field(default_factory=set)
    deletions: set[tuple[str, str, int]] = field(default_factory=set)


class History:
    """Listens to a simulator from its start.

    Attributes:
        scopes: of each resource; whoever changes it must have every picture until then judged.
        doubtful: keys of which some change was never told to watchers, or undone by a rollback.
        untold: of those, the keys of which nothing was told since: to the version that it must be above.
    """

    def __init__(self, simulator: Simulator, scopes: Mapping[Type, Scope]) -> None:
        types = tuple(scopes)
        self.scopes = dict(scopes)
        self._simulator = simulator
        self._lost = 0
        self._lines: dict[Type, Lines] = {}
        self.doubtful: dict[Type, set[str]] = {type_: set() for type_ in types}
        self.untold: dict[Type, dict[str, int]] = {type_: {} for type_ in types}
        for type_ in types:
            lines = self._lines[type_] = Lines(simulator.state.collection(type_))
            lines.collection.listeners.add(lambda lines=lines, type_=type_: self._changed(lines, type_))  # type: ignore[misc]

    def _changed(self, lines: Lines, type_: Type) -> None:
        event = lines.collection.log.events[-1]
        lines.events.append((event.version, event.key, event.after))
        if event.after is not None:
            lines.versions.add((event.key, event.after.uid, event.version))
        elif event.before is not None:
            lines.deletions.add((event.key, event.before.uid, event.version))
        visible = any(r is not None and self.scopes[type_].has(r) for r in (event.before, event.after))
        untold = self.untold[type_]
        # A watcher from before a rollback may stand at any version up to the one that was lost.
        if event.hidden or event.version <= self._lost:
            self.doubtful[type_].add(event.key)
            untold.setdefault(event.key, self._lost)
        elif visible and event.version > untold.get(event.key, 0):
            untold.pop(event.key, None)

    def rolled_back(self, version: int) -> None:
        """Nothing after the version ever happened."""
        lost = self._lost = max(self._lost, self._simulator.resource_version)
        for type_, lines in self._lines.items():
            undone = {key for at, key, _ in lines.events if at > version}
            self.doubtful[type_] |= undone
            self.untold[type_] |= dict.fromkeys(undone, lost)
            lines.events = [event for event in lines.events if event[0] <= version]

    def existed(self, type_: Type, key: str, uid: str, version: int) -> bool:
        """Whether the object ever had this version, in any past."""
        return (key, uid, version) in self._lines[type_].versions

    def was(self, type_: Type, key: str, uid: str) -> bool:
        """Whether there ever was such an object, in any past."""
        return any(each[:2] == (key, uid) for each in self._lines[type_].versions)

    def past(self, type_: Type, key: str) -> list[tuple[int, str]]:
        """What became of a key in the present past: (version, uid), '' where it was deleted."""
        events = self._lines[type_].events
        return [(at, record.uid if record else "") for at, name, record in events if name == key]

    def told(self, type_: Type, key: str, version: int) -> bool:
        """Whether something happened under this name at this version, in any past: another object there says
        too that the one before is gone.
        """
        lines = self._lines[type_]
        return any((key, version) == (name, at) for name, _, at in lines.versions | lines.deletions)

    def at(self, type_: Type, namespace: str, version: int) -> tuple[dict[str, Record], set[str]]:
        """What a stream had at a version, and the keys of which something left since."""
        then: dict[str, Record] = {}
        left: set[str] = set()
        scope = self.scopes[type_]
        for at, key, record in self._lines[type_].events:
            if not inside(namespace, key):
                continue
            chosen = record if record is not None and scope.has(record) else None
            if at <= version:
                if chosen is None:
                    then.pop(key, None)
                else:
                    then[key] = chosen
            elif chosen is None or key not in then or then[key].uid != chosen.uid:
                left.add(key)
        return then, left

    def now(self, type_: Type, namespace: str = "") -> dict[str, Record]:
        """What the resource's streams have, or that of one namespace."""
        current = self._lines[type_].collection.current.records
        scope = self.scopes[type_]
        return {k: record for k, record in current.items() if inside(namespace, k) and scope.has(record)}
