"""One served endpoint and how its objects are written down.

A record holds an object's JSON once, already encoded and without what differs between the ways it is
served: a built-in's record lacks `kind` and `apiVersion` (list items have neither), a custom resource's
lacks `apiVersion` alone. Every answer is then a join of bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

Object = dict[str, Any]
"""A Kubernetes object as decoded JSON."""

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")

_METADATA_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_RAW_MAP = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODER = msgspec.json.Encoder()
_SORTED = msgspec.json.Encoder(order="sorted")
_ESCAPED = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
_PARTIAL = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object with a path of its own; `group_version` only where it is not the parent's."""

    name: str
    kind: str
    verbs: tuple[str, ...] = STATUS_VERBS
    group_version: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource of one group and version, as discovery lists it and as its objects are encoded.

    Attributes:
        storage: (group, resource) of the collection; two kinds may share one.
        fields: the field selectors it knows besides metadata.name and metadata.namespace.
        labelled_fields: unknown fields are refused in the words of a kind with conversion functions.
        counts_generation: whether metadata.generation follows changes outside metadata and status.
        convert: from the stored form (without kind and apiVersion) to the served one, where they differ.
    """

    group: str
    version: str
    name: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    storage: tuple[str, str] = ("", "")
    fields: tuple[str, ...] = ()
    labelled_fields: bool = False
    counts_generation: bool = False
    custom: bool = False
    list_kind: str = ""
    convert: Callable[[Object], Object] | None = None
    revert: Callable[[Object], Object] | None = None

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`configmaps` or `widgets.example.com`, as messages spell it."""
        return f"{self.name}.{self.group}" if self.group else self.name

    @property
    def storage_version_hash(self) -> str:
        """Equal for two kinds that share a storage (events)."""
        group, version = (self.storage[0], self.version)
        text = f"{group}/{version}/{self.kind}".encode()
        return base64.b64encode(hashlib.sha256(text).digest()[:8]).decode()

    def encode(self, obj: Mapping[str, Any]) -> bytes:
        """The stored bytes of an object in the storage's form."""
        if self.custom:
            rest = {key: value for key, value in obj.items() if key != "apiVersion"}
            return json_of(rest | {"kind": self.kind}, ordered=True)
        return encode_builtin(obj)

    def decode(self, body: bytes) -> Object:
        """The object of stored bytes, as this kind serves it."""
        obj: Object = msgspec.json.decode(body)
        if self.convert is not None:
            obj = self.convert(obj)
        return {"kind": self.kind, "apiVersion": self.api_version, **obj}


def encode_builtin(obj: Mapping[str, Any]) -> bytes:
    """Without kind and apiVersion, metadata first and in the API's own order."""
    given = obj["metadata"]
    metadata = {name: given[name] for name in _METADATA_ORDER if name in given}
    metadata |= {name: value for name, value in given.items() if name not in metadata}
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion", "metadata")}
    return json_of({"metadata": metadata, **rest})


def json_of(obj: Mapping[str, Any], *, ordered: bool = False) -> bytes:
    """JSON as Go writes it: these five are escaped, wherever they stand they are inside a string."""
    data = (_SORTED if ordered else _ENCODER).encode(obj)
    for raw, escaped in _ESCAPED:
        if raw in data:
            data = data.replace(raw, escaped)
    return data


class View:
    """How one kind is written to a client: whole, or metadata alone.

    Attributes:
        key: equal for views that write the same bytes.
    """

    def __init__(self, kind: Kind, *, partial: bool = False) -> None:
        self.kind = kind
        self.partial = partial
        self.key = (kind.api_version, partial)
        api_version = msgspec.json.encode(kind.api_version)
        self._object = (
            b'{"apiVersion":' + api_version + b","
            if kind.custom
            else b'{"kind":' + msgspec.json.encode(kind.kind) + b',"apiVersion":' + api_version + b","
        )
        self._item = self._object if kind.custom else b"{"
        self._plain = not partial and not kind.custom and kind.convert is None

    def item(self, body: bytes) -> bytes:
        """The object as an item of a list."""
        if self._plain:
            return body
        if self.partial:
            return _PARTIAL + bytes(_RAW_MAP.decode(body)["metadata"]) + b"}"
        return self._item + self._served(body)[1:]

    def object(self, body: bytes) -> bytes:
        """The object by itself, or in an event."""
        return self.item(body) if self.partial else self._object + self._served(body)[1:]

    def bookmark(self, resource_version: int, *, initial_events_end: bool = False) -> bytes:
        """The line of a BOOKMARK event."""
        note = b',"annotations":{"k8s.io/initial-events-end":"true"}' if initial_events_end else b""
        version = b'"metadata":{"resourceVersion":"%d"%b}}' % (resource_version, note)
        if self.partial:
            head = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",'
        elif self.kind.custom:
            head = self._object + b'"kind":' + msgspec.json.encode(self.kind.kind) + b","
        else:
            head = self._object
        return b'{"type":"BOOKMARK","object":' + head + version + b"}\n"

    def frame(self, resource_version: int, token: str, remaining: int | None) -> tuple[bytes, bytes]:
        """What stands before and after the items of a list."""
        fields: dict[str, Any] = {}
        if "watch" in self.kind.verbs:  # what is in no storage has no versions: componentstatuses
            fields["resourceVersion"] = str(resource_version)
        if self.kind.custom and not self.partial:
            # Keys of an unstructured list are sorted, and an empty `continue` is written.
            fields = {"continue": token, "resourceVersion": str(resource_version)}
            if remaining is not None:
                fields["remainingItemCount"] = remaining
            list_kind = msgspec.json.encode(self.kind.list_kind or f"{self.kind.kind}List")
            api_version = msgspec.json.encode(self.kind.api_version)
            tail = b'],"kind":' + list_kind + b',"metadata":' + _SORTED.encode(fields) + b"}"
            return b'{"apiVersion":' + api_version + b',"items":[', tail
        if token:
            fields["continue"] = token
        if remaining is not None:
            fields["remainingItemCount"] = remaining
        kind, api_version_text = f"{self.kind.kind}List", self.kind.api_version
        if self.partial:
            kind, api_version_text = "PartialObjectMetadataList", "meta.k8s.io/v1"
        head = {"kind": kind, "apiVersion": api_version_text, "metadata": fields}
        return _ENCODER.encode(head)[:-1] + b',"items":[', b"]}"

    def _served(self, body: bytes) -> bytes:
        if self.kind.convert is None:
            return body
        return encode_builtin(self.kind.convert(msgspec.json.decode(body)))
