"""Which cluster this is, and which version it runs."""

from __future__ import annotations

import hashlib

import msgspec

from syncd.core.errors import ConfigError, Forbidden, ProtocolError
from syncd.kube.client import KubeClient
from syncd.kube.connection import Connection


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Namespace(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


async def cluster_identity(client: KubeClient) -> tuple[str, bool]:
    """(uid, weak): the uid of namespace kube-system; where that is forbidden, a hash of authority and URL,
    which a new authority or address changes (list-watch.md §6.1).

    Raises:
        ApiError, ConnectionLost, ProtocolError
        ConfigError: the authority's file cannot be read.
    """
    try:
        body = await client.get("/api/v1/namespaces/kube-system")
    except Forbidden:
        return _address_hash(client.connection), True
    try:
        uid = msgspec.json.decode(body, type=_Namespace).metadata.uid
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ProtocolError(f"the namespace kube-system cannot be read: {exc}") from exc
    if not uid:
        raise ProtocolError("the namespace kube-system has no uid")
    return uid, False


def _address_hash(connection: Connection) -> str:
    authority = connection.ca_data
    if authority is None and connection.ca_file is not None:
        try:
            authority = connection.ca_file.read_bytes()
        except OSError as exc:  # a guess would be another cluster
            raise ConfigError(f"{connection.ca_file} cannot be read: {exc.strerror}") from exc
    digest = hashlib.sha256(connection.server.encode() + b"\0" + (authority or b""))
    return f"weak-{digest.hexdigest()[:32]}"


async def server_version(client: KubeClient) -> str:
    """The server's gitVersion, such as v1.36.2.

    Raises:
        ApiError, ConnectionLost, ProtocolError
    """
    body = await client.get("/version")
    try:
        return msgspec.json.decode(body, type=_Version).git_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ProtocolError(f"/version cannot be read: {exc}") from exc
