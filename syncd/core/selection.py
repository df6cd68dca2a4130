"""Which resources of a cluster the configuration means: entries and discovery in, streams out.

Names are taken as kubectl takes them: plural, singular, kind or short name, alone or followed by `.group`
or `.version.group`; a category (`all`) is every list- and watchable resource that is in it, `*.group` of a
group (`*.` of the core group), `*` of the cluster. Case does not matter. Knows nothing of files, requests or
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from syncd.core.errors import ConfigError
from syncd.core.history import History
from syncd.core.ports import Discovery
from syncd.core.resource import Resource, Stream
from syncd.core.served import Identity, Meaning, Rank, Served, identity

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
"""Resources that are two doors to the same objects; `*` and a category take the first that is served."""

FAMILY = {name: family for family in ONE_STORAGE for name in family}
"""All doors of a door's storage."""


POLL_SECONDS = 300.0
"""Between two lists of a resource that cannot be watched."""

NOT_ALL = "not all that is configured is mirrored: "
"""What begins a cluster's `last_error` of a cluster that answers, and serves less than is asked for."""


@dataclass(frozen=True, slots=True)
class Selection:
    """One entry under `resources`.

    Attributes:
        name: as the user spelt it.
        namespaces: one stream each; () is all namespaces in one stream.
        redact: replace the values of Secrets.
        initial: how a stream begins: `list`, `watchlist`, or `auto`: the latter where kube-apiserver itself
            serves the resource.
        poll: list again every so many seconds; None watches, where that is possible.
        history: what is recorded of its changes; None is as for all.
        where: the entry's place, for messages ("resources[3], line 14").
    """

    name: str
    namespaces: tuple[str, ...] = ()
    label_selector: str = ""
    field_selector: str = ""
    page_size: int = 500
    redact: bool = True
    initial: str = "list"
    poll: float | None = None
    where: str = field(default="", compare=False)
    history: History | None = None

    def __str__(self) -> str:
        return f'"{self.name}" ({self.where})' if self.where else f'"{self.name}"'


class ProblemKind(StrEnum):
    """Why an entry gives less than it asks for. None of them stops the other entries."""

    UNKNOWN = "unknown"  # no such resource is served, by a discovery that was complete
    STALE = "stale"  # part of discovery could not be had: nothing may be concluded
    UNLISTABLE = "unlistable"  # served, without list
    CLUSTER_SCOPED = "cluster_scoped"  # namespaces were asked of a resource that has none
    UNUSED = "unused"  # an exclusion that excludes nothing
    CONTESTED = "contested"  # two entries of equal rank mean the same objects


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

    @property
    def poll(self) -> float | None:
        """Seconds between two lists, None where it is watched."""
        if self.entry.poll is None and "watch" not in self.stream.resource.verbs:
            return POLL_SECONDS
        return self.entry.poll


@dataclass(frozen=True, slots=True)
class Selected:
    """Streams in the order of the entries, then of discovery.

    Attributes:
        contested: what two entries of equal rank mean, and the streams that either asks for; none of them
            is among `streams`.
    """

    streams: list[Chosen]
    problems: list[Problem]
    contested: dict[Identity, list[Chosen]] = field(default_factory=dict)


def select(
    cluster: str,
    entries: Sequence[Selection],
    exclude: Sequence[str],
    discovery: Discovery,
    *,
    strict: bool = True,
) -> Selected:
    """The streams of one cluster.

    A resource that is named goes by its named entries alone, then by `*.group` or a category, then by
    `*`: a wildcard yields to what is more particular. An exclusion wins over everything.

    Args:
        strict: False where a type that came later may have brought a contest, which is a problem then.

    Raises:
        ConfigError: strict, and two entries of equal rank mean one resource in intersecting namespaces,
            whatever their selectors (mirror.md §8). Names both.
    """
    served = Served(discovery)
    barred = exclusions(exclude, served)
    problems = [
        _unused(name, served)
        for name in exclude
        if not (served.meant_by(name).resources or served.unsure(name))
    ]
    found = [(entry, served.meant_by(entry.name)) for entry in entries]
    claims, contests = _claims(found, barred)
    if strict and contests:
        raise ConfigError(next(iter(contests.values())).message)
    problems += contests.values()
    contested: dict[Identity, list[Chosen]] = {key: [] for key in contests}
    _one_door(claims, served)
    chosen: list[Chosen] = []
    for entry, meaning in found:
        if not meaning.resources or (meaning.rank and served.unsure(entry.name)):
            problems.append(_nothing_served(entry.name, served, found=bool(meaning.resources)))
        for resource in meaning.resources:
            if not any(claim.entry is entry for claim in claims.get(identity(resource), ())):
                continue
            problem = _unusable(entry, resource)
            if problem is None:
                among = contested.get(identity(resource), chosen)
                among.extend(_streams(cluster, entry, meaning, resource))
            elif meaning.rank is Rank.NAME:
                problems.append(problem)
    return Selected(chosen, problems, contested)


def intersect(left: Sequence[str], right: Sequence[str]) -> bool:
    """Whether two entries' namespaces have one in common; none named is all of them."""
    return not left or not right or not set(left).isdisjoint(right)


