"""TLS as a Connection describes it: a context, and a way to see that its files have changed.

Key material that came as data touches the disk only as a private temporary file, for as long as OpenSSL
reads it.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from syncd.core.errors import ConfigError
from syncd.kube.auth import ClientCertificate
from syncd.kube.connection import Connection

Fingerprint = tuple[tuple[int, int, int] | None, ...]


class _NamedContext(ssl.SSLContext):
    """Asks for, and verifies, one fixed name whatever host the connection goes to.

    Done here and not by httpx's `sni_hostname`, which a connection through a proxy's tunnel ignores.
    """

    server_name: str

    if TYPE_CHECKING:
        wrap_bio: Callable[..., ssl.SSLObject]
    else:

        def wrap_bio(self, incoming, outgoing, server_side=False, server_hostname=None, session=None):
            return super().wrap_bio(incoming, outgoing, server_side, self.server_name, session)


def tls_context(connection: Connection) -> ssl.SSLContext:
    """A context for the connection's server.

    Raises:
        ConfigError: a file cannot be read, or does not hold what it should.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if connection.tls_server_name:
        context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
        context.server_name = connection.tls_server_name
    # Clusters' own authorities often lack the key identifiers that Python 3.13 insists on, and Go takes an
    # intermediate certificate as a root: be as strict as kubectl.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if connection.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif not connection.server.startswith("http://"):  # which needs none: the machine's take a while to read
        _trust(context, connection)
    if connection.credentials.certificate is not None:
        _present(context, connection.credentials.certificate, connection)
    return context


def _trust(context: ssl.SSLContext, connection: Connection) -> None:
    pem = connection.ca_data
    if pem is None and connection.ca_file is not None:
        pem = _read(connection.ca_file, "certificate-authority", connection)
    if pem is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=pem.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as exc:
        source = connection.ca_file if connection.ca_data is None else "certificate-authority-data"
        raise _problem(connection, f"{source} holds no PEM certificate") from exc


def _present(context: ssl.SSLContext, pair: ClientCertificate, connection: Connection) -> None:
    with ExitStack() as stack:
        paths = [
            material if isinstance(material, Path) else stack.enter_context(_private_file(material))
            for material in (pair.certificate, pair.key)
        ]
        try:
            context.load_cert_chain(paths[0], paths[1], password=_no_passphrase)
        except ssl.SSLError as exc:
            raise _problem(
                connection,
                "the client certificate and its key do not fit each other or are not PEM "
                f"({exc.reason or 'unreadable'})",
            ) from None
        except OSError as exc:
            raise _problem(connection, f"a client certificate file cannot be read: {exc.strerror}") from exc


def _no_passphrase() -> str:
    raise ConfigError(
        "the client key is encrypted: a daemon cannot ask for its passphrase, store it decrypted"
    )


@contextmanager
def _private_file(data: bytes) -> Iterator[Path]:
    """A file of mode 0600 with these bytes, gone when the block ends: OpenSSL takes keys only by path."""
    handle, name = tempfile.mkstemp(prefix="syncd-")
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        yield path
    finally:
        path.unlink(missing_ok=True)


def _read(path: Path, key: str, connection: Connection) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise _problem(connection, f"{key} {path} cannot be read: {exc.strerror}") from exc


def _problem(connection: Connection, text: str) -> ConfigError:
    return ConfigError(f"{connection.origin or connection.name}: cluster {connection.name!r}: {text}")


def fingerprint(connection: Connection) -> Fingerprint:
    """(mtime in ns, size, inode) of each file that TLS is built from, None for one that is missing."""
    pair = connection.credentials.certificate
    files: list[Path | bytes | None] = [connection.ca_file if connection.ca_data is None else None]
    if pair is not None:
        files += [pair.certificate, pair.key]
    return tuple(_stamp(file) for file in files if isinstance(file, Path))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
