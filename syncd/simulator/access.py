"""Who may do what: tokens with permissions by verb, resource and namespace. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Permission:
    """Empty fields mean all; `reason` is what a review says."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    reason: str = ""

    def allows(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        return (
            (not self.verbs or verb in self.verbs)
            and (not self.groups or group in self.groups)
            and (not self.resources or resource in self.resources)
            and (not self.namespaces or namespace in self.namespaces)
        )


@dataclass(slots=True)
class Account:
    """Who holds a token."""

    user: str
    permissions: list[Permission] = field(default_factory=list)

    def permission(self, verb: str, group: str, resource: str, namespace: str) -> Permission | None:
        """What allows it, None where nothing does."""
        for permission in self.permissions:
            if permission.allows(verb, group, resource, namespace):
                return permission
        return None


class Access:
    """The tokens that are known. Open to everyone until the first is granted; from then on a request
    without a known token is answered 401.
    """

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._everyone = Account("admin", [Permission()])

    def grant(
        self,
        token: str,
        user: str = "reader",
        *,
        verbs: tuple[str, ...] = ("get", "list", "watch"),
        groups: tuple[str, ...] = (),
        resources: tuple[str, ...] = (),
        namespaces: tuple[str, ...] = (),
        reason: str = "",
    ) -> None:
        """Adds a permission to a token; what is left empty means all."""
        account = self._accounts.setdefault(token, Account(user))
        account.user = user
        account.permissions.append(Permission(verbs, groups, resources, namespaces, reason))

    def grant_all(self, token: str, user: str = "admin") -> None:
        self.grant(token, user, verbs=())

    def know(self, token: str, user: str = "reader") -> None:
        """A token that may do nothing so far."""
        self._accounts.setdefault(token, Account(user))

    def revoke(self, token: str, *, forget: bool = False) -> None:
        """Takes a token's permissions back; forgotten altogether, it is answered 401."""
        if forget:
            self._accounts.pop(token, None)
        elif token in self._accounts:
            self._accounts[token].permissions.clear()

    def account(self, token: str) -> Account | None:
        """None: the token is unknown."""
        if not self._accounts:
            return self._everyone
        return self._accounts.get(token)
