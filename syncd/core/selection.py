"""Which resources of a cluster the configuration means: entries and discovery in, streams out.

Names are taken as kubectl takes them: plural, singular, kind or short name, alone or followed by `.group`
or `.version.group`; `*.group` is every list- and watchable resource of a group (`*.` of the core group),
`*` of the cluster. Case does not matter. Knows nothing of files, requests or rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum

from syncd.core.errors import ConfigError
from syncd.core.ports import Discovery
from syncd.core.resource import Resource, Stream

ONE_STORAGE: tuple[tuple[str, ...], ...] = (
    ("events", "events.events.k8s.io"),
    ("namespaces", "projects.project.openshift.io"),
    ("deployments.apps", "deployments.extensions"),
    ("daemonsets.apps", "daemonsets.extensions"),
    ("replicasets.apps", "replicasets.extensions"),
    ("ingresses.networking.k8s.io", "ingresses.extensions"),
    ("networkpolicies.networking.k8s.io", "networkpolicies.extensions"),
    ("podsecuritypolicies.policy", "podsecuritypolicies.extensions"),
    ("roles.rbac.authorization.k8s.io", "roles.authorization.openshift.io"),
    ("rolebindings.rbac.authorization.k8s.io", "rolebindings.authorization.openshift.io"),
    ("clusterroles.rbac.authorization.k8s.io", "clusterroles.authorization.openshift.io"),
    ("clusterrolebindings.rbac.authorization.k8s.io", "clusterrolebindings.authorization.openshift.io"),
)
"""Resources that are two doors to the same objects; `*` takes the first that is served."""

UNMIRRORED_GROUPS = frozenset({"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"})
"""Samples that exist while they are asked for: no wildcard takes them (list-watch.md §8)."""

_NEEDED_VERBS = frozenset({"list", "watch"})
_FAMILY = {name: family for family in ONE_STORAGE for name in family}


@dataclass(frozen=True, slots=True)
class Selection:
    """One entry under `resources`.

    Attributes:
        name: as the user spelt it.
        namespaces: one stream each; () is all namespaces in one stream.
        redact: replace the values of Secrets.
        where: the entry's place, for messages ("resources[3], line 14").
    """

    name: str
    namespaces: tuple[str, ...] = ()
    label_selector: str = ""
    field_selector: str = ""
    page_size: int = 500
    redact: bool = True
    where: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f'"{self.name}" ({self.where})' if self.where else f'"{self.name}"'


class ProblemKind(StrEnum):
    """Why an entry gives less than it asks for. None of them stops the other entries."""

    UNKNOWN = "unknown"  # no such resource is served, by a discovery that was complete
    STALE = "stale"  # part of discovery could not be had: nothing may be concluded
    UNWATCHABLE = "unwatchable"  # served, without list or watch
    CLUSTER_SCOPED = "cluster_scoped"  # namespaces were asked of a resource that has none
    UNUSED = "unused"  # an exclusion that excludes nothing


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with the entry or exclusion `name`; the message says what to do."""

    kind: ProblemKind
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """A stream to run, and the entry that asks for it."""

    stream: Stream
    entry: Selection


@dataclass(frozen=True, slots=True)
class Selected:
    """Streams in the order of the entries, then of discovery."""

    streams: list[Chosen]
    problems: list[Problem]


def select(
    cluster: str, entries: Sequence[Selection], exclude: Iterable[str], discovery: Discovery
) -> Selected:
    """The streams of one cluster.

    A resource that is named goes by its named entries alone, then by `*.group`, then by `*`: a wildcard
    yields to what is more particular. An exclusion wins over everything.

    Raises:
        ConfigError: two entries of equal rank mean one resource in intersecting namespaces, whatever
            their selectors (mirror.md §8). Names both.
    """
    served = _Served(discovery)
    problems: list[Problem] = []
    excluded = _excluded(exclude, served, problems)
    found = [(entry, served.meant_by(entry.name)) for entry in entries]
    claims = _claims(found, excluded)
    _one_door(claims, served)
    chosen: list[Chosen] = []
    for entry, resources in found:
        kept = [resource for resource in resources if entry in claims.get(_identity(resource), ())]
        if not resources or (_rank(entry.name) and served.unsure(entry.name)):
            problems.append(_nothing_served(entry.name, served, found=bool(resources)))
        for resource in kept:
            problem = _unusable(entry, resource)
            if problem is None:
                chosen.extend(_streams(cluster, entry, resource))
            elif not _rank(entry.name):
                problems.append(problem)
    return Selected(chosen, problems)


