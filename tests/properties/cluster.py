"""A cluster as a model: objects, a log of what became of them, and nothing of syncd."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.fakes.value import Json, line, pod

State = dict[str, tuple[str, int]]
"""(uid, version) by key."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One change: an upsert, or a deletion of the object that was there."""

    version: int
    key: str
    uid: str
    deletes: bool

    @property
    def event(self) -> bytes:
        """As a watch tells it, with its newline."""
        return line("DELETED" if self.deletes else "MODIFIED", wire(self.key, self.uid, self.version))


@dataclass(slots=True)
class Cluster:
    """`version` counts all writes, also those to other resources."""

    version: int = 1
    objects: State = field(default_factory=dict)
    log: list[Happening] = field(default_factory=list)
    compacted: int = 0
    _made: int = 0

    def put(self, key: str, *, anew: bool = False) -> None:
        """An object is created, or updated; `anew`: deleted and created under its name."""
        if anew and key in self.objects:
            self.remove([key])
        self.version += 1
        known = self.objects.get(key)
        if known is None:
            self._made += 1
        uid = known[0] if known else f"u{self._made}"
        self.objects[key] = (uid, self.version)
        self.log.append(Happening(self.version, key, uid, deletes=False))

    def remove(self, keys: list[str]) -> None:
        """All at one version."""
        self.version += 1
        for key in keys:
            uid, _ = self.objects.pop(key)
            self.log.append(Happening(self.version, key, uid, deletes=True))

    def after(self, version: int) -> Iterator[Happening]:
        """What a watch from a version brings."""
        return (each for each in self.log if each.version > version)

    def at(self, version: int) -> State:
        """What there was at a version."""
        there: State = {}
        for each in self.log:
            if each.version > version:
                break
            if each.deletes:
                there.pop(each.key, None)
            else:
                there[each.key] = (each.uid, each.version)
        return there

    def existed(self, key: str, uid: str, version: int) -> bool:
        return Happening(version, key, uid, deletes=False) in self.log


def wire(key: str, uid: str, version: int) -> Json:
    """An object as it is sent."""
    namespace, _, name = key.rpartition("/")
    return pod(name, version, uid=uid, namespace=namespace)


def in_order(keys: object) -> list[str]:
    """As the API lists them."""
    assert isinstance(keys, dict)
    return sorted(keys, key=str.encode)
