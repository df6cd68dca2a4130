"""Between the simulator and the product: answers are split, joined, compressed, emptied or altered on their
way, as proxies and other servers do it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from syncd.simulator.api import ASGIScope, Receive, Send
from tests.conformance.writer import Json


class Wire:
    """What becomes of the answers about configmaps to the product; the writer of the tests is left alone.

    Attributes:
        pieces: cuts what a watch writes.
        line: alters each line of a watch.
        page: alters a page of a list; it is given the page and the token that was asked for. Probes pass.
        compressed: watches are compressed, a gzip member for each piece, though nobody asked for it.
        mute: watches end as soon as they have begun.
        held: what watches write is kept back, and comes in one piece with the next after this is cleared.
        kept: bytes that are.
        encodings: the Accept-Encoding of each watch.
    """

    def __init__(self) -> None:
        self.pieces: Callable[[bytes], Iterable[bytes]] = lambda data: [data]
        self.line: Callable[[bytes], bytes] = lambda line: line
        self.page: Callable[[Json, str], Json] | None = None
        self.compressed = False
        self.mute = False
        self.held = False
        self.kept = 0
        self.encodings: list[str] = []

    def around(self, app: Any) -> Any:
        """The application, with this wire before it."""

        async def meddled(scope: ASGIScope, receive: Receive, send: Send) -> None:
            headers = dict(scope["headers"])
            query = parse_qs(scope["query_string"].decode())
            product = headers.get(b"user-agent", b"").startswith(b"syncd/")
            if not product or not scope["path"].endswith("/configmaps"):
                await app(scope, receive, send)
            elif "watch" in query:
                self.encodings.append(headers.get(b"accept-encoding", b"").decode())
                await app(scope, receive, self._watch(send))
            elif self.page is not None and query.get("limit") != ["1"]:
                await app(scope, receive, self._list(send, "".join(query.get("continue", []))))
            else:
                await app(scope, receive, send)

        return meddled

    def _watch(self, send: Send) -> Send:
        kept = bytearray()

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                if self.compressed:
                    message["headers"] = [*message["headers"], (b"content-encoding", b"gzip")]
                await send(message)
                if self.mute:
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            kept.extend(message.get("body", b""))
            if self.held and message.get("more_body"):
                self.kept = len(kept)
                return
            whole = bytes(kept)
            kept.clear()
            altered = b"".join(self.line(line) for line in whole.splitlines(keepends=True))
            for piece in self.pieces(altered):
                data = gzip.compress(piece) if self.compressed else piece
                await send({"type": "http.response.body", "body": data, "more_body": True})
            if not message.get("more_body"):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        return sent

    def _list(self, send: Send, token: str) -> Send:
        kept = bytearray()
        status = 200

        async def sent(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                kept_headers = [pair for pair in message["headers"] if pair[0].lower() != b"content-length"]
                await send({**message, "headers": kept_headers})
                return
            kept.extend(message.get("body", b""))
            if message.get("more_body"):
                return
            body = bytes(kept)
            if status == 200 and self.page is not None:
                body = json.dumps(self.page(json.loads(body), token)).encode()
            await send({"type": "http.response.body", "body": body, "more_body": False})

        return sent
