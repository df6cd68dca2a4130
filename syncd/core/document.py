"""From an object's bytes to the row that is stored, decoding as little as possible.

The JSON is kept as the server sent it, less `managedFields` (about half of a pod) and with `kind` and
`apiVersion` in front where a list item lacks them: objects are opened as maps of raw values, a key is
dropped, every other byte is copied. Only what is redacted is decoded in full (mirror.md §9).
"""

from __future__ import annotations

from typing import Any

import msgspec

from syncd.core.errors import UNDECODABLE, ProtocolError
from syncd.core.mending import decoded, spelt
from syncd.core.nesting import shallow, too_deep
from syncd.core.number import values
from syncd.core.resource import Resource

TRANSFORM_VERSION = 1
"""Goes into every projection: raise it when the stored form of an unchanged object changes."""

REDACTED = "redacted"
_LONGEST_UID = 253
"""Characters. The API takes any text for an owner's uid and an index does not; a row that is refused for it
would be an object that whoever writes it can hide. Real ones have 36.
"""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_RAW_MAP = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODER = msgspec.json.Encoder()


class _Owner(msgspec.Struct):
    uid: str = ""
    controller: bool | None = None


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815
    generation: int | None = None
    creationTimestamp: str | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    ownerReferences: list[_Owner] | None = None  # noqa: N815
    labels: msgspec.Raw = msgspec.Raw()  # a union of Raw and None would take nothing but null
    annotations: msgspec.Raw = msgspec.Raw()


_METADATA = msgspec.json.Decoder(_Metadata)


class Item(msgspec.Struct, frozen=True):
    """One object as it is stored.

    Attributes:
        key: `namespace/name`, or `name` when cluster-scoped; compared as bytes (UTF-8).
        resource_version: of the object; of the deletion where the item came with DELETED.
        creation_timestamp, deletion_timestamp: RFC 3339 text as in the API.
        owner_uid: the controller's uid, else the first owner's, else None; None too where it cannot be one.
        labels, annotations: JSON text of a map, None where the API has none.
        document: JSON text of the whole object as it is stored.
        altered: what had to be changed to store it ("NUL", "HALF", "DEPTH"), '' when nothing.
    """

    key: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    kind: str
    api_version: str
    generation: int | None
    creation_timestamp: str | None
    deletion_timestamp: str | None
    owner_uid: str | None
    labels: str | None
    annotations: str | None
    document: str
    altered: str = ""

    @property
    def size(self) -> int:
        """An estimate of what it costs in memory, in bytes."""
        return len(self.document) + 512


class Head(msgspec.Struct, frozen=True):
    """What is compared of an object in a list, without opening the rest of it. `raw` keeps the whole page
    in memory: a head that outlives its page is turned into an item.
    """

    key: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    raw: msgspec.Raw


class _HeadMetadata(msgspec.Struct):
    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815


class _HeadObject(msgspec.Struct):
    metadata: _HeadMetadata


_HEAD = msgspec.json.Decoder(_HeadObject)


