"""Content encodings of a body: none, or gzip of any number of members. Bytes in, bytes out.

httpx's own decoder stops after the first gzip member and drops the rest in silence, while a server that
compresses a watch ends a member at every flush (list-watch.md §0.1). So raw bytes are read, and decoded here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from syncd.core.errors import ProtocolError

_PIECE = 1 << 20  # bytes; what one call may inflate to, whatever a chunk's ratio
_GZIP = 31  # zlib's window bits for a gzip header and trailer


class Plain:
    """Passes bytes on."""

    complete = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data


class Gunzip:
    """Inflates every member. `complete` says whether the last one has ended."""

    def __init__(self) -> None:
        self._member: zlib._Decompress | None = None

    @property
    def complete(self) -> bool:
        return self._member is None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What the bytes inflate to, in pieces of at most 1 MiB.

        Raises:
            ProtocolError: this is not gzip.
        """
        more = False
        while data or more:
            if self._member is None:
                self._member = zlib.decompressobj(_GZIP)
            try:
                piece = self._member.decompress(data, _PIECE)
            except zlib.error as exc:
                raise ProtocolError(f"a gzip body cannot be decoded: {exc}") from exc
            if piece:
                yield piece
            if self._member.eof:
                data, more = self._member.unused_data, False
                self._member = None
            else:
                data, more = self._member.unconsumed_tail, len(piece) == _PIECE


def decoder(content_encoding: str) -> Plain | Gunzip:
    """The decoder for a Content-Encoding header.

    Raises:
        ProtocolError: an encoding that was not asked for.
    """
    match content_encoding.strip().lower():
        case "" | "identity":
            return Plain()
        case "gzip" | "x-gzip":
            return Gunzip()
        case other:
            raise ProtocolError(f"the server sent Content-Encoding {other[:40]!r}, which was not asked for")
