"""From kubeconfig files, or a pod's service account, to one Connection.

Reads files and nothing else: no network, no environment but the mapping it is given. The rules are those of
client-go (list-watch.md §10). Every error is a ConfigError that names the file, the entry and the next step,
and none quotes a value that could be a secret.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from syncd.core.errors import ConfigError
from syncd.kube.auth import Credentials, TokenFile
from syncd.kube.connection import Connection
from syncd.kube.extent import excess
from syncd.kube.proxy import environment_proxy
from syncd.kube.section import Section
from syncd.kube.user import credentials, impersonation

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LOADER: type[yaml.SafeLoader] | type[yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KINDS = {"clusters": "cluster", "users": "user", "contexts": "context"}


@dataclass(slots=True)
class _Merged:
    """The files laid over each other: of each name the first file's entry whole."""

    entries: dict[str, dict[str, Section]] = field(default_factory=lambda: {key: {} for key in _KINDS})
    current: str = ""
    files: list[Path] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.current) or any(self.entries.values())

    def find(self, key: str, name: str, wanted_by: str) -> Section:
        found = self.entries[key].get(name)
        if found is None:
            known = ", ".join(sorted(self.entries[key])) or "none"
            raise ConfigError(
                f"{_listed(self.files)}: there is no {_KINDS[key]} {name!r}, which {wanted_by} names; "
                f"known: {known}"
            )
        return found


def load_connection(
    kubeconfig: str | None,
    context: str | None,
    *,
    environ: Mapping[str, str],
    home: Path,
    service_account: Path = SERVICE_ACCOUNT,
    exec_allowed: Collection[str] | None = None,
) -> Connection:
    """The connection that a kubeconfig and a context mean.

    Args:
        kubeconfig: a path that must exist; None: the list in $KUBECONFIG (missing files skipped), else
            `home`/.kube/config, else, when those hold nothing, the pod's service account.
        context: a context's name; None: current-context.
        environ: the process's environment; also names the proxy where the cluster entry does not.
        exec_allowed: the commands that an exec entry may run, None for any. A name allows that name, to be
            found in $PATH; an absolute path allows that file, which a bare name then means.

    Raises:
        ConfigError: no usable configuration.
    """
    paths = kubeconfig_files(kubeconfig, environ, home)
    merged = _merge(paths, required=kubeconfig is not None)
    if merged or kubeconfig is not None:
        return _from_context(merged, context, environ, exec_allowed)
    if context is not None:
        raise ConfigError(f"there is no context {context!r}: no kubeconfig was found at {_listed(paths)}")
    if environ.get("KUBERNETES_SERVICE_HOST") and environ.get("KUBERNETES_SERVICE_PORT"):
        return _in_cluster(environ, service_account)
    raise ConfigError(
        f"no kubeconfig was found at {_listed(paths)} and this is not a pod: set `kubeconfig` or $KUBECONFIG"
    )


