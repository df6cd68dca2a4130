"""From a kubeconfig's user entry to credentials and impersonation. No I/O.

What this version cannot do is refused here by name, and only where nothing else would log in.
"""

from __future__ import annotations

from syncd.core.errors import ConfigError
from syncd.kube.auth import Basic, ClientCertificate, Credentials, Login, Token, TokenFile
from syncd.kube.connection import Impersonation
from syncd.kube.section import Section

_REPLACEMENTS = {
    "gcp": "it was removed from Kubernetes: install gke-gcloud-auth-plugin",
    "azure": "it was removed from Kubernetes: install kubelogin",
    "oidc": "use an exec plugin such as kubectl oidc-login",
}


def credentials(user: Section) -> Credentials:
    """What the entry logs in with; no credentials at all for an empty one.

    Raises:
        ConfigError: contradictory, incomplete or unsupported.
    """
    with user.blame(user.what):
        found = Credentials(_login(user), _certificate(user))
    if not found:
        _refuse_unsupported(user)
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


def _refuse_unsupported(user: Section) -> None:
    if user.body.get("exec") is not None:
        command = Section(user.file, f"{user.what}: exec", user.mapping("exec")).text("command")
        raise user.error(
            "exec", f"(command {command!r}) is not supported yet: use a token, a tokenFile or a certificate"
        )
    if user.body.get("auth-provider") is not None:
        provider = Section(user.file, f"{user.what}: auth-provider", user.mapping("auth-provider"))
        name = provider.text("name")
        hint = _REPLACEMENTS.get(name, "use a token, a tokenFile or a client certificate")
        raise ConfigError(str(user.error("auth-provider", f"{name!r} is not supported: {hint}")))
