"""The least account for a cluster: what the configuration needs, as documents that `kubectl apply` takes.

The order of everything is fixed, so that a review of a change shows what changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from syncd.core.access import Need

_API = "rbac.authorization.k8s.io"
_OWN_NAMESPACES = ("default", "kube-")
_LABELS = {"app.kubernetes.io/name": "syncd"}
_DISCOVERY = """\
# Needs no rule here: /version, /api and /apis are granted to every authenticated account by system:discovery
# and system:public-info-viewer, the questions that `syncd check` asks by system:basic-user.
"""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Account:
    """Who is granted: a ServiceAccount. Roles carry its name, or `namespace:name` where the two differ, so
    that two accounts do not share one.
    """

    namespace: str = "syncd"
    name: str = "syncd"

    @property
    def role(self) -> str:
        return self.name if self.name == self.namespace else f"{self.namespace}:{self.name}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a role, and what it is for."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...]
    purpose: str

    @property
    def document(self) -> Document:
        """As a role holds it."""
        parts = {"apiGroups": self.groups, "resources": self.resources, "resourceNames": self.names}
        return {key: list(value) for key, value in parts.items() if value} | {"verbs": list(self.verbs)}


def rules(needs: Iterable[Need]) -> list[Rule]:
    """Rules that grant exactly the needs of one scope: a rule a group, verbs and name."""
    gathered: dict[tuple[str, tuple[str, ...], str], list[Need]] = {}
    for need in needs:
        gathered.setdefault((need.group, need.verbs, need.name), []).append(need)
    return [
        Rule(
            groups=(group,),
            resources=tuple(sorted({need.resource for need in same})),
            verbs=verbs,
            names=(name,) if name else (),
            purpose=_purpose(same),
        )
        for (group, verbs, name), same in sorted(gathered.items())
    ]


def _purpose(needs: Sequence[Need]) -> str:
    purposes = dict.fromkeys(need.purpose for need in needs)
    entries = dict.fromkeys(f'"{need.entry}"' for need in needs if need.entry)
    return "; ".join(purposes) + (f": {', '.join(entries)}" if entries else "")


def documents(needs: Sequence[Need], account: Account, *, create_namespace: bool = True) -> list[Document]:
    """Namespace, ServiceAccount, ClusterRole or Roles, and bindings, without comments."""
    return [document for document, _ in _annotated(needs, account, create_namespace=create_namespace)]


def render(
    needs: Sequence[Need], account: Account, heading: Sequence[str], *, create_namespace: bool = True
) -> str:
    """The documents as YAML, each rule under a comment that says what it is for."""
    text = "".join(f"# {line}\n" for line in heading) + _DISCOVERY
    for document, purposes in _annotated(needs, account, create_namespace=create_namespace):
        found = document.get("rules", [])
        text += "---\n" + _yaml({key: value for key, value in document.items() if key != "rules"})
        text += "rules:\n" if found else ""
        for rule, purpose in zip(found, purposes, strict=True):
            text += f"# {purpose}\n{_yaml([rule])}"
    return text


def _annotated(
    needs: Sequence[Need], account: Account, *, create_namespace: bool
) -> list[tuple[Document, list[str]]]:
    made: list[tuple[Document, list[str]]] = []
    if create_namespace and not account.namespace.startswith(_OWN_NAMESPACES):
        made.append((_document("v1", "Namespace", account.namespace), []))
    made.append((_document("v1", "ServiceAccount", account.name, account.namespace), []))
    for namespace in sorted({need.namespace for need in needs}):
        granted = rules(need for need in needs if need.namespace == namespace)
        kind = "Role" if namespace else "ClusterRole"
        role = _document(f"{_API}/v1", kind, account.role, namespace)
        role["rules"] = [rule.document for rule in granted]
        binding = _document(f"{_API}/v1", f"{kind}Binding", account.role, namespace)
        binding["roleRef"] = {"apiGroup": _API, "kind": kind, "name": account.role}
        binding["subjects"] = [
            {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
        ]
        made += [(role, [rule.purpose for rule in granted]), (binding, [])]
    return made


def _document(api_version: str, kind: str, name: str, namespace: str = "") -> Document:
    metadata: Document = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": _LABELS}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _yaml(value: Any) -> str:
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=100, allow_unicode=True
    )
    return text


class _Dumper(yaml.SafeDumper):
    """Without anchors: the same labels are written out each time."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
