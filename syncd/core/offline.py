"""What a configuration needs as far as it can be said without asking the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from syncd.core.access import MIRROR_VERBS, Need, needs
from syncd.core.builtin import BUILT_IN
from syncd.core.ports import Discovery
from syncd.core.resource import Resource
from syncd.core.selection import Selection, select
from syncd.core.served import Rank, Served, wildcard_rank

_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?\Z")


@dataclass(frozen=True, slots=True)
class Offline:
    """What is needed, and (entry or exclusion, why) for each that only the cluster can explain."""

    needs: list[Need]
    unclear: list[tuple[str, str]]


def offline(cluster: str, entries: Sequence[Selection], exclude: Sequence[str]) -> Offline:
    """Kubernetes' own names are known; `plural.group` of another group is taken as written; a wildcard is
    `*` where no exclusion can reach into it.

    Raises:
        ConfigError: as `select`.
    """
    served = Served(Discovery(BUILT_IN))
    written = [each for entry in entries if (each := _as_written(entry.name, served))]
    known = Served(Discovery((*BUILT_IN, *written)))
    unclear = list(_unclear(entries, exclude, known))
    plain = [entry for entry in entries if wildcard_rank(entry.name) is Rank.NAME]
    selected = select(cluster, plain, exclude, Discovery(tuple(known.resources)))
    wide = [need for entry in entries for need in _wildcard(entry)]
    return Offline([*wide, *(need for need in needs(selected.streams) if not _covered(need, wide))], unclear)


def _covered(need: Need, wide: Sequence[Need]) -> bool:
    return any(each.covers(need) for each in wide)


def _as_written(name: str, served: Served) -> Resource | None:
    """`plural.group` or `plural.version.group`, for a group that is not Kubernetes' own."""
    if wildcard_rank(name) is not Rank.NAME or served.meant_by(name).resources:
        return None
    plural, _, rest = name.lower().partition(".")
    version, _, group = rest.partition(".")
    if not _VERSION.match(version):
        version, group = "v1", rest
    if "." not in group:
        return None
    return Resource(group, version, plural, plural, namespaced=True)


def _wildcard(entry: Selection) -> Iterator[Need]:
    rank = wildcard_rank(entry.name)
    if rank is Rank.NAME:
        return
    group = "*" if rank is Rank.EVERYTHING else entry.name.removeprefix("*.").lower()
    for namespace in dict.fromkeys(entry.namespaces) or ("",):
        verbs = MIRROR_VERBS if entry.poll is None else ("list",)
        yield Need(verbs, group, "*", namespace, purpose="mirrored", entry=entry.name)


def _unclear(
    entries: Sequence[Selection], exclude: Sequence[str], known: Served
) -> Iterator[tuple[str, str]]:
    for entry in entries:
        rank = wildcard_rank(entry.name)
        if rank is Rank.NAME and not known.meant_by(entry.name).resources:
            yield entry.name, "only the cluster knows what it means (a category, or a custom resource?)"
        reaching = [name for name in exclude if rank is not Rank.NAME and _reaches(name, entry.name, known)]
        if reaching:
            yield entry.name, f"what is left of it without {', '.join(reaching)} only the cluster knows"
    for name in exclude:
        undotted = wildcard_rank(name) is Rank.NAME and "." not in name
        if undotted and not known.meant_by(name).resources:
            yield name, "only the cluster knows what this excludes"


def _reaches(exclusion: str, wildcard: str, known: Served) -> bool:
    """Whether something that the wildcard means may be excluded."""
    if "*" in (exclusion, wildcard):
        return True
    group = wildcard.removeprefix("*.").lower()
    if wildcard_rank(exclusion) is not Rank.NAME:
        return exclusion.removeprefix("*.").lower() == group
    meant = known.meant_by(exclusion).resources
    if meant:
        return any(resource.group == group for resource in meant)
    return "." not in exclusion or exclusion.lower().partition(".")[2].endswith(group)
