"""Which object refers to which, and whose it is in the end: the same on both databases."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from syncd.app.viewing import show
from syncd.core.document import Transform
from syncd.core.resource import Resource, Stream
from tests.conftest import DatabasePlace
from tests.contract.mirror_case import look_at, opened
from tests.contract.views.case import rows

RBAC = "rbac.authorization.k8s.io"
RESOURCES = {
    kind: Resource(group, "v1", plural, kind, namespaced=namespaced)
    for kind, group, plural, namespaced in (
        ("Pod", "", "pods", True),
        ("Node", "", "nodes", False),
        ("Service", "", "services", True),
        ("ConfigMap", "", "configmaps", True),
        ("Secret", "", "secrets", True),
        ("ServiceAccount", "", "serviceaccounts", True),
        ("PersistentVolumeClaim", "", "persistentvolumeclaims", True),
        ("PersistentVolume", "", "persistentvolumes", False),
        ("ReplicaSet", "apps", "replicasets", True),
        ("Deployment", "apps", "deployments", True),
        ("PodDisruptionBudget", "policy", "poddisruptionbudgets", True),
        ("NetworkPolicy", "networking.k8s.io", "networkpolicies", True),
        ("Ingress", "networking.k8s.io", "ingresses", True),
        ("Role", RBAC, "roles", True),
        ("ClusterRole", RBAC, "clusterroles", False),
        ("RoleBinding", RBAC, "rolebindings", True),
        ("ClusterRoleBinding", RBAC, "clusterrolebindings", False),
    )
}
Found = set[tuple[str, str, str, str | None]]


def thing(
    kind: str, name: str, *, labels: dict[str, str] | None = None, owners: Any = (), **fields: Any
) -> Any:
    """An object, its uid `kind/name` in lower case, in the namespace shop where its kind has one."""
    resource = RESOURCES[kind]
    metadata: dict[str, Any] = {"name": name, "uid": f"{kind}/{name}".lower(), "resourceVersion": "1"}
    if resource.namespaced:
        metadata["namespace"] = "shop"
    if labels is not None:
        metadata["labels"] = labels
    if owners:
        metadata["ownerReferences"] = [
            {"apiVersion": version, "kind": owner, "name": called, "uid": uid, "controller": controller}
            for version, owner, called, uid, controller in owners
        ]
    return {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata} | fields


@asynccontextmanager
async def mirrored(
    place: DatabasePlace, *objects: Any, clusters: tuple[str, ...] = ("prod",)
) -> AsyncIterator[None]:
    """A mirror with these objects, in each of the clusters, and the views."""
    async with opened(place) as mirror:
        assert not [outcome for outcome in await show(mirror.database) if outcome.note]
        by_kind: dict[str, list[Any]] = {}
        for one in objects:
            by_kind.setdefault(one["kind"], []).append(msgspec.Raw(json.dumps(one).encode()))
        for cluster in clusters:
            for kind, documents in by_kind.items():
                transform = Transform(RESOURCES[kind])
                await mirror.open(*map(transform, documents), stream=Stream(cluster, RESOURCES[kind]))
        yield


async def related(place: DatabasePlace, relation: str, *objects: Any) -> Found:
    """Source, kind, name and uid of the target, of every row of a relation; no row twice."""
    async with mirrored(place, *objects):
        found = rows(place, f"SELECT * FROM relations WHERE relation = '{relation}'")
    told = {(row["source_name"], row["target_kind"], row["target_name"], row["target_uid"]) for row in found}
    assert len(told) == len(found)
    for row in found:
        if row["target_uid"] is not None:
            resource = RESOURCES[row["target_kind"]]
            expected = (resource.group, "shop" if resource.namespaced else "")
            assert (row["target_api_group"], row["target_namespace"]) == expected
        assert row["source_uid"] == f"{row['source_kind']}/{row['source_name']}".lower()
    return told


def pod(name: str = "web", **fields: Any) -> Any:
    labels, owners = fields.pop("labels", None), fields.pop("owners", ())
    return thing("Pod", name, labels=labels, owners=owners, spec={"containers": [{"name": "c"}]} | fields)


async def test_runs_on(place: DatabasePlace) -> None:
    objects = (pod("a", nodeName="n1"), pod("b", nodeName="gone"), pod("c", nodeName=""), thing("Node", "n1"))
    assert await related(place, "RUNS_ON", *objects) == {
        ("a", "Node", "n1", "node/n1"),
        ("b", "Node", "gone", None),
    }


async def test_uses_service_account(place: DatabasePlace) -> None:
    objects = (pod("a", serviceAccountName="robot"), pod("b"), thing("ServiceAccount", "robot"))
    assert await related(place, "USES_SERVICE_ACCOUNT", *objects) == {
        ("a", "ServiceAccount", "robot", "serviceaccount/robot")
    }


async def test_mounts_volumes_and_variables(place: DatabasePlace) -> None:
    container = {
        "name": "c",
        "env": [
            {"name": "A", "value": "plain"},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "k"}}},
            {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "envFrom": [{"configMapRef": {"name": "more"}}, {"prefix": "X_", "secretRef": {"name": "secrets"}}],
    }
    volumes = [
        {"name": "v1", "configMap": {"name": "settings"}},
        {"name": "v2", "secret": {"secretName": "keys"}},
        {"name": "v3", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "v4", "emptyDir": {}},
        {
            "name": "v5",
            "projected": {"sources": [{"configMap": {"name": "ca"}}, {"secret": {"name": "extra"}}]},
        },
        {"name": "v6", "ephemeral": {"volumeClaimTemplate": {}}},
    ]
    web = pod(
        containers=[container],
        initContainers=[{"name": "i", "envFrom": [{"secretRef": {"name": "init"}}]}],
        volumes=volumes,
    )
    assert await related(
        place, "MOUNTS", web, pod("bare"), thing("Secret", "keys"), thing("ConfigMap", "keys")
    ) == {
        ("web", "ConfigMap", "settings", None),
        ("web", "ConfigMap", "more", None),
        ("web", "ConfigMap", "ca", None),
        ("web", "Secret", "keys", "secret/keys"),
        ("web", "Secret", "secrets", None),
        ("web", "Secret", "extra", None),
        ("web", "Secret", "init", None),
        ("web", "PersistentVolumeClaim", "data", None),
        ("web", "PersistentVolumeClaim", "web-v6", None),
    }


async def test_bound_to(place: DatabasePlace) -> None:
    def role(kind: str, name: str) -> dict[str, str]:
        return {"apiGroup": RBAC, "kind": kind, "name": name}

    def claimed(name: str, uid: str) -> dict[str, Any]:
        return {"claimRef": {"namespace": "shop", "name": name, "uid": uid}}

    objects = (
        thing("PersistentVolumeClaim", "data", spec={"volumeName": "disk"}),
        thing("PersistentVolumeClaim", "waiting", spec={}),
        thing("PersistentVolume", "disk", spec=claimed("data", "persistentvolumeclaim/data")),
        thing("PersistentVolume", "old", spec=claimed("data", "of-one-before")),
        thing("PersistentVolume", "free", spec={}),
        thing("RoleBinding", "one", roleRef=role("Role", "edit")),
        thing("RoleBinding", "two", roleRef=role("ClusterRole", "edit")),
        thing("ClusterRoleBinding", "three", roleRef=role("ClusterRole", "gone")),
        thing("Role", "edit"),
        thing("ClusterRole", "edit"),
    )
    assert await related(place, "BOUND_TO", *objects) == {
        ("data", "PersistentVolume", "disk", "persistentvolume/disk"),
        ("disk", "PersistentVolumeClaim", "data", "persistentvolumeclaim/data"),
        ("old", "PersistentVolumeClaim", "data", None),
        ("one", "Role", "edit", "role/edit"),
        ("two", "ClusterRole", "edit", "clusterrole/edit"),
        ("three", "ClusterRole", "gone", None),
    }


async def test_routes_to(place: DatabasePlace) -> None:
    def leads(name: str) -> dict[str, Any]:
        return {"service": {"name": name, "port": {"number": 80}}}

    spec = {
        "defaultBackend": leads("gone"),
        "rules": [
            {
                "http": {
                    "paths": [
                        {"backend": leads("web")},
                        {"backend": leads("web")},
                        {"backend": {"resource": {}}},
                    ]
                }
            },
            {"host": "empty"},
        ],
    }
    objects = (thing("Ingress", "in", spec=spec), thing("Ingress", "none", spec={}), thing("Service", "web"))
    assert await related(place, "ROUTES_TO", *objects) == {
        ("in", "Service", "web", "service/web"),
        ("in", "Service", "gone", None),
    }


LABELS = {"app": "web", "app.kubernetes.io/tier": "front", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        ({"app": "web"}, True),
        ({"app": "web", "app.kubernetes.io/tier": "front"}, True),
        ({"empty": ""}, True),
        ({"app": "web", "other": "x"}, False),
        ({"app": "front"}, False),
        ({}, False),
        (None, False),
    ],
    ids=str,
)
async def test_services_select_by_labels(place: DatabasePlace, selector: Any, selects: bool) -> None:
    objects = (thing("Service", "s", spec={"selector": selector}), pod("web", labels=LABELS), pod("bare"))
    expected: Found = {("s", "Pod", "web", "pod/web")} if selects else set()
    assert await related(place, "SELECTS", *objects) == expected


def asks(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {
        "matchExpressions": [
            {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
        ]
    }


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({"matchLabels": {"app": "web"}}, ("web",)),
        ({}, ("web", "bare")),
        (None, ()),
        (asks("app", "In", "web", "db"), ("web",)),
        (asks("app", "NotIn", "web", "db"), ("bare",)),
        (asks("app", "Exists"), ("web",)),
        (asks("app", "DoesNotExist"), ("bare",)),
        (asks("empty", "Exists"), ("web",)),
        (asks("app", "NoSuch"), ()),
        ({"matchLabels": {"app": "web"}} | asks("app.kubernetes.io/tier", "In", "back"), ()),
    ],
    ids=str,
)
async def test_budgets_and_policies_select_by_selectors(
    place: DatabasePlace, selector: Any, selected: tuple[str, ...]
) -> None:
    objects = (
        thing("PodDisruptionBudget", "b", spec={"selector": selector}),
        thing("NetworkPolicy", "p", spec={"podSelector": selector}),
        pod("web", labels=LABELS),
        pod("bare"),
    )
    expected = {(source, "Pod", name, f"pod/{name}") for source in "bp" for name in selected}
    assert await related(place, "SELECTS", *objects) == expected


DEPLOYMENT = thing("Deployment", "web")
REPLICAS = thing("ReplicaSet", "web-1", owners=[("apps/v1", "Deployment", "web", "deployment/web", True)])
OWNED = pod(
    "web-1-x",
    owners=[
        ("v1", "Node", "n1", "node/n1", False),
        ("apps/v1", "ReplicaSet", "web-1", "replicaset/web-1", True),
        ("example.com/v2", "Thing", "t", "thing/t", False),
    ],
)


async def test_owned_by_every_owner(place: DatabasePlace) -> None:
    async with mirrored(place, DEPLOYMENT, REPLICAS, OWNED):
        found = rows(place, "SELECT * FROM relations WHERE relation = 'OWNED_BY'")
    names = (
        "source_name",
        "target_api_group",
        "target_kind",
        "target_namespace",
        "target_name",
        "target_uid",
    )
    assert {tuple(row[name] for name in names) for row in found} == {
        ("web-1", "apps", "Deployment", "shop", "web", "deployment/web"),
        ("web-1-x", "apps", "ReplicaSet", "shop", "web-1", "replicaset/web-1"),
        ("web-1-x", "", "Node", None, "n1", None),
        ("web-1-x", "example.com", "Thing", None, "t", None),
    }


async def test_owners_lead_to_the_root(place: DatabasePlace) -> None:
    names = (
        "name",
        "depth",
        "is_root",
        "owner_api_group",
        "owner_kind",
        "owner_namespace",
        "owner_name",
        "is_mirrored",
    )
    async with mirrored(place, DEPLOYMENT, REPLICAS, OWNED, clusters=("prod", "test")):
        found = rows(place, "SELECT * FROM owners WHERE cluster = 'prod' ORDER BY name, depth")
        assert len(rows(place, "SELECT * FROM owners WHERE is_root")) == 4
    assert [tuple(row[name] for name in names) for row in found] == [
        ("web-1", 1, 1, "apps", "Deployment", "shop", "web", 1),
        ("web-1-x", 1, 0, "apps", "ReplicaSet", "shop", "web-1", 1),
        ("web-1-x", 2, 1, "apps", "Deployment", "shop", "web", 1),
    ]


async def test_an_owner_that_is_not_mirrored_is_named_all_the_same(place: DatabasePlace) -> None:
    async with mirrored(place, REPLICAS, OWNED):
        [root] = rows(place, "SELECT * FROM owners WHERE name = 'web-1-x' AND is_root")
    assert (root["owner_api_group"], root["owner_kind"], root["owner_name"]) == ("apps", "Deployment", "web")
    assert (root["owner_uid"], root["owner_namespace"], root["is_mirrored"]) == ("deployment/web", None, 0)


async def test_a_ring_of_owners_ends(place: DatabasePlace) -> None:
    one = thing("ConfigMap", "one", owners=[("v1", "ConfigMap", "two", "configmap/two", True)])
    two = thing("ConfigMap", "two", owners=[("v1", "ConfigMap", "one", "configmap/one", True)])
    async with mirrored(place, one, two):
        found = rows(place, "SELECT max(depth) AS deepest FROM owners")
    assert found == [{"deepest": 32}]


SCANS = {"postgresql": "Seq Scan on syncd_objects", "sqlite": "SCAN o"}


@pytest.mark.parametrize("view", ["relations", "owners"])
async def test_one_object_is_found_by_an_index(place: DatabasePlace, view: str) -> None:
    uid = "source_uid" if view == "relations" else "uid"
    query = f"SELECT * FROM {view} WHERE {uid} = 'pod/web'"
    async with mirrored(place, *(pod(f"p{number}") for number in range(50))):
        if place.dialect == "sqlite":
            plan = " ".join(str(row[3]) for row in look_at(place, f"EXPLAIN QUERY PLAN {query}")[0])
        else:
            found = look_at(place, "ANALYZE syncd_objects", "SET enable_seqscan = off", f"EXPLAIN {query}")[2]
            plan = " ".join(str(row[0]) for row in found)
    assert SCANS[place.dialect] not in plan
    assert "syncd_objects_uid" in plan