def intersect(left: Sequence[str], right: Sequence[str]) -> bool:
    """Whether two entries' namespaces have one in common; none named is all of them."""
    return not left or not right or not set(left).isdisjoint(right)


class _Served:
    """What discovery offers, the core group first, and how names are found in it."""

    def __init__(self, discovery: Discovery) -> None:
        self.resources = sorted(discovery.resources, key=lambda resource: resource.group != "")
        self.stale = discovery.stale
        self.stale_groups = {group for group, _ in discovery.stale}
        self.complete = discovery.complete

    def meant_by(self, name: str) -> list[Resource]:
        """One resource for a plain name, all usable ones for a wildcard; empty where nothing matches."""
        if _rank(name):
            return self._wildcard(name)
        first, _, rest = name.lower().partition(".")
        if not rest and not name.endswith("."):
            return self._pick(self.resources, first)
        version, _, group = rest.partition(".")
        # kubectl's order: resource.version.group, then resource.group, then a group that begins so
        in_version = [r for r in self.resources if (r.version, r.group) == (version, group)]
        return (
            self._pick(in_version, first)
            or self._pick([r for r in self.resources if r.group == rest], first)
            or self._pick([r for r in self.resources if rest and r.group.startswith(rest)], first)
        )

    def unsure(self, name: str) -> bool:
        """Whether what discovery lacks may hide the name."""
        if not self.complete:
            return True
        _, dot, rest = name.lower().partition(".")
        if not dot:
            return bool(self.stale_groups)
        version, dot, group = rest.partition(".")
        if rest in self.stale_groups or (dot and (group, version) in self.stale):
            return True
        return not _rank(name) and bool(rest) and any(stale.startswith(rest) for stale in self.stale_groups)

    def hidden(self, group: str) -> bool:
        """Whether resources of the group may be served, though discovery lacks them."""
        return not self.complete or group in self.stale_groups

    def nearest(self, name: str) -> list[str]:
        """Served names that look like it."""
        names: dict[str, str] = {}
        for resource in self.resources:
            for spelling in (resource.qualified, *_spellings(resource)):
                names.setdefault(spelling.lower(), resource.qualified)
            if _rank(name):
                names.setdefault(f"*.{resource.group}", f"*.{resource.group}")
        close = get_close_matches(name.lower(), names, n=3, cutoff=0.7)
        return list(dict.fromkeys(names[spelling] for spelling in close))

    def _pick(self, resources: Sequence[Resource], name: str) -> list[Resource]:
        tests = (
            lambda r: name in (r.name.lower(), r.singular.lower()),
            lambda r: name == r.kind.lower(),
            lambda r: name in (short.lower() for short in r.short_names),
        )
        for test in tests:
            matching = [resource for resource in resources if test(resource)]
            if matching:
                usable = [resource for resource in matching if resource.verbs >= _NEEDED_VERBS]
                return (usable or matching)[:1]
        return []

    def _wildcard(self, name: str) -> list[Resource]:
        group = name.lower().removeprefix("*").removeprefix(".")
        best: dict[tuple[str, str], Resource] = {}
        for resource in self.resources:
            if name != "*" and resource.group != group:
                continue
            if resource.verbs >= _NEEDED_VERBS and resource.group not in UNMIRRORED_GROUPS:
                best.setdefault(_identity(resource), resource)
        return list(best.values())


def _rank(name: str) -> int:
    """0 for a name, 1 for a group's wildcard, 2 for `*`: the lower one wins."""
    return 2 if name == "*" else int(name.startswith("*"))


def _identity(resource: Resource) -> tuple[str, str]:
    return (resource.group, resource.name)


def _spellings(resource: Resource) -> Iterator[str]:
    yield from filter(None, (resource.name, resource.singular, resource.kind, *resource.short_names))


