"""From a kubeconfig's user entry to credentials and impersonation. No I/O.

What this version cannot do is refused here by name, and only where nothing else would log in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from syncd.core.secrecy import printable
from syncd.kube.auth import Basic, ClientCertificate, Credentials, Exec, Login, Token, TokenFile
from syncd.kube.connection import Impersonation
from syncd.kube.exec import VERSIONS
from syncd.kube.section import Section

_EXTENSION = "client.authentication.k8s.io/exec"
_HINT_LIMIT = 512  # characters of an installHint

_REPLACEMENTS = {
    "gcp": "it was removed from Kubernetes: install gke-gcloud-auth-plugin",
    "azure": "it was removed from Kubernetes: install kubelogin",
    "oidc": "use an exec plugin such as kubectl oidc-login",
}


def credentials(user: Section, cluster: Section, exec_allowed: Collection[str] | None = None) -> Credentials:
    """What the entry logs in with; no credentials at all for an empty one. An exec plugin stands back where
    there is anything else.

    Args:
        cluster: whose extension configures an exec plugin.
        exec_allowed: see `load_connection`.

    Raises:
        ConfigError: contradictory, incomplete or unsupported.
    """
    with user.blame(user.what):
        found = Credentials(_login(user), _certificate(user))
    if found:
        return found
    if user.body.get("exec") is not None:
        return Credentials(_exec(user, cluster, exec_allowed))
    _refuse_provider(user)
    return found


def impersonation(user: Section) -> Impersonation:
    """The entry's as, as-uid, as-groups and as-user-extra."""
    extra = Section(user.file, f"{user.what}: as-user-extra", user.mapping("as-user-extra"))
    with user.blame(user.what):
        return Impersonation(
            user=user.text("as"),
            uid=user.text("as-uid"),
            groups=user.texts("as-groups"),
            extra={key: extra.texts(key) for key in extra.body},
        )


def _login(user: Section) -> Login | None:
    token, token_file = user.text("token").strip(), user.path("tokenFile")
    username, password = user.text("username"), user.text("password")
    if (username or password) and (token or token_file):
        raise user.error("username", "and a token are both set: keep one way to log in")
    if token_file is not None:
        return TokenFile(token_file, Token(token).value if token else "")
    if token:
        return Token(token)
    return Basic(username, password) if username or password else None


def _certificate(user: Section) -> ClientCertificate | None:
    certificate, key = user.material("client-certificate"), user.material("client-key")
    if certificate is None and key is None:
        return None
    if certificate is None:
        raise user.error("client-certificate", "is missing: client-key is set")
    if key is None:
        raise user.error("client-key", "is missing: client-certificate is set")
    return ClientCertificate(certificate, key)


def _exec(user: Section, cluster: Section, allowed: Collection[str] | None) -> Exec:
    plugin = Section(user.file, f"{user.what}: exec", user.mapping("exec"))
    version = plugin.text("apiVersion")
    if version not in VERSIONS:
        raise plugin.error("apiVersion", f"must be {VERSIONS[0]} or {VERSIONS[1]}: renew the kubeconfig")
    _check_interactive(plugin, needed=version == VERSIONS[0])
    provided = plugin.flag("provideClusterInfo")
    return Exec(
        api_version=version,
        command=_command(plugin, allowed),
        args=plugin.texts("args"),
        env=tuple(_variables(plugin)),
        install_hint=printable(plugin.text("installHint"))[:_HINT_LIMIT],
        provide_cluster_info=provided,
        cluster_config=_cluster_config(cluster) if provided else b"",
    )


def _check_interactive(plugin: Section, *, needed: bool) -> None:
    mode = plugin.text("interactiveMode")
    if mode == "Always":
        raise plugin.error(
            "interactiveMode",
            "is Always, but a daemon has no terminal to ask anybody: use a command that can log in by itself",
        )
    if mode not in ("Never", "IfAvailable") and (mode or needed):
        raise plugin.error("interactiveMode", "must be Never or IfAvailable")


def _command(plugin: Section, allowed: Collection[str] | None) -> str:
    """The command, one with a separator as an absolute path."""
    command = plugin.text("command")
    if not command:
        raise plugin.error("command", "is missing")
    if "/" in command:
        command = str((plugin.file.parent / command).absolute())
    if allowed is None or command in allowed:
        return command
    listed = (
        None if "/" in command else next((each for each in allowed if each.endswith(f"/{command}")), None)
    )
    if listed is None:
        known = ", ".join(sorted(allowed)) or "none"
        raise plugin.error(
            "command",
            f"{command!r} is not among the commands that may be run: {known}; correct it, or add it to "
            "`exec_allowed` in syncd's configuration",
        )
    return listed


def _variables(plugin: Section) -> Iterator[tuple[str, str]]:
    for index, element in enumerate(plugin.items("env")):
        entry = Section(plugin.file, f"{plugin.what}: env[{index}]", element)
        name = entry.text("name")
        if not name or "=" in name:
            raise entry.error("name", "is missing or no name of a variable")
        yield name, entry.text("value")


def _cluster_config(cluster: Section) -> bytes:
    """The cluster's extension for plugins as JSON, empty where there is none."""
    for index, element in enumerate(cluster.items("extensions")):
        entry = Section(cluster.file, f"{cluster.what}: extensions[{index}]", element)
        if entry.text("name") == _EXTENSION and "extension" in element:
            try:
                return msgspec.json.encode(element["extension"])
            except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
                raise entry.error("extension", "cannot be written as JSON") from None
    return b""


def _refuse_provider(user: Section) -> None:
    if user.body.get("auth-provider") is not None:
        provider = Section(user.file, f"{user.what}: auth-provider", user.mapping("auth-provider"))
        name = provider.text("name")
        hint = _REPLACEMENTS.get(name, "use an exec plugin, a token, a tokenFile or a client certificate")
        raise user.error("auth-provider", f"{name!r} is not supported: {hint}")
