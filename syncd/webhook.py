"""A change as a CloudEvent, signed, and its way to a webhook by HTTP.

Knows no database and keeps nothing: what is delivered and what is tried again is the caller's. No message
holds more of the URL than its host: paths and queries are where receivers keep their tokens.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Self
from urllib.parse import urlsplit

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
    """One receiver; an async context manager.

    Args:
        secret: signs every request; b'' signs none.
        timeout: seconds for connecting, and for each wait of an answer.
    """

    def __init__(
        self, url: str, secret: bytes = b"", timeout: float = 10.0, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._url = url
        self._secret = secret
        self._clock = clock
        self.host = urlsplit(url).netloc.rpartition("@")[2]
        self._client = httpx.AsyncClient(
            timeout=timeout, headers={"User-Agent": f"syncd/{syncd.__version__}"}, follow_redirects=False
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def send(self, body: bytes) -> None:
        """One event; any 2xx is an acknowledgement.

        Raises:
            Undelivered: there was another answer, or none.
        """
        timestamp = str(int(self._clock()))
        headers = {"Content-Type": CONTENT_TYPE, TIMESTAMP: timestamp}
        if self._secret:
            headers[SIGNATURE] = signature(self._secret, timestamp, body)
        try:
            answer = await self._client.post(self._url, content=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise Undelivered(f"{self.host}: {_described(error)}") from error
        if not answer.is_success:
            wait = answer.headers.get("Retry-After", "")
            seconds = min(float(wait), _MOST_WAIT) if wait.isascii() and wait.isdigit() else 0.0
            raise Undelivered(f"{self.host} answers {answer.status_code}", retry_after=seconds)


def _described(error: Exception) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return "timed out while connecting"
    if isinstance(error, httpx.TimeoutException):
        return "timed out while waiting for the answer"
    return f"no answer ({type(error).__name__})"
