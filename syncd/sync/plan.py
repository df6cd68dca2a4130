"""Which streams a cluster should have, and what shapes each: discovery, definitions and entries in,
streams with their settings out. Pure but for the objects it makes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from syncd.core.document import Transform
from syncd.core.history import UNRECORDED, History, default_history
from syncd.core.ports import Discovery
from syncd.core.resource import Resource, Stream
from syncd.core.selection import Chosen, Problem, Selection, intersect, select
from syncd.sync.environment import Settings

SERVED_BY_APISERVER = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "extensions",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    }
)
"""Groups that kube-apiserver itself serves, in byte order of their keys. Another group is a custom
resource's (its definition is known, the same order) or an aggregated API's, which promises no order."""

Identity = tuple[str, str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Knobs:
    """What the configuration says of all streams."""

    deletion_share: float = 0.5
    queue_bytes: int = 32 * 1024 * 1024
    history: History = UNRECORDED


@dataclass(frozen=True, slots=True)
class World:
    """What shapes documents of a cluster besides their versions.

    Attributes:
        definitions: (uid, generation) by `plural.group`.
        readable: False where definitions may not be seen.
    """

    server_version: str
    definitions: Mapping[str, tuple[str, int]]
    readable: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """The streams to run, by identity, and what the entries could not be given.

    Attributes:
        contested: types, as (group, plural), that more than one entry would have. What there is of them
            goes on, and nothing begins.
    """

    streams: dict[Identity, tuple[Stream, Settings]]
    problems: tuple[Problem, ...]
    contested: frozenset[tuple[str, str]] = frozenset()


def plan(
    cluster: str,
    chosen_from: tuple[Sequence[Selection], Sequence[str]],
    discovery: Discovery,
    world: World,
    knobs: Knobs,
    known: Collection[Identity] | None = None,
) -> Plan:
    """The plan of one cluster.

    Args:
        chosen_from: (entries, exclusions).
        known: the streams that there are already: a type that came since must not end them. None: entries
            that mean the same rows are an error.

    Raises:
        ConfigError: two entries mean the same rows, and nothing is known.
    """
    entries, exclude = chosen_from
    selected = select(cluster, entries, exclude, discovery, strict=known is None)
    streams = selected.streams + [
        chosen for claimants in selected.contested.values() for chosen in _kept(claimants, known or ())
    ]
    return Plan(
        {chosen.stream.identity: (chosen.stream, settings(chosen, world, knobs)) for chosen in streams},
        tuple(selected.problems),
        frozenset(selected.contested),
    )


def _kept(claimants: Sequence[Chosen], known: Collection[Identity]) -> Iterator[Chosen]:
    """Of the streams that several entries ask for those that are there already, as the first entry that asks
    for it has it; values of Secrets are stored where all of them say so.
    """
    redact = any(chosen.entry.redact for chosen in claimants)
    kept: list[str] = []
    for chosen in claimants:
        namespaces = [chosen.stream.namespace] if chosen.stream.namespace else []
        if chosen.stream.identity in known and not (kept and intersect(namespaces, [*filter(None, kept)])):
            kept.append(chosen.stream.namespace)
            yield replace(chosen, entry=replace(chosen.entry, redact=redact))


def settings(chosen: Chosen, world: World, knobs: Knobs) -> Settings:
    """What shapes one stream."""
    resource, entry = chosen.stream.resource, chosen.entry
    transform = Transform(resource, redact=entry.redact)
    builtin = resource.group in SERVED_BY_APISERVER
    defined = resource.qualified in world.definitions
    return Settings(
        transform=transform,
        projection=projection(transform, resource, world),
        page_size=entry.page_size,
        custom=not builtin,
        ranges=builtin or defined,
        watch_list=entry.initial == "watchlist" or (entry.initial == "auto" and (builtin or defined)),
        poll=chosen.poll,
        bookmarks=resource.name != "events" or resource.group not in ("", "events.k8s.io"),
        deletion_share=knobs.deletion_share,
        queue_bytes=knobs.queue_bytes,
        history=_history(chosen, knobs),
    )


def _history(chosen: Chosen, knobs: Knobs) -> History:
    if chosen.entry.history is not None:
        return chosen.entry.history
    return default_history(chosen.stream.resource.group, chosen.stream.resource.name, knobs.history)


def projection(transform: Transform, resource: Resource, world: World) -> str:
    """A hash of all that shapes a stored document besides its version (mirror.md §1)."""
    uid, generation = world.definitions.get(resource.qualified, ("", 0))
    shape = f"{transform.signature}|{world.server_version}|{uid}|{generation}"
    return sha256(shape.encode()).hexdigest()[:16]