def kubeconfig_files(kubeconfig: str | None, environ: Mapping[str, str], home: Path) -> list[Path]:
    """The files that `load_connection` reads, whether they are there or not."""
    if kubeconfig is not None:
        return [_expand(kubeconfig, home)]
    listed = [part for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        return list(dict.fromkeys(_expand(part, home) for part in listed))
    return [home / ".kube" / "config"]


def _expand(path: str, home: Path) -> Path:
    return home / path[2:] if path.startswith("~/") else Path(path)


def _listed(paths: Sequence[Path]) -> str:
    return ", ".join(str(path) for path in paths)


def _merge(paths: Sequence[Path], *, required: bool) -> _Merged:
    merged = _Merged()
    for path in paths:
        document = _read(path, required=required)
        if document is None:
            continue
        merged.files.append(path)
        top = Section(path, "", document)
        merged.current = merged.current or top.text("current-context")
        for key, kind in _KINDS.items():
            for name, entry in _named(top, key, kind).items():
                merged.entries[key].setdefault(name, entry)
    return merged


def _read(path: Path, *, required: bool) -> dict[str, object] | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if not required:
            return None
        raise ConfigError(f"{path}: there is no such kubeconfig: correct `kubeconfig`") from None
    except OSError as exc:
        raise ConfigError(f"{path}: the kubeconfig cannot be read: {exc.strerror}") from exc
    try:
        too_much = excess(yaml.parse(data, Loader=_LOADER))
        if too_much:
            raise ConfigError(f"{path}: this is not a kubeconfig: {too_much}")
        document = yaml.load(data, Loader=_LOADER)  # noqa: S506 (always a safe loader)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{path}{where}: this is not YAML") from None  # PyYAML quotes the line: a secret?
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        raise ConfigError(f"{path}: this is not YAML") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: this is not a kubeconfig: its top must be a mapping")
    return document


def _named(top: Section, key: str, kind: str) -> dict[str, Section]:
    """The entries of a list of `{name, cluster|user|context}`."""
    found: dict[str, Section] = {}
    for index, element in enumerate(top.items(key)):
        entry = Section(top.file, f"{key}[{index}]", element)
        name = entry.text("name")
        if not name:
            raise entry.error("name", "is missing")
        if name in found:
            raise entry.error("name", f"{name!r} is there twice in this file: remove one")
        found[name] = Section(top.file, f"{kind} {name!r}", entry.mapping(kind))
    return found


def _from_context(
    merged: _Merged, name: str | None, environ: Mapping[str, str], exec_allowed: Collection[str] | None
) -> Connection:
    wanted_by = "current-context" if name is None else "the configuration's `context`"
    name = name or merged.current
    if not name:
        known = ", ".join(sorted(merged.entries["contexts"]))
        if not known:
            raise ConfigError(f"{_listed(merged.files)}: no context in it: is it a kubeconfig?")
        raise ConfigError(
            f"{_listed(merged.files)}: no current-context: set it, or `context`, to one of: {known}"
        )
    context = merged.find("contexts", name, wanted_by)
    cluster_name, user_name = context.text("cluster"), context.text("user")
    if not cluster_name:
        raise context.error("cluster", "is missing")
    cluster = merged.find("clusters", cluster_name, context.what)
    user = merged.find("users", user_name, context.what) if user_name else Section(context.file, "", {})
    who = user.what or "no user"
    login = credentials(user, cluster, exec_allowed)
    with cluster.blame(f"{context.what}, {cluster.what}, {who}"):
        server = _server(cluster, login)
        proxy = cluster.text("proxy-url")
        authority = cluster.material("certificate-authority")
        return Connection(
            name=name,
            server=server,
            ca_data=authority if isinstance(authority, bytes) else None,
            ca_file=authority if isinstance(authority, Path) else None,
            insecure_skip_tls_verify=cluster.flag("insecure-skip-tls-verify"),
            tls_server_name=cluster.text("tls-server-name"),
            proxy_url=proxy or environment_proxy(server, environ),
            disable_compression=cluster.flag("disable-compression"),
            credentials=login,
            impersonation=impersonation(user),
            namespace=context.text("namespace") or "default",
            origin=str(cluster.file),
        )


def _server(cluster: Section, login: Credentials) -> str:
    """The server's URL; without a scheme it is https where anything about TLS is set, as in client-go."""
    server = cluster.text("server")
    if not server:
        raise cluster.error("server", "is missing: write https://host:port")
    if "://" in server:
        return server
    tls = login.certificate or any(
        cluster.body.get(key)
        for key in ("certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify")
    )
    return f"{'https' if tls else 'http'}://{server}"


def _in_cluster(environ: Mapping[str, str], account: Path) -> Connection:
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
    token, authority = account / "token", account / "ca.crt"
    if not token.is_file():
        raise ConfigError(
            f"{token}: this pod has no service account token: "
            "set automountServiceAccountToken, or `kubeconfig` to a file"
        )
    namespace = account / "namespace"
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    with Section(account, "", {}).blame("in-cluster"):
        return Connection(
            name="in-cluster",
            server=server,
            ca_file=authority if authority.is_file() else None,
            proxy_url=environment_proxy(server, environ),
            credentials=Credentials(TokenFile(token)),
            namespace=(namespace.read_text().strip() if namespace.is_file() else "") or "default",
            origin=str(account),
        )
