"""Which streams a cluster should have, and what shapes each: discovery, definitions and entries in,
streams with their settings out. Pure but for the objects it makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from syncd.core.document import Transform
from syncd.core.history import UNRECORDED, History, default_history
from syncd.core.ports import Discovery
from syncd.core.resource import Resource, Stream
from syncd.core.selection import Chosen, Problem, Selection, select
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
    """The streams to run, by identity, and what the entries could not be given."""

    streams: dict[Identity, tuple[Stream, Settings]]
    problems: tuple[Problem, ...]


def plan(
    cluster: str,
    chosen_from: tuple[Sequence[Selection], Sequence[str]],
    discovery: Discovery,
    world: World,
    knobs: Knobs,
) -> Plan:
    """The plan of one cluster.

    Args:
        chosen_from: (entries, exclusions).

    Raises:
        ConfigError: two entries mean the same rows.
    """
    entries, exclude = chosen_from
    selected = select(cluster, entries, exclude, discovery)
    streams = {
        chosen.stream.identity: (chosen.stream, settings(chosen, world, knobs)) for chosen in selected.streams
    }
    return Plan(streams, tuple(selected.problems))


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