@dataclass(frozen=True, slots=True)
class Exclusion:
    """What bars a resource: the exclusion `name`; `door` where it names the other door to its storage,
    which only keeps `*` and categories from bringing it back.
    """

    name: str
    door: str = ""

    def bars(self, meaning: Meaning) -> bool:
        """Whether an entry of this meaning must leave the resource alone."""
        return not self.door or meaning.broad


@dataclass(frozen=True, slots=True)
class _Claim:
    entry: Selection
    meaning: Meaning


def exclusions(names: Iterable[str], served: Served) -> dict[Identity, Exclusion]:
    """What bars each resource that an exclusion concerns; its own name before that of its other door."""
    barred: dict[Identity, Exclusion] = {}
    for name in names:
        for resource in served.meant_by(name).resources:
            present = barred.get(identity(resource))
            if present is None or present.door:
                barred[identity(resource)] = Exclusion(name)
            for twin in FAMILY.get(resource.qualified, ()):
                plural, _, group = twin.partition(".")
                barred.setdefault((group, plural), Exclusion(name, resource.qualified))
    return barred


def _claims(
    found: Sequence[tuple[Selection, Meaning]], barred: dict[Identity, Exclusion]
) -> tuple[dict[Identity, list[_Claim]], dict[Identity, Problem]]:
    """Which entries each resource goes by, those of the lowest rank that name it; and what is wrong with
    those that more than one entry would have.
    """
    claims: dict[Identity, list[_Claim]] = {}
    contests: dict[Identity, Problem] = {}
    for entry, meaning in sorted(found, key=lambda pair: pair[1].rank):
        for resource in meaning.resources:
            key = identity(resource)
            if key in barred and barred[key].bars(meaning):
                continue
            others = claims.setdefault(key, [])
            if others and others[0].meaning.rank < meaning.rank:
                continue
            for other in others:
                if intersect(entry.namespaces, other.entry.namespaces):
                    message = _doubled(resource, other.entry, entry)
                    contests.setdefault(key, Problem(ProblemKind.CONTESTED, entry.name, message))
            others.append(_Claim(entry, meaning))
    return claims, contests


def _one_door(claims: dict[Identity, list[_Claim]], served: Served) -> None:
    """Of two doors to the same objects `*` and a category keep the first, or none where an entry asks for
    the other. A door whose better one is only hidden by a stale discovery stays shut.
    """
    for family in ONE_STORAGE:
        doors = [(group, plural) for plural, _, group in (name.partition(".") for name in family)]
        taken = [door for door in doors if claims.get(door)]
        taken.sort(key=lambda door: (claims[door][0].meaning.rank, claims[door][0].meaning.broad))
        for door in taken:
            better = doors[: doors.index(door)]
            shut = door != taken[0] or any(served.hidden(group) for group, _ in better)
            if shut:
                claims[door] = [claim for claim in claims[door] if not claim.meaning.broad]


def _streams(cluster: str, entry: Selection, meaning: Meaning, resource: Resource) -> Iterator[Chosen]:
    if meaning.rank and not entry.redact:
        entry = replace(entry, redact=True)  # only an entry that names secrets may store their values
    for namespace in dict.fromkeys(entry.namespaces) or ("",):
        stream = Stream(cluster, resource, namespace, entry.label_selector, entry.field_selector)
        yield Chosen(stream, entry)


def _unusable(entry: Selection, resource: Resource) -> Problem | None:
    if "list" not in resource.verbs:
        message = f"{entry} cannot be listed: {resource.qualified} offers no list; remove the entry"
        return Problem(ProblemKind.UNLISTABLE, entry.name, message)
    if entry.namespaces and not resource.namespaced:
        message = f"{entry} names namespaces, but {resource.qualified} is cluster-scoped; remove them"
        return Problem(ProblemKind.CLUSTER_SCOPED, entry.name, message)
    return None


def _unused(name: str, served: Served) -> Problem:
    message = f'the exclusion "{name}" matches nothing that is served{_hint(served, name)}'
    return Problem(ProblemKind.UNUSED, name, message)


def _nothing_served(name: str, served: Served, *, found: bool) -> Problem:
    if served.unsure(name):
        also = "other resources of" if found else "what is meant by"
        message = f'{also} "{name}" cannot be told: {served.lacking}'
        return Problem(ProblemKind.STALE, name, message)
    return Problem(
        ProblemKind.UNKNOWN, name, f'the cluster serves nothing named "{name}"{_hint(served, name)}'
    )


def _hint(served: Served, name: str) -> str:
    nearest = served.nearest(name)
    return f"; the nearest: {', '.join(nearest)}" if nearest else ""


def _doubled(resource: Resource, first: Selection, second: Selection) -> str:
    common = sorted(set(first.namespaces) & set(second.namespaces))
    scope = f" in {', '.join(common)}" if common else " in the same namespaces"
    return (
        f"resources: {first} and {second} both select {resource.qualified}{scope}; "
        "merge the two entries or give them namespaces that do not intersect"
    )
