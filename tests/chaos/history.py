"""The oracle of one seed: everything that any object of the mirrored resources ever was, across rollbacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from syncd.simulator.record import Record
from syncd.simulator.simulator import Simulator
from syncd.simulator.state import Collection

Type = tuple[str, str]
SELECTORS: Mapping[Type, tuple[str, str]] = {("", "pods"): ("tier", "gold")}
"""What the streams select by label, by resource."""


def selected(type_: Type, record: Record) -> bool:
    """Whether the resource's stream has the object."""
    wanted = SELECTORS.get(type_)
    return wanted is None or record.labels.get(wanted[0]) == wanted[1]


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
        doubtful: keys of which some change was never told to watchers, or undone by a rollback.
        untold: of those, the keys of which nothing was told since: to the version that it must be above.
    """

    def __init__(self, simulator: Simulator, types: tuple[Type, ...]) -> None:
        self._simulator = simulator
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
        visible = any(r is not None and selected(type_, r) for r in (event.before, event.after))
        untold = self.untold[type_]
        if event.hidden:
            self.doubtful[type_].add(event.key)
            untold.setdefault(event.key, 0)
        elif visible and event.version > untold.get(event.key, 0):
            untold.pop(event.key, None)

    def rolled_back(self, version: int) -> None:
        """Nothing after the version ever happened."""
        lost = self._simulator.resource_version
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

    def deleted(self, type_: Type, key: str, uid: str, version: int) -> bool:
        """Whether it was deleted at this version, in any past."""
        return (key, uid, version) in self._lines[type_].deletions

    def at(self, type_: Type, version: int) -> tuple[dict[str, Record], set[str]]:
        """What a stream of the resource had at a version, and the keys of which something left since."""
        then: dict[str, Record] = {}
        left: set[str] = set()
        for at, key, record in self._lines[type_].events:
            chosen = record if record is not None and selected(type_, record) else None
            if at <= version:
                if chosen is None:
                    then.pop(key, None)
                else:
                    then[key] = chosen
            elif chosen is None or key not in then or then[key].uid != chosen.uid:
                left.add(key)
        return then, left

    def now(self, type_: Type) -> dict[str, Record]:
        """What a stream of the resource has."""
        current = self._lines[type_].collection.current.records
        return {key: record for key, record in current.items() if selected(type_, record)}
