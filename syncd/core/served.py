"""What a cluster serves, and which of it a name means: pure look-ups in a discovery."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import IntEnum

from syncd.core.ports import Discovery
from syncd.core.resource import Resource

UNMIRRORED_GROUPS = frozenset({"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"})
"""Samples that exist while they are asked for: no wildcard takes them (list-watch.md §8)."""

NEEDED_VERBS = frozenset({"list", "watch"})

Identity = tuple[str, str]
"""(group, plural)."""


class Rank(IntEnum):
    """How particular a name is; the lower one wins."""

    NAME = 0
    SET = 1  # a group's wildcard, or a category
    EVERYTHING = 2


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a name means.

    Attributes:
        resources: one for a plain name, all usable ones for a wildcard or category; empty where nothing
            matches.
        broad: asks for whatever fits a description (`*`, a category) and not for one door to a storage.
    """

    rank: Rank
    resources: tuple[Resource, ...] = ()
    broad: bool = False


def identity(resource: Resource) -> Identity:
    """What a resource is, whatever its version."""
    return (resource.group, resource.name)


def lacking(resource: Resource) -> str:
    """The verbs that mirroring needs and the resource does not offer, in words; '' for none."""
    return " or ".join(sorted(NEEDED_VERBS - resource.verbs))


def wildcard_rank(name: str) -> Rank:
    """The rank as far as the spelling tells; a category is only known by the discovery."""
    if name == "*":
        return Rank.EVERYTHING
    return Rank.SET if name.startswith("*") else Rank.NAME


class Served:
    """What discovery offers, the core group first, and how names are found in it."""

    def __init__(self, discovery: Discovery) -> None:
        self.resources = sorted(discovery.resources, key=lambda resource: resource.group != "")
        self.stale = discovery.stale
        self.stale_groups = {group for group, _ in discovery.stale}
        self.complete = discovery.complete

    def meant_by(self, name: str) -> Meaning:
        """A resource's own name wins over a category's: a new type must not change what `pods` means."""
        rank = wildcard_rank(name)
        if rank is not Rank.NAME:
            return Meaning(rank, self._wildcard(name), broad=rank is Rank.EVERYTHING)
        named = self._named(name)
        if named:
            return Meaning(Rank.NAME, named)
        member = self._usable(lambda r: name.lower() in (category.lower() for category in r.categories))
        return Meaning(Rank.SET, member, broad=True) if member else Meaning(Rank.NAME)

    def unsure(self, name: str) -> bool:
        """Whether what discovery lacks may hide the name, or more of what it means."""
        if not self.complete:
            return True
        _, dot, rest = name.lower().partition(".")
        if not dot:
            return bool(self.stale_groups)
        version, dot, group = rest.partition(".")
        if rest in self.stale_groups or (dot and (group, version) in self.stale):
            return True
        plain = wildcard_rank(name) is Rank.NAME
        return plain and bool(rest) and any(stale.startswith(rest) for stale in self.stale_groups)

    @property
    def lacking(self) -> str:
        """Why discovery does not settle what is served, with what is known of it by name."""
        versions = sorted(f"{group}/{version}" if group else version for group, version in self.stale)
        named = f": {', '.join(versions)}" if versions else ""
        return f"part of the discovery is stale or could not be had{named}"

    def hidden(self, group: str) -> bool:
        """Whether resources of the group may be served, though discovery lacks them."""
        return not self.complete or group in self.stale_groups

    def nearest(self, name: str) -> list[str]:
        """Served names that look like it."""
        names: dict[str, str] = {}
        for resource in self.resources:
            for spelling in (resource.qualified, *_spellings(resource)):
                names.setdefault(spelling.lower(), resource.qualified)
            if wildcard_rank(name) is not Rank.NAME:
                names.setdefault(f"*.{resource.group}", f"*.{resource.group}")
        close = get_close_matches(name.lower(), names, n=3, cutoff=0.7)
        return list(dict.fromkeys(names[spelling] for spelling in close))

    def _named(self, name: str) -> tuple[Resource, ...]:
        first, _, rest = name.lower().partition(".")
        if not rest and not name.endswith("."):
            return _pick(self.resources, first)
        version, _, group = rest.partition(".")
        # kubectl's order: resource.version.group, then resource.group, then a group that begins so
        in_version = [r for r in self.resources if (r.version, r.group) == (version, group)]
        return (
            _pick(in_version, first)
            or _pick([r for r in self.resources if r.group == rest], first)
            or _pick([r for r in self.resources if rest and r.group.startswith(rest)], first)
        )

    def _wildcard(self, name: str) -> tuple[Resource, ...]:
        group = name.lower().removeprefix("*").removeprefix(".")
        return self._usable(lambda resource: name == "*" or resource.group == group)

    def _usable(self, fits: Callable[[Resource], bool]) -> tuple[Resource, ...]:
        """Of what fits and can be mirrored, the best version of each."""
        best: dict[Identity, Resource] = {}
        for resource in self.resources:
            if resource.verbs >= NEEDED_VERBS and resource.group not in UNMIRRORED_GROUPS and fits(resource):
                best.setdefault(identity(resource), resource)
        return tuple(best.values())


def _pick(resources: Sequence[Resource], name: str) -> tuple[Resource, ...]:
    tests = (
        lambda r: name in (r.name.lower(), r.singular.lower()),
        lambda r: name == r.kind.lower(),
        lambda r: name in (short.lower() for short in r.short_names),
    )
    for test in tests:
        matching = [resource for resource in resources if test(resource)]
        if matching:
            usable = [resource for resource in matching if resource.verbs >= NEEDED_VERBS]
            return tuple((usable or matching)[:1])
    return ()


def _spellings(resource: Resource) -> Iterator[str]:
    names: Iterable[str] = (
        resource.name,
        resource.singular,
        resource.kind,
        *resource.short_names,
        *resource.categories,
    )
    yield from filter(None, names)
