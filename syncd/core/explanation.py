"""Why each resource of a cluster is mirrored, or is not. Says what `select` does; decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from syncd.core.ports import Discovery
from syncd.core.resource import Resource
from syncd.core.selection import FAMILY, Chosen, Selection, exclusions, select
from syncd.core.served import (
    UNMIRRORED_GROUPS,
    Identity,
    Meaning,
    Served,
    identity,
    lacking,
)


class Reason(StrEnum):
    """What became of a resource."""

    SELECTED = "selected"
    EXCLUDED = "excluded"  # an exclusion names it, or the other door to its storage
    UNWATCHABLE = "unwatchable"  # served without list or watch
    OTHER_DOOR = "other_door"  # its objects are mirrored under another name
    CLUSTER_SCOPED = "cluster_scoped"  # the entry names namespaces, and it has none
    SAMPLES = "samples"  # exists while it is asked for: no wildcard takes it
    UNSELECTED = "unselected"  # no entry means it


@dataclass(frozen=True, slots=True)
class Explained:
    """One resource, its best version or the mirrored one, and why.

    Attributes:
        detail: the reason in words, '' for what is selected.
        streams: what is mirrored of it.
        versions: every served version, the best first.
    """

    resource: Resource
    reason: Reason
    detail: str
    streams: tuple[Chosen, ...] = ()
    versions: tuple[str, ...] = ()


def explain(
    cluster: str, entries: Sequence[Selection], exclude: Sequence[str], discovery: Discovery
) -> list[Explained]:
    """Every resource that can be listed or watched, the core group first, then as discovery has them.

    Raises:
        ConfigError: as `select`.
    """
    streams: dict[Identity, list[Chosen]] = {}
    for chosen in select(cluster, entries, exclude, discovery).streams:
        streams.setdefault(identity(chosen.stream.resource), []).append(chosen)
    served = Served(discovery)
    versions: dict[Identity, list[Resource]] = {}
    for resource in served.resources:
        if resource.verbs & {"list", "watch"}:
            versions.setdefault(identity(resource), []).append(resource)
    why = _Why(served, entries, exclude, streams)
    explained: list[Explained] = []
    for key, same in versions.items():
        chosen_of = tuple(streams.get(key, ()))
        resource = chosen_of[0].stream.resource if chosen_of else same[0]
        reason, detail = (Reason.SELECTED, "") if chosen_of else why(resource)
        names = tuple(each.version for each in same)
        explained.append(Explained(resource, reason, detail, chosen_of, names))
    return explained


class _Why:
    """Why a resource has no stream."""

    def __init__(
        self,
        served: Served,
        entries: Sequence[Selection],
        exclude: Sequence[str],
        streams: dict[Identity, list[Chosen]],
    ) -> None:
        self._served = served
        self._found = [(entry, served.meant_by(entry.name)) for entry in entries]
        self._barred = exclusions(exclude, served)
        self._streams = streams

    def __call__(self, resource: Resource) -> tuple[Reason, str]:
        key = identity(resource)
        asking = list(self._asking(resource))
        exclusion = self._barred.get(key)
        if exclusion is not None and not exclusion.door:
            return Reason.EXCLUDED, f'excluded by "{exclusion.name}"'
        if lacking(resource):
            hint = "; name it to have it polled" if "list" in resource.verbs else ""
            return Reason.UNWATCHABLE, f"offers no {lacking(resource)}{hint}"
        if exclusion is not None and any(exclusion.bars(meaning) for _, meaning in asking):
            return Reason.EXCLUDED, f'excluded by "{exclusion.name}": another door to {exclusion.door}'
        for entry, _ in asking:
            if entry.namespaces and not resource.namespaced:
                return Reason.CLUSTER_SCOPED, f"cluster-scoped, and {entry} names namespaces"
        if asking:
            return Reason.OTHER_DOOR, self._door(resource)
        if resource.group in UNMIRRORED_GROUPS:
            return Reason.SAMPLES, "samples that exist while they are asked for; no wildcard takes them"
        return Reason.UNSELECTED, "no entry means it"

    def _asking(self, resource: Resource) -> Iterator[tuple[Selection, Meaning]]:
        for entry, meaning in self._found:
            if any(identity(each) == identity(resource) for each in meaning.resources):
                yield entry, meaning

    def _door(self, resource: Resource) -> str:
        for twin in FAMILY.get(resource.qualified, ()):
            plural, _, group = twin.partition(".")
            if (group, plural) in self._streams:
                return f"another door to the objects of {twin}, which is mirrored"
        for twin in FAMILY.get(resource.qualified, ()):
            if self._served.hidden(twin.partition(".")[2]):
                return f"another door to the objects of {twin}, whose group does not answer at present"
        return "another entry means it"
