"""What the store keeps: records of objects and events of their changes. Values, with lazily read facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from syncd.simulator.kind import View, json_of
from syncd.simulator.selectors import FieldSelector, LabelSelector


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Metadata


_LABELS = msgspec.json.Decoder(_Labelled)


@dataclass(slots=True, eq=False)
class Record:
    """One version of one object.

    Attributes:
        key: `namespace/name`, or `name` when cluster-scoped.
        version: the resource version, also found in the body.
        body: see `kind.Kind.encode`.
    """

    key: str
    namespace: str
    name: str
    uid: str
    version: int
    body: bytes
    _labels: dict[str, str] | None = None
    _fields: dict[str, str] | None = None

    @property
    def labels(self) -> dict[str, str]:
        if self._labels is None:
            self._labels = _LABELS.decode(self.body).metadata.labels or {}
        return self._labels

    def value(self, name: str) -> str:
        """The text of a field that a selector may name; '' where it is absent."""
        if name == "metadata.name":
            return self.name
        if name == "metadata.namespace":
            return self.namespace
        if self._fields is None:
            self._fields = {}
        if name not in self._fields:
            self._fields[name] = _text(msgspec.json.decode(self.body), name)
        return self._fields[name]

    def at(self, version: int) -> Record:
        """The same content under another version (a deletion carries its own)."""
        old = b'"resourceVersion":"%d"' % self.version
        body = self.body
        # Metadata comes first in a built-in's bytes and names hold no quotes, so the first match is the
        # object's own version; a custom resource's annotations come before it, and it is decoded.
        if body.startswith(b'{"metadata":{"name":') and old in body:
            body = body.replace(old, b'"resourceVersion":"%d"' % version, 1)
        else:
            obj: dict[str, Any] = msgspec.json.decode(body)
            obj["metadata"]["resourceVersion"] = str(version)
            body = json_of(obj)
        return Record(
            self.key, self.namespace, self.name, self.uid, version, body, self._labels, self._fields
        )


def _text(obj: Any, path: str) -> str:
    if path == "source":  # of an event: the component alone
        path = "source.component"
    path = path.replace("regarding.", "involvedObject.").replace("reportingController", "reportingComponent")
    for name in path.split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    if obj is None:
        return ""
    return str(obj).lower() if isinstance(obj, bool) else str(obj)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a list or a watch selects: a namespace ('' for all), labels and fields."""

    namespace: str = ""
    labels: LabelSelector = field(default_factory=LabelSelector)
    fields: FieldSelector = field(default_factory=FieldSelector)

    @property
    def selective(self) -> bool:
        return bool(self.labels or self.fields)

    def contains(self, record: Record) -> bool:
        return (
            (not self.namespace or record.namespace == self.namespace)
            and (not self.labels or self.labels.matches(record.labels))
            and (not self.fields or self.fields.matches(record.value))
        )


@dataclass(slots=True, eq=False)
class Event:
    """One change. `before` and `after` are None where there was or is no object; for a deletion `last`
    is the last content under the deletion's version.

    Attributes:
        hidden: a fault: watchers never see it.
    """

    version: int
    key: str
    before: Record | None
    after: Record | None
    last: Record | None = None
    hidden: bool = False
    lines: dict[object, bytes] = field(default_factory=dict)

    def line(self, view: View, scope: Scope) -> bytes | None:
        """The event as a watcher of this scope gets it, None where it is none of its business.

        An object that leaves the selection is DELETED with its old content and the version of the write
        that moved it; one that enters is ADDED. Encoded once for all watchers.
        """
        was = self.before is not None and scope.contains(self.before)
        now = self.after is not None and scope.contains(self.after)
        if now:
            return self._encoded(view, b"MODIFIED" if was else b"ADDED")
        return self._encoded(view, b"DELETED") if was else None

    def _encoded(self, view: View, name: bytes) -> bytes:
        line = self.lines.get((view.key, name))
        if line is None:
            if name == b"DELETED":
                record = self.last
                if record is None and self.before is not None:
                    record = self.before.at(self.version)
            else:
                record = self.after
            assert record is not None  # a DELETED has a before, the others an after
            line = b'{"type":"%b","object":%b}\n' % (name, view.object(record.body))
            self.lines[(view.key, name)] = line
        return line
