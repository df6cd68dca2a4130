"""What an account must be allowed to do for the streams of a cluster. Pure: `check` asks for each of these,
`rbac` grants them, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from syncd.core.selection import Chosen

MIRROR_VERBS = ("list", "watch")


@dataclass(frozen=True, slots=True)
class Need:
    """Verbs on a resource.

    Attributes:
        namespace: '' is all namespaces, or none for what is cluster-scoped.
        name: of the one object that is meant, '' for any.
        purpose: what it is for, in words.
        entry: the name of the entry that asks for it, '' for what none asks for.
        namespaced: whether the resource is; for words alone.
        vital: without it a stream cannot run; else something is only known less well.
    """

    verbs: tuple[str, ...]
    group: str
    resource: str
    namespace: str = ""
    name: str = ""
    purpose: str = ""
    entry: str = ""
    vital: bool = True
    namespaced: bool = True

    def covers(self, other: Need) -> bool:
        """Whether who has this has the other."""
        return (
            set(self.verbs) >= set(other.verbs)
            and self.group in ("*", other.group)
            and self.resource in ("*", other.resource)
            and self.namespace in ("", other.namespace)
            and self.name in ("", other.name)
        )


SUPPORTING = (
    Need(
        ("get",),
        "",
        "namespaces",
        name="kube-system",
        purpose="its uid tells this cluster from another behind the same address",
        vital=False,
        namespaced=False,
    ),
    Need(
        MIRROR_VERBS,
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        purpose="types that come, change and go are noticed at once",
        vital=False,
        namespaced=False,
    ),
    Need(
        ("list",),
        "apiregistration.k8s.io",
        "apiservices",
        purpose="a type counts as removed only when nothing serves it any more",
        vital=False,
        namespaced=False,
    ),
)
"""What the daemon asks besides mirroring; it does without, less well."""


def needs(streams: Iterable[Chosen]) -> list[Need]:
    """What the streams need, in their order, and then what supports them; nothing twice."""
    wanted: list[Need] = []
    for chosen in streams:
        stream = chosen.stream
        wanted.append(
            Need(
                MIRROR_VERBS if chosen.poll is None else ("list",),
                stream.resource.group,
                stream.resource.name,
                stream.namespace,
                single_name(stream.field_selector),
                "mirrored",
                chosen.entry.name,
                namespaced=stream.resource.namespaced,
            )
        )
    return [*wanted, *(need for need in SUPPORTING if not any(each.covers(need) for each in wanted))]


def single_name(field_selector: str) -> str:
    """The name of the one object that a field selector leaves, else ''. The API server takes a list or
    watch by `metadata.name` for a request of that name, which a rule may grant alone.
    """
    for term in field_selector.split(","):
        field, equals, value = term.partition("=")
        if field == "metadata.name" and equals:
            return value.removeprefix("=")
    return ""
