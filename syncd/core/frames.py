"""From the body's bytes to frames: the lines of a watch and the envelope of a list page.

Only envelopes are decoded here; objects stay raw until `syncd.core.document` opens them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from syncd.core.errors import UNDECODABLE, ApiError, ProtocolError
from syncd.core.mending import decoded
from syncd.core.status import api_error

MAX_LINE = 64 * 1024 * 1024
"""Bytes. etcd bounds an object at about 1.5 MiB and JSON is bigger; list-watch.md §4 asks for 32 MiB at
least. What is longer is not an event but a fault."""


class LineSplitter:
    """Cuts a byte stream into lines at b"\\n" alone.

    `str.splitlines` and httpx's `aiter_lines` also cut at U+0085 and U+2028, which JSON strings hold
    (list-watch.md §0.2). A trailing line without its newline is never given: the stream was cut.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines completed by this chunk, without their newline; blank ones are dropped.

        Raises:
            ProtocolError: a line is longer than the limit.
        """
        head, newline, rest = chunk.partition(b"\n")
        if not newline:
            self._keep(chunk)
            return []
        self._parts.append(head)
        lines = [b"".join(self._parts)]
        self._parts, self._size = [], 0
        if rest:
            *complete, tail = rest.split(b"\n")
            lines += complete
            if tail:
                self._keep(tail)
        return [line for line in lines if line and not line.isspace()]

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            raise ProtocolError(f"a watch line is longer than {self._limit} bytes")
        self._parts.append(part)


class EventType(StrEnum):
    """The types of watch events; others are skipped without moving the version."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class _EventEnvelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _BookmarkMeta(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


_EVENT = msgspec.json.Decoder(_EventEnvelope)
_BOOKMARK = msgspec.json.Decoder(_Bookmark)
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a watch: a type and the raw object, which is decoded by who needs it."""

    type: EventType
    raw: bytes

    def bookmark(self) -> tuple[str, bool]:
        """A BOOKMARK's version, and whether it ends the initial events. Nothing else in it means
        anything: required fields may be empty and timestamps null (list-watch.md §4).

        Raises:
            ProtocolError: it carries no version.
        """
        try:
            metadata = _BOOKMARK.decode(self.raw).metadata
        except UNDECODABLE as error:
            raise ProtocolError(f"a bookmark without metadata: {error}") from error
        if metadata.resourceVersion in ("", "0"):
            raise ProtocolError("a bookmark without a resourceVersion")
        return metadata.resourceVersion, (metadata.annotations or {}).get(_INITIAL_EVENTS_END) == "true"

    def error(self) -> ApiError:
        """The error that an ERROR event means."""
        return api_error(self.raw)


def parse_frame(line: bytes) -> Frame | None:
    """The frame of one watch line; None where the type is unknown.

    Raises:
        ProtocolError: the line is not an event.
    """
    try:
        envelope = decoded(_EVENT, line)
    except UNDECODABLE as error:
        raise ProtocolError(f"not a watch event ({len(line)} bytes): {error}") from error
    try:
        kind = EventType(envelope.type)
    except ValueError:
        return None
    return Frame(kind, bytes(envelope.object))


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815
    continue_token: str = msgspec.field(default="", name="continue")
    remainingItemCount: int | None = None  # noqa: N815


class _ListEnvelope(msgspec.Struct):
    kind: str
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


_LIST = msgspec.json.Decoder(_ListEnvelope)

UNVERSIONED = "0"
"""What stands for the version of a list that has none."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: its version, the token of the next page (None on the last), raw items.

    `remaining` is the server's estimate, absent with selectors.
    """

    resource_version: str
    continue_token: str | None
    remaining: int | None
    items: list[msgspec.Raw]
    size: int


def parse_page(body: bytes, *, versioned: bool = True) -> Page:
    """The envelope of a complete list body, whatever the order of its keys: built-in lists put metadata
    before the items, custom resources after them (list-watch.md §3). Its kind says nothing: a definition's
    `listKind` need not end in List. What makes it a list is that it has items, be they null.

    Args:
        versioned: refuse a list without a version. Some resources that cannot be watched (metrics,
            componentstatuses) have none; theirs is "0", which compares with nothing.

    Raises:
        ProtocolError: not a list, or a list without a version: nothing may be concluded from it.
    """
    try:
        envelope = decoded(_LIST, body)
    except UNDECODABLE as error:
        raise ProtocolError(f"not a list ({len(body)} bytes): {error}") from error
    metadata = envelope.metadata
    if metadata.resourceVersion in ("", "0") and versioned:
        raise ProtocolError(f"a {envelope.kind} without a resourceVersion")
    return Page(
        resource_version=metadata.resourceVersion or UNVERSIONED,
        continue_token=metadata.continue_token or None,
        remaining=metadata.remainingItemCount,
        items=envelope.items or [],
        size=len(body),
    )
