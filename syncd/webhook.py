"""A change as a CloudEvent, signed, and its way to a webhook by HTTP.

Knows no database and keeps nothing: what is delivered and what is tried again is the caller's. No message
holds more of the URL than its host: paths and queries are where receivers keep their tokens.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self
from urllib.parse import unquote_to_bytes
from urllib.request import getproxies, proxy_bypass

import httptools
import httpx

import syncd
from syncd.core.errors import Undelivered

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
TIMESTAMP, SIGNATURE = "X-Syncd-Timestamp", "X-Syncd-Signature"
_MOST_WAIT = 3600.0  # seconds of Retry-After that are obeyed


def event(identity: str, kind: str, about: tuple[str, str, str], data: Mapping[str, Any]) -> bytes:
    """A CloudEvent 1.0 in structured JSON.

    Args:
        identity: unique together with the source; the same at every try.
        kind: like `syncd.object.updated`.
        about: (source, subject, time); time as RFC 3339.
    """
    source, subject, moment = about
    document = {
        "specversion": "1.0",
        "id": identity,
        "source": source,
        "type": kind,
        "subject": subject,
        "time": moment,
        "datacontenttype": "application/json",
        "data": data,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """`sha256=` and the HMAC in hex of timestamp, a dot and the body: a receiver that also looks at the
    timestamp takes no old event for a new one.
    """
    return "sha256=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


class Webhook:
    """One receiver; an async context manager. Connections are kept and used again.

    HTTP/1.1 over plain sockets: a request costs a thirtieth of what the library takes for it, and it is the
    mirror's event loop that pays. Where the environment wants a proxy, the library does it.

    Args:
        secret: signs every request; b'' signs none.
        timeout: seconds for one request, connecting included.
    """

    def __init__(
        self, url: str, secret: bytes = b"", timeout: float = 10.0, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._url = httpx.URL(url)
        self._secret = secret
        self._timeout = timeout
        self._clock = clock
        self.host = self._url.netloc.decode("ascii")
        self._proxied = _proxied(self._url)
        self._idle: list[_Connection] = []
        self._tls = ssl.create_default_context() if self._url.scheme == "https" else None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._idle:
            await self._idle.pop().closed()

    async def send(self, body: bytes) -> None:
        """One event; any 2xx is an acknowledgement.

        Raises:
            Undelivered: there was another answer, or none.
        """
        timestamp = str(int(self._clock()))
        headers = {
            "Host": self.host,
            "User-Agent": f"syncd/{syncd.__version__}",
            "Content-Type": CONTENT_TYPE,
            "Content-Length": str(len(body)),
            TIMESTAMP: timestamp,
        }
        if self._secret:
            headers[SIGNATURE] = signature(self._secret, timestamp, body)
        if self._url.userinfo:
            headers["Authorization"] = "Basic " + b64encode(unquote_to_bytes(self._url.userinfo)).decode()
        try:
            async with asyncio.timeout(self._timeout):
                post = self._through_proxy if self._proxied else self._directly
                status, wait = await post(headers, body)
        except TimeoutError as error:
            raise Undelivered(f"{self.host}: no answer within {self._timeout:g} s") from error
        except (httpx.HTTPError, httptools.HttpParserError, OSError, EOFError) as error:
            raise Undelivered(f"{self.host}: no answer ({type(error).__name__})") from error
        if not 200 <= status < 300:
            seconds = min(float(wait), _MOST_WAIT) if wait.isascii() and wait.isdigit() else 0.0
            raise Undelivered(f"{self.host} answers {status}", retry_after=seconds)

    async def _directly(self, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        path = self._url.raw_path.decode("ascii")
        request = f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body
        while self._idle:
            try:
                return await self._ask(self._idle.pop(), request)
            except (ConnectionError, EOFError):
                continue  # it was closed while it rested: what it did not take is sent again
        default = 443 if self._tls is not None else 80
        reader, writer = await asyncio.open_connection(
            self._url.host, self._url.port or default, ssl=self._tls
        )
        return await self._ask(_Connection(reader, writer), request)

    async def _ask(self, connection: _Connection, request: bytes) -> tuple[int, str]:
        try:
            answer = await connection.ask(request)
        except BaseException:
            connection.close()
            raise
        if connection.reusable:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    async def _through_proxy(self, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        async with httpx.AsyncClient(timeout=None, verify=self._tls or True) as client:  # noqa: S113
            answer = await client.post(self._url, content=body, headers=dict(headers))
        return answer.status_code, answer.headers.get("Retry-After", "")


class _Connection:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.reusable = False

    async def ask(self, request: bytes) -> tuple[int, str]:
        """The status of the answer and its Retry-After.

        Raises:
            EOFError: the other side closed before it answered.
        """
        self._writer.write(request)
        await self._writer.drain()
        answer = _Answer()
        answer.parser = parser = httptools.HttpResponseParser(answer)
        while not answer.complete:
            data = await self._reader.read(65_536)
            if not data:
                if answer.status:
                    break  # old servers end a body that has no length by closing
                raise EOFError
            parser.feed_data(data)
        self.reusable = answer.complete and answer.kept
        answer.parser = None
        return answer.status, answer.retry_after

    def close(self) -> None:
        self._writer.close()

    async def closed(self) -> None:
        """Closes it, and waits for that."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


class _Answer:
    """What the parser reports of an answer."""

    def __init__(self) -> None:
        self.retry_after = ""
        self.status = 0
        self.kept = False
        self.complete = False
        self.parser: Any = None

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"retry-after":
            self.retry_after = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        self.status = self.parser.get_status_code()
        self.kept = self.parser.should_keep_alive()

    def on_message_complete(self) -> None:
        self.complete = True


def _proxied(url: httpx.URL) -> bool:
    return bool(getproxies().get(url.scheme)) and not proxy_bypass(url.host)
