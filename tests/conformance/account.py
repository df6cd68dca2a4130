"""An account that may read only what it is granted: of the simulator by a token, of a real cluster by
impersonation and roles in the namespaces of the test.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncd.core.errors import ApiError, Forbidden
from syncd.core.resource import Resource
from syncd.kube.kubeconfig import load_connection
from syncd.simulator.server import write_kubeconfig
from tests.conformance.site import CONFIGMAPS, Site
from tests.conformance.writer import Json, Writer

_GROUP = "rbac.authorization.k8s.io"
ROLES = Resource(_GROUP, "v1", "roles", "Role", namespaced=True)
BINDINGS = Resource(_GROUP, "v1", "rolebindings", "RoleBinding", namespaced=True)
_FILES = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}


class Account:
    """Reads configmaps where it is granted, and nothing else.

    Attributes:
        entry: the cluster's entry in the configuration, as this account.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._user = "syncd-test-reader"
        self._granted: set[str] = set()
        site.own += [BINDINGS, ROLES]
        kubeconfig = site.directory / "account"
        self.entry = {"name": "c", "kubeconfig": str(kubeconfig)}
        if site.simulated:
            access = site.simulator.access
            access.grant_all("anyone")
            access.grant_all("test")
            access.know(self._user)
            write_kubeconfig(kubeconfig, site.url, self._user)
        else:
            kubeconfig.write_text(yaml.safe_dump(_acting_as(self._user, site.kubeconfig, site.entry)))

    async def grant(self, namespace: str) -> None:
        """Lets it read configmaps there."""
        if self._site.simulated:
            self._granted.add(namespace)
            self._tell()
            return
        cluster = self._site.cluster
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
        subject = {"apiGroup": _GROUP, "kind": "User", "name": self._user}
        role = {"apiGroup": _GROUP, "kind": "Role", "name": "reader"}
        await cluster.create(ROLES, namespace, _named(ROLES, {"rules": [rule]}))
        await cluster.create(BINDINGS, namespace, _named(BINDINGS, {"roleRef": role, "subjects": [subject]}))

    async def revoke(self, namespace: str) -> None:
        """Takes that back."""
        if self._site.simulated:
            self._granted.discard(namespace)
            self._tell()
            return
        for resource in (BINDINGS, ROLES):
            await self._site.cluster.delete(resource, f"{namespace}/reader")

    async def held_to_it(self, namespace: str) -> None:
        """Sees that it may not read in a namespace; a server that forbids nobody anything will not do."""
        if self._site.simulated:
            return
        connection = load_connection(self.entry["kubeconfig"], None, environ={}, home=Path.home())
        async with Writer(connection, user_agent="syncd-test") as reader:
            for _ in range(100):  # it may take a moment
                try:
                    await reader.listed(CONFIGMAPS, namespace)
                    await asyncio.sleep(0.05)
                except Forbidden:
                    return
                except ApiError as error:
                    pytest.skip(f"acting as another account fails: {error}")
        pytest.skip("this server forbids nobody anything, or the account may not act as another")

    def _tell(self) -> None:
        access = self._site.simulator.access
        access.revoke(self._user)
        if self._granted:
            access.grant(self._user, groups=("",), resources=("configmaps",), namespaces=tuple(self._granted))


def _named(resource: Resource, body: Json) -> Json:
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "reader"}}
    return {**head, **body}


def _acting_as(user: str, kubeconfig: Path, entry: dict[str, str]) -> Any:
    """A kubeconfig of another place, whose users act as this one."""
    document = yaml.safe_load(kubeconfig.read_text())
    for kind, keys in _FILES.items():
        for element in document[f"{kind}s"]:
            body = element[kind]
            body.update({key: str(kubeconfig.parent / body[key]) for key in keys if body.get(key)})
    for element in document["users"]:
        element["user"]["as"] = user
    document["current-context"] = entry.get("context") or document["current-context"]
    return document
