"""What the API serves and what is mirrored of it: resources, streams and versions of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_COMPARABLE = re.compile(r"[1-9][0-9]*\Z")
_BIGINT_MAX = 2**63 - 1


def version_number(resource_version: str | None) -> int | None:
    """The version as a number where it compares (KEP-5504) and fits a bigint column, else None."""
    if resource_version is None or not _COMPARABLE.match(resource_version):
        return None
    number = int(resource_version) if len(resource_version) < 20 else _BIGINT_MAX + 1
    return number if number <= _BIGINT_MAX else None


def compare_versions(left: str, right: str) -> int | None:
    """-1, 0 or 1; None where the two do not compare (only equality is known then).

    Two versions of one resource in one cluster compare as integers when both match
    `[1-9][0-9]*` (KEP-5504, list-watch.md §2); the empty one, "0" and others do not.
    """
    if left == right:
        return 0
    if not (_COMPARABLE.match(left) and _COMPARABLE.match(right)):
        return None
    if len(left) != len(right):
        return -1 if len(left) < len(right) else 1
    return -1 if left < right else 1


@dataclass(frozen=True, slots=True)
class Resource:
    """An API endpoint: group ('' for core), version alone, plural name, kind and scope."""

    group: str
    version: str
    name: str
    kind: str
    namespaced: bool
    verbs: frozenset[str] = frozenset({"list", "watch"})
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """`v1` or `apps/v1`, as objects spell it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`pods` or `deployments.apps`, as users and CRDs spell it."""
        return f"{self.name}.{self.group}" if self.group else self.name

    def path(self, namespace: str = "") -> str:
        """The collection's path (list-watch.md §1)."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.name}" if namespace else f"{root}/{self.name}"


@dataclass(frozen=True, slots=True)
class Stream:
    """One list/watch of one resource in one scope; it owns a checkpoint.

    Its identity leaves the version out: when the served version changes the stream stays and its
    projection changes.
    """

    cluster: str
    resource: Resource
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str, str, str]:
        """(cluster, api_group, resource, namespace, label_selector, field_selector)."""
        return (
            self.cluster,
            self.resource.group,
            self.resource.name,
            self.namespace,
            self.label_selector,
            self.field_selector,
        )

    @property
    def selective(self) -> bool:
        """Whether a selector narrows it, so that DELETED may mean `left the selection`."""
        return bool(self.label_selector or self.field_selector)

    def __str__(self) -> str:
        scope = f" in {self.namespace}" if self.namespace else ""
        chosen = ",".join(filter(None, (self.label_selector, self.field_selector)))
        return f"{self.cluster}: {self.resource.qualified}{scope}{f' [{chosen}]' if chosen else ''}"


class State(StrEnum):
    """What a stream is doing, as `syncd_streams.state` says it."""

    PENDING = "pending"  # known, never begun
    SYNCING = "syncing"  # a snapshot is under way; a restart begins it anew
    LIVE = "live"  # level with the watch
    BACKOFF = "backoff"  # a fault; it will try again by itself
    PARKED = "parked"  # forbidden or not served; rows kept, asked again every few minutes


class Cause(StrEnum):
    """Why a row left the table."""

    DELETED = "deleted"  # seen on the watch
    SNAPSHOT = "snapshot"  # found absent from a complete list
    LEFT_SELECTION = "left_selection"  # deleted, or no longer matched by the stream's selector
    TYPE_REMOVED = "type_removed"  # its type is no longer served
    DESELECTED = "deselected"  # the configuration no longer asks for it
    RECONCILE = "reconcile"  # a ghost, removed by a reconcile

    @property
    def guards(self) -> bool:
        """Whether the tombstone refuses older versions (mirror.md §8)."""
        return self not in (Cause.DESELECTED, Cause.RECONCILE)
