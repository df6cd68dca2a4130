"""How the benchmark's own processes reach a cluster: by a kubeconfig, as syncd reads it, with curl or not.

An `Access` is a snapshot of the credential: make another where a token may have come to its end.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from syncd.core.errors import SyncdError
from syncd.kube import exec as plugin
from syncd.kube.auth import ClientCertificate, Credentials, Exec
from syncd.kube.authenticator import Authenticator
from syncd.kube.connection import Connection
from syncd.kube.exec_login import ExecLogin, Headers
from syncd.kube.kubeconfig import load_connection
from syncd.kube.tls import tls_context

AGENT = "syncd-bench"  # for curl's own name many a server indents its JSON
JSON = "application/json"
MERGE = "application/merge-patch+json"
LOGIN = 60.0  # seconds that an exec plugin may take


class Access:
    """One API server, and what it wants to see of us.

    Args:
        kubeconfig: a file.
        context: '' is its current one.
    """

    def __init__(self, kubeconfig: Path, context: str = "") -> None:
        try:
            found = load_connection(str(kubeconfig), context or None, environ=os.environ, home=Path.home())
            if found.proxy_url or found.tls_server_name:
                raise SystemExit("the benchmark goes through no proxy and knows no tls-server-name")
            self.connection, self._headers = asyncio.run(_proven(found))
            self._tls = tls_context(self.connection)
        except SyncdError as error:
            raise SystemExit(str(error)) from None
        self.url = self.connection.server
        self._origin = "{0.scheme}://{0.netloc}".format(urlsplit(self.url))

    def open(self) -> http.client.HTTPConnection:
        """A connection, which opens itself again where it was closed."""
        address = urlsplit(self.url)
        if address.scheme == "http":
            return http.client.HTTPConnection(address.hostname or "", address.port)
        return http.client.HTTPSConnection(address.hostname or "", address.port, context=self._tls)

    def ask(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        url: str,
        body: bytes = b"",
        *,
        kind: str = JSON,
        accept: str = JSON,
    ) -> http.client.HTTPResponse:
        """One request."""
        connection.putrequest(method, url.removeprefix(self._origin))
        for name, value in (("Accept", accept), *self._headers):
            connection.putheader(name, value)
        if body:
            connection.putheader("Content-Type", kind)
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        return connection.getresponse()

    def curl(self, directory: Path) -> list[str]:
        """The command that a URL is missing to, with its secrets in files of the directory."""
        connection, lines = self.connection, ['noproxy = "*"']
        lines += [_line("header", f"{name}: {value}") for name, value in self._headers]
        authority = connection.ca_data if connection.ca_data is not None else connection.ca_file
        if authority is not None:
            lines.append(_line("cacert", _file(directory / "ca.pem", authority)))
        if connection.insecure_skip_tls_verify:
            lines.append("insecure")
        if (pair := connection.credentials.certificate) is not None:
            lines.append(_line("cert", _file(directory / "client.pem", pair.certificate)))
            lines.append(_line("key", _file(directory / "client.key", pair.key)))
        config = _file(directory / "curl", "\n".join(lines).encode())
        return ["curl", "--silent", "--config", config]


async def _proven(connection: Connection) -> tuple[Connection, Headers]:
    """The connection with the certificate that a plugin may have given, and the headers of its requests."""
    login, shown = connection.credentials.login, connection.credentials.certificate

    async def present(certificate: ClientCertificate | None) -> None:
        nonlocal shown
        shown = certificate

    runner = None
    if isinstance(login, Exec):
        runner = ExecLogin(
            login,
            request=lambda: plugin.request(login, connection),
            present=present,
            on_problem=lambda text: print(text, file=sys.stderr),
            timeout=LOGIN,
        )
    authenticator = Authenticator(login, runner)
    try:
        proof = await authenticator.proof()
    finally:
        await authenticator.aclose()
    headers = [("User-Agent", AGENT), *connection.impersonation.headers(), *proof.headers]
    return replace(connection, credentials=Credentials(login, shown)), headers


def _line(key: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{key} = "{escaped}"'


def _file(path: Path, material: bytes | Path) -> str:
    """The path of the material, which is written where it is not a file yet, for us alone."""
    if isinstance(material, Path):
        return str(material)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(material)
    return str(path)
