"""What is said to an exec plugin and what it answers: documents in, values out (list-watch.md §10).

Runs nothing. Nothing that a plugin printed on stdout gets into a message, and of stderr only the last line,
cut short and without what looks like a credential.
"""

from __future__ import annotations

import base64
import re
import signal
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

import msgspec

from syncd.core.errors import UNDECODABLE, ConfigError, LoginFailed
from syncd.core.secrecy import CUT, printable, without_keys
from syncd.kube.auth import ClientCertificate, Exec, Token
from syncd.kube.connection import Connection
from syncd.kube.process import Ended

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
_KIND = "ExecCredential"
_SHOWN = 256  # characters of stderr; as much as of a Status' message
_SECRET_NAME = re.compile(r"(?i)pass|pwd|token|secret|key|credential")
_SHORTEST_SECRET = 4  # a shorter value is a word of every message
_SHORTEST_WORD = 6  # of stdout that stderr repeats: a token's part, and not the "1" of a v1
_LINE_READ = 4096  # characters; more of a line is not even looked at
_WORD = re.compile(r"[A-Za-z0-9_~-]*[0-9][A-Za-z0-9_~-]*|[A-Za-z_~-]{20,}")


@dataclass(frozen=True, slots=True)
class Issued:
    """A credential of a plugin: a token, a certificate or both.

    `expires` in seconds since 1970, None for never.
    """

    token: str = field(repr=False)
    certificate: ClientCertificate | None
    expires: float | None


class _Cluster(msgspec.Struct, rename="kebab", omit_defaults=True):
    server: str
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    config: msgspec.Raw | None = None


class _Spec(msgspec.Struct, omit_defaults=True):
    interactive: bool
    cluster: _Cluster | None = None


class _Request(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    spec: _Spec


class _Status(msgspec.Struct, rename="camel"):
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    status: _Status | None = None


_DECODER = msgspec.json.Decoder(_Answer)


def request(plugin: Exec, connection: Connection) -> str:
    """The value of KUBERNETES_EXEC_INFO.

    Raises:
        LoginFailed: the authority's file, which the plugin is to be given, cannot be read.
    """
    cluster = _cluster(plugin, connection) if plugin.provide_cluster_info else None
    document = _Request(plugin.api_version, _KIND, _Spec(interactive=False, cluster=cluster))
    return msgspec.json.encode(document).decode()


def _cluster(plugin: Exec, connection: Connection) -> _Cluster:
    authority = connection.ca_data
    if authority is None and connection.ca_file is not None:
        try:
            authority = connection.ca_file.read_bytes()
        except OSError as exc:
            raise LoginFailed(f"{connection.ca_file} cannot be read: {exc.strerror}") from exc
    return _Cluster(
        server=connection.server,
        tls_server_name=connection.tls_server_name,
        insecure_skip_tls_verify=connection.insecure_skip_tls_verify,
        certificate_authority_data=base64.b64encode(authority or b"").decode(),
        proxy_url=connection.proxy_url,
        disable_compression=connection.disable_compression,
        config=msgspec.Raw(plugin.cluster_config) if plugin.cluster_config else None,
    )


def issued(plugin: Exec, ended: Ended) -> Issued:
    """The credential that a plugin's stdout holds.

    Raises:
        LoginFailed: the command failed, or printed something else.
    """
    if ended.code != 0:
        raise LoginFailed(_failure(plugin, ended))
    try:
        answer = _DECODER.decode(ended.stdout)
    except UNDECODABLE as exc:
        # msgspec names the place and the types, never a value; the cause would still show it to a debugger
        raise LoginFailed(_odd(plugin, f"no {_KIND} in JSON ({printable(str(exc))[:_SHOWN]})")) from None
    if answer.kind != _KIND:
        raise LoginFailed(_odd(plugin, f"a document of another kind than {_KIND}"))
    if answer.api_version != plugin.api_version:
        known = answer.api_version in (*VERSIONS, f"{GROUP}/v1alpha1")
        which = answer.api_version if known else "another apiVersion"
        raise LoginFailed(
            _odd(plugin, f"{which} where the kubeconfig's exec entry says {plugin.api_version}")
        )
    return _credential(plugin, answer.status or _Status())


def _credential(plugin: Exec, status: _Status) -> Issued:
    token = (status.token or "").strip()
    certificate, key = status.client_certificate_data or "", status.client_key_data or ""
    if bool(certificate) != bool(key):
        raise LoginFailed(_odd(plugin, "a client certificate or its key without the other"))
    if not token and not certificate:
        raise LoginFailed(_odd(plugin, f"an {_KIND} with neither a token nor a client certificate"))
    try:
        token = token and Token(token).value
    except ConfigError as exc:
        raise LoginFailed(_odd(plugin, f"an unusable token: {exc}")) from None
    pair = ClientCertificate(certificate.encode(), key.encode()) if certificate else None
    expires = status.expiration_timestamp
    return Issued(token, pair, expires.timestamp() if expires else None)


def _odd(plugin: Exec, what: str) -> str:
    return f"the command {plugin.command!r} printed {what}"


def missing(plugin: Exec) -> str:
    """The message about a command that is not there."""
    hint = f": {plugin.install_hint}" if plugin.install_hint else ": install it, or correct exec.command"
    return f"the command {plugin.command!r} is not there or may not be executed{hint}"


def _failure(plugin: Exec, ended: Ended) -> str:
    line = _last_line(plugin, ended)
    tail = f": {line}" if line else ": it wrote nothing to stderr, try it by hand"
    return f"the command {plugin.command!r} {_fate(ended)}{tail}"


def _fate(ended: Ended) -> str:
    if ended.code is None:
        return f"{ended.killed} and was killed"
    if ended.code < 0:
        try:
            return f"was ended by {signal.Signals(-ended.code).name}"
        except ValueError:  # a real-time signal
            return f"was ended by signal {-ended.code}"
    return f"ended with exit code {ended.code}"


def _last_line(plugin: Exec, ended: Ended) -> str:
    """The last line of stderr that is not blank, fit to show."""
    lines = (printable(line) for line in reversed(ended.stderr.decode("utf-8", "replace").splitlines()))
    line = next(filter(None, lines), "")[:_LINE_READ]
    for secret in _given_secrets(plugin):
        line = line.replace(secret, CUT)
    printed = ended.stdout.decode("utf-8", "replace")
    line = _WORD.sub(
        lambda word: CUT if len(word[0]) >= _SHORTEST_WORD and word[0] in printed else word[0], line
    )
    line = without_keys(line)
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _given_secrets(plugin: Exec) -> list[str]:
    """The values of env and args whose names sound secret, longest first."""
    secrets = [value for name, value in plugin.env if _SECRET_NAME.search(name)]
    for before, argument in zip(("", *plugin.args), plugin.args, strict=False):
        name, equals, value = argument.partition("=")
        if equals and _SECRET_NAME.search(name):
            secrets.append(value)
        elif before.startswith("-") and "=" not in before and _SECRET_NAME.search(before):
            secrets.append(argument)
    return sorted((each for each in secrets if len(each) >= _SHORTEST_SECRET), key=len, reverse=True)