def _excluded(names: Iterable[str], served: _Served, problems: list[Problem]) -> dict[tuple[str, str], int]:
    """The lowest rank of entry that each resource is excluded from: 0 by its own name, 2 where it is the
    other door to something excluded (`*` must not bring it back under that name).
    """
    excluded: dict[tuple[str, str], int] = {}
    for name in names:
        resources = served.meant_by(name)
        if not resources and not served.unsure(name):
            message = f'the exclusion "{name}" matches nothing that is served{_hint(served, name)}'
            problems.append(Problem(ProblemKind.UNUSED, name, message))
        for resource in resources:
            excluded[_identity(resource)] = 0
            for twin in _FAMILY.get(resource.qualified, ()):
                plural, _, group = twin.partition(".")
                excluded.setdefault((group, plural), 2)
    return excluded


def _claims(
    found: Sequence[tuple[Selection, Sequence[Resource]]], excluded: dict[tuple[str, str], int]
) -> dict[tuple[str, str], list[Selection]]:
    """Which entries each resource goes by, those of the lowest rank that name it."""
    claims: dict[tuple[str, str], list[Selection]] = {}
    for entry, resources in sorted(found, key=lambda pair: _rank(pair[0].name)):
        rank = _rank(entry.name)
        for resource in resources:
            key = _identity(resource)
            if rank >= excluded.get(key, 3):
                continue
            others = claims.setdefault(key, [])
            if others and _rank(others[0].name) < rank:
                continue
            for other in others:
                if intersect(entry.namespaces, other.namespaces):
                    raise ConfigError(_doubled(resource, other, entry))
            others.append(entry)
    return claims


def _one_door(claims: dict[tuple[str, str], list[Selection]], served: _Served) -> None:
    """Of two doors to the same objects `*` keeps the first, or none where an entry asks for the other. A
    door whose better one is only hidden by a stale discovery stays shut.
    """
    for family in ONE_STORAGE:
        doors = [(group, plural) for plural, _, group in (name.partition(".") for name in family)]
        taken = [door for door in doors if claims.get(door)]
        taken.sort(key=lambda door: _rank(claims[door][0].name))
        for door in taken:
            better = doors[: doors.index(door)]
            shut = door != taken[0] or any(served.hidden(group) for group, _ in better)
            if shut and _rank(claims[door][0].name) == 2:
                del claims[door]


def _streams(cluster: str, entry: Selection, resource: Resource) -> Iterator[Chosen]:
    for namespace in dict.fromkeys(entry.namespaces) or ("",):
        stream = Stream(cluster, resource, namespace, entry.label_selector, entry.field_selector)
        yield Chosen(stream, entry)


def _unusable(entry: Selection, resource: Resource) -> Problem | None:
    if not resource.verbs >= _NEEDED_VERBS:
        lacking = " or ".join(sorted(_NEEDED_VERBS - resource.verbs))
        message = f"{entry} cannot be watched: {resource.qualified} offers no {lacking}; remove the entry"
        return Problem(ProblemKind.UNWATCHABLE, entry.name, message)
    if entry.namespaces and not resource.namespaced:
        message = f"{entry} names namespaces, but {resource.qualified} is cluster-scoped; remove them"
        return Problem(ProblemKind.CLUSTER_SCOPED, entry.name, message)
    return None


def _nothing_served(name: str, served: _Served, *, found: bool) -> Problem:
    if served.unsure(name):
        also = "other resources of" if found else "what is meant by"
        message = f'{also} "{name}" cannot be told: part of the discovery is stale or could not be had'
        return Problem(ProblemKind.STALE, name, message)
    return Problem(
        ProblemKind.UNKNOWN, name, f'the cluster serves nothing named "{name}"{_hint(served, name)}'
    )


def _hint(served: _Served, name: str) -> str:
    nearest = served.nearest(name)
    return f"; the nearest: {', '.join(nearest)}" if nearest else ""


def _doubled(resource: Resource, first: Selection, second: Selection) -> str:
    common = sorted(set(first.namespaces) & set(second.namespaces))
    scope = f" in {', '.join(common)}" if common else " in the same namespaces"
    return (
        f"resources: {first} and {second} both select {resource.qualified}{scope}; "
        "merge the two entries or give them namespaces that do not intersect"
    )