class Transform:
    """Turns raw objects of one resource into items.

    Args:
        resource: gives kind and apiVersion where a list item carries none.
        redact: replace the values of Secrets; on by default, for Secrets alone.
    """

    def __init__(self, resource: Resource, *, redact: bool = True) -> None:
        self.resource = resource
        self.redacts = redact and (resource.group, resource.name) == ("", "secrets")
        self._kind = msgspec.Raw(_ENCODER.encode(resource.kind))
        self._api_version = msgspec.Raw(_ENCODER.encode(resource.api_version))

    @property
    def signature(self) -> str:
        """What this transformation does to a document, for the stream's projection."""
        return f"transform={TRANSFORM_VERSION} redact={self.redacts} {self.resource.api_version}"

    def head(self, raw: msgspec.Raw) -> Head:
        """What tells one raw object from its row: a quarter of the work of the whole item.

        Raises:
            ProtocolError: the bytes are not a Kubernetes object.
        """
        try:
            metadata = decoded(_HEAD, raw).metadata
        except UNDECODABLE as error:
            raise ProtocolError(f"not an object of {self.resource.qualified}: {error}") from error
        if not metadata.name:
            raise ProtocolError(f"an object of {self.resource.qualified} without a name")
        namespace = metadata.namespace or ""
        key = f"{namespace}/{metadata.name}" if namespace else metadata.name
        return Head(key, namespace, metadata.name, metadata.uid, metadata.resourceVersion, raw)

    def whole(self, listed: Item | Head) -> Item:
        """The item of a head; an item is one already."""
        return self(listed.raw) if isinstance(listed, Head) else listed

    def __call__(self, raw: bytes | msgspec.Raw) -> Item:
        """The item of one raw object.

        Raises:
            ProtocolError: the bytes are not a Kubernetes object.
        """
        try:
            fields, said = _fields(raw)
            raw_metadata = fields["metadata"]
            metadata = _METADATA.decode(raw_metadata)
            if self.redacts:
                fields = _redact(fields)
                if "metadata" in fields:
                    raw_metadata = fields["metadata"]
                    metadata = _METADATA.decode(raw_metadata)
            inner = _RAW_MAP.decode(raw_metadata)
            if inner.pop("managedFields", None) is not None:
                fields["metadata"] = msgspec.Raw(_ENCODER.encode(inner))
            if "kind" not in fields or "apiVersion" not in fields:
                fields = {"kind": self._kind, "apiVersion": self._api_version, **fields}
            encoded, found = spelt(_ENCODER.encode(fields))
            altered = said or found
            if too_deep(encoded):
                encoded, altered = shallow(encoded), f"{altered} DEPTH".strip()
            document = _text(encoded)
        except (*UNDECODABLE, KeyError) as error:
            # None of its bytes: they may be a Secret's, and errors are logged and stored.
            raise ProtocolError(f"not an object of {self.resource.qualified}: {error}") from error
        if not metadata.name:
            raise ProtocolError(f"an object of {self.resource.qualified} without a name")
        namespace = metadata.namespace or ""
        return Item(
            key=f"{namespace}/{metadata.name}" if namespace else metadata.name,
            namespace=namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resourceVersion,
            kind=self.resource.kind,
            api_version=self.resource.version,
            generation=metadata.generation,
            creation_timestamp=metadata.creationTimestamp,
            deletion_timestamp=metadata.deletionTimestamp,
            owner_uid=_owner(metadata.ownerReferences),
            labels=_map_text(metadata.labels),
            annotations=_map_text(metadata.annotations),
            document=document,
            altered=altered,
        )


def _fields(raw: bytes | msgspec.Raw) -> tuple[dict[str, msgspec.Raw], str]:
    """An object's fields, and what had to be changed to read them."""
    try:
        return _RAW_MAP.decode(raw), ""
    except (msgspec.DecodeError, RecursionError):
        data, said = spelt(bytes(raw))
        return decoded(_RAW_MAP, data), said


class _Definition(msgspec.Struct):
    metadata: _Metadata


_DEFINITION = msgspec.json.Decoder(_Definition)


def definition_identity(raw: bytes | msgspec.Raw) -> tuple[str, str, int]:
    """(name, uid, generation) of a CustomResourceDefinition, of its metadata alone.

    Raises:
        ProtocolError: it has none.
    """
    try:
        metadata = _DEFINITION.decode(raw).metadata
    except UNDECODABLE as error:
        raise ProtocolError(f"not an object with metadata: {error}") from error
    return metadata.name, metadata.uid, metadata.generation or 0


def same_content(left: str, right: str) -> bool:
    """Whether two stored documents say the same, whatever their key order and spacing. Numbers compare by
    value, as jsonb keeps them (it writes 1e2 as 100); true is not 1.
    """
    if left == right:
        return True
    try:
        return _same(values(left), values(right))
    except (ValueError, RecursionError):
        return False  # no JSON, or nested too deep: only the text can tell


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _text(data: bytes) -> str:
    # Go never emits invalid UTF-8; something that is not Go may, and one byte must not stop a stream.
    return data.decode("utf-8", "replace")


def _map_text(raw: msgspec.Raw) -> str | None:
    data = bytes(raw)
    return None if data in (b"", b"null") else _text(spelt(data)[0])


def _owner(owners: list[_Owner] | None) -> str | None:
    if not owners:
        return None
    uid = next((owner.uid for owner in owners if owner.controller), owners[0].uid)
    return uid if 0 < len(uid) <= _LONGEST_UID else None


def _redact(fields: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """A Secret without its values: keys kept, and no copy of them in `last-applied-configuration`."""
    for key in ("data", "stringData"):
        if key in fields:
            values: Any = msgspec.json.decode(fields[key])
            if isinstance(values, dict):
                fields[key] = msgspec.Raw(_ENCODER.encode(dict.fromkeys(values, REDACTED)))
            elif values is not None:
                fields[key] = msgspec.Raw(_ENCODER.encode(REDACTED))
    inner = _RAW_MAP.decode(fields["metadata"])
    raw = inner.get("annotations")
    if raw is not None and bytes(raw) != b"null":
        annotations = _RAW_MAP.decode(raw)
        if annotations.pop(_LAST_APPLIED, None) is not None:
            inner["annotations"] = msgspec.Raw(_ENCODER.encode(annotations))
            fields["metadata"] = msgspec.Raw(_ENCODER.encode(inner))
    return fields
