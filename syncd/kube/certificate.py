"""When certificates expire: the one we log in with, and the one that the server shows."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from datetime import datetime
from pathlib import Path

import httpx
from cryptography import x509

from syncd.core.errors import ConfigError
from syncd.kube.connection import Connection
from syncd.kube.tls import tls_context

_SECONDS = 10.0


def client_expiry(connection: Connection) -> datetime | None:
    """The end (aware UTC) of the configured client certificate, None where there is none.

    Raises:
        ConfigError: it cannot be read.
    """
    pair = connection.credentials.certificate
    if pair is None:
        return None
    try:
        data = pair.certificate.read_bytes() if isinstance(pair.certificate, Path) else pair.certificate
        return x509.load_pem_x509_certificate(data).not_valid_after_utc
    except (OSError, ValueError) as error:
        raise ConfigError(f"the client certificate cannot be read: {error}") from error


async def server_expiry(connection: Connection) -> datetime | None:
    """The end (aware UTC) of the certificate that the server shows; None without TLS, through a proxy, or
    where no handshake comes about.
    """
    url = httpx.URL(connection.server)
    if url.scheme != "https" or connection.proxy_url:
        return None
    try:
        async with asyncio.timeout(_SECONDS):
            _, writer = await asyncio.open_connection(
                url.host,
                url.port or 443,
                ssl=tls_context(connection),
                server_hostname=connection.tls_server_name or url.host,
            )
            try:
                shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
        return x509.load_der_x509_certificate(shown).not_valid_after_utc
    except (OSError, ssl.SSLError, TimeoutError, ValueError, TypeError):
        return None
