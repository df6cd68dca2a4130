"""Views of what is inside objects: the same rows on both databases."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from syncd.app.viewing import show
from syncd.core.document import Transform
from syncd.core.resource import Resource, Stream
from tests.contract.mirror_case import Mirror, Place, opened
from tests.contract.views.case import Row, rows

RBAC = "rbac.authorization.k8s.io"
PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
SERVICES = Resource("", "v1", "services", "Service", namespaced=True)
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress", namespaced=True)
ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = Resource(RBAC, "v1", "rolebindings", "RoleBinding", namespaced=True)
ODDITIES = Resource("example.com", "v1", "oddities", "Oddity", namespaced=True)


def thing(resource: Resource, name: str = "one", **fields: Any) -> dict[str, Any]:
    """An object of a resource."""
    metadata = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1"}
    if resource.namespaced:
        metadata["namespace"] = "shop"
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata} | fields


@asynccontextmanager
async def mirrored(place: Place, resource: Resource, *objects: Mapping[str, Any]) -> AsyncIterator[Mirror]:
    """A mirror with these objects and the views."""
    async with opened(place) as mirror:
        assert not [outcome for outcome in await show(mirror.database) if outcome.note]
        documents = (msgspec.Raw(msgspec.json.encode(each)) for each in objects)
        await mirror.open(*map(Transform(resource), documents), stream=Stream("prod", resource))
        yield mirror


async def found(place: Place, query: str, resource: Resource, *objects: Mapping[str, Any]) -> list[Row]:
    async with mirrored(place, resource, *objects):
        return rows(place, query)


def told(found: Sequence[Row], *names: str) -> list[tuple[Any, ...]]:
    """Of each row these columns."""
    return [tuple(row[name] for name in names) for row in found]


POD = thing(
    PODS,
    "web-1",
    spec={
        "containers": [
            {
                "name": "main",
                "image": "nginx:1.27",
                "ports": [
                    {"containerPort": 80, "name": "http"},
                    {"containerPort": 443, "hostPort": 8443, "protocol": "UDP"},
                ],
                "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": 80}},
                "securityContext": {"privileged": True, "runAsUser": 0},
                "imagePullPolicy": "Always",
            },
            {"name": "new", "image": "ghcr.io/acme/tool@sha256:abc"},
        ],
        "initContainers": [
            {"name": "setup", "image": "busybox"},
            {
                "name": "proxy",
                "image": "envoy",
                "restartPolicy": "Always",
                "ports": [{"containerPort": 15001}],
            },
        ],
        "ephemeralContainers": [{"name": "debug", "image": "busybox"}],
        "volumes": [
            {"name": "settings", "configMap": {"name": "web", "optional": True}},
            {"name": "keys", "secret": {"secretName": "web-keys"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "web-data", "readOnly": True}},
            {"emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}, "name": "scratch"},
            {"name": "host", "hostPath": {"path": "/var/log", "type": "Directory"}},
            {"name": "own", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "share", "nfs": {"server": "files", "path": "/x"}},
            {
                "name": "token",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "token"}},
                        {"configMap": {"name": "kube-root-ca.crt"}},
                        {"secret": {"name": "extra"}},
                        {"downwardAPI": {"items": []}},
                    ]
                },
            },
        ],
    },
    status={
        "containerStatuses": [
            {
                "name": "main",
                "ready": False,
                "started": False,
                "restartCount": 7,
                "imageID": "docker.io/library/nginx@sha256:def",
                "containerID": "containerd://1",
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                "lastState": {
                    "terminated": {
                        "reason": "OOMKilled",
                        "exitCode": 137,
                        "finishedAt": "2026-01-02T03:04:05Z",
                    }
                },
            }
        ],
        "initContainerStatuses": [
            {
                "name": "setup",
                "ready": True,
                "restartCount": 0,
                "imageID": "",
                "state": {
                    "terminated": {
                        "reason": "Completed",
                        "exitCode": 0,
                        "startedAt": "2026-01-02T03:00:00Z",
                        "finishedAt": "2026-01-02T03:00:01Z",
                    }
                },
            },
            {
                "name": "proxy",
                "ready": True,
                "restartCount": 1,
                "state": {"running": {"startedAt": "2026-01-02T03:00:02Z"}},
            },
        ],
    },
)
BARE = thing(PODS, "bare", spec={"containers": None}, status={})


async def test_a_pod_has_containers_of_four_sorts(place: Place) -> None:
    async with mirrored(place, PODS, POD, BARE):
        listed = rows(place, "SELECT * FROM containers ORDER BY container_name")
        [one] = rows(
            place, "SELECT cluster, namespace, name, uid, stream_id FROM containers WHERE type = 'init'"
        )
        [(stream,)] = [tuple(row.values()) for row in rows(place, "SELECT stream_id FROM syncd_streams")]
    assert one == {
        "cluster": "prod",
        "namespace": "shop",
        "name": "web-1",
        "uid": "uid-of-web-1",
        "stream_id": stream,
    }
    assert told(listed, "container_name", "type", "state", "reason", "ready", "restarts", "started_at") == [
        ("debug", "ephemeral", None, None, None, None, None),
        ("main", "main", "waiting", "CrashLoopBackOff", 0, 7, None),
        ("new", "main", None, None, None, None, None),
        ("proxy", "sidecar", "running", None, 1, 1, "2026-01-02 03:00:02.000000"),
        ("setup", "init", "terminated", "Completed", 1, 0, "2026-01-02 03:00:00.000000"),
    ]
    main = next(row for row in listed if row["container_name"] == "main")
    assert told([main], "image", "message", "started", "exit_code", "last_reason", "last_exit_code") == [
        ("nginx:1.27", "back-off", 0, None, "OOMKilled", 137)
    ]
    assert main["last_finished_at"] == "2026-01-02 03:04:05.000000"
    assert told([main], "cpu_requests", "cpu_limits", "memory_requests", "memory_limits", "ports") == [
        (0.25, None, 64 * 2**20, 2**30, 2)
    ]
    assert told(
        [main], "liveness_probe", "readiness_probe", "privileged", "read_only_root", "run_as_user"
    ) == [(1, 0, 1, 0, 0)]
    assert told([main], "image_id", "container_id", "image_pull_policy", "run_as_non_root") == [
        ("docker.io/library/nginx@sha256:def", "containerd://1", "Always", None)
    ]
    setup = next(row for row in listed if row["container_name"] == "setup")
    assert told([setup], "finished_at", "exit_code", "image_id") == [("2026-01-02 03:00:01.000000", 0, None)]


async def test_ports_are_those_of_containers_and_sidecars(place: Place) -> None:
    listed = await found(place, "SELECT * FROM container_ports ORDER BY container_port", PODS, POD, BARE)
    assert told(listed, "container_name", "type", "port_name", "container_port", "protocol", "host_port") == [
        ("main", "main", "http", 80, "TCP", None),
        ("main", "main", None, 443, "UDP", 8443),
        ("proxy", "sidecar", None, 15001, "TCP", None),
    ]


IMAGES = {
    "nginx": ("docker.io", "library/nginx", "latest", None),
    "nginx:1.27": ("docker.io", "library/nginx", "1.27", None),
    "acme/tool": ("docker.io", "acme/tool", "latest", None),
    "docker.io/nginx": ("docker.io", "library/nginx", "latest", None),
    "index.docker.io/library/nginx:1": ("docker.io", "library/nginx", "1", None),
    "ghcr.io/acme/tool:v2": ("ghcr.io", "acme/tool", "v2", None),
    "ghcr.io/acme/tool@sha256:ab": ("ghcr.io", "acme/tool", None, "sha256:ab"),
    "ghcr.io/acme/tool:v2@sha256:ab": ("ghcr.io", "acme/tool", "v2", "sha256:ab"),
    "localhost/tool": ("localhost", "tool", "latest", None),
    "localhost:5000/tool": ("localhost:5000", "tool", "latest", None),
    "registry:5000/a/b/c:1.0-x": ("registry:5000", "a/b/c", "1.0-x", None),
    "nginx@sha256:ab": ("docker.io", "library/nginx", None, "sha256:ab"),
    "": (None, None, None, None),
}


async def test_images_are_taken_apart_as_docker_does(place: Place) -> None:
    containers = [{"name": f"c{number:02}", "image": image} for number, image in enumerate(IMAGES)]
    pod = thing(PODS, spec={"containers": containers})
    listed = await found(place, "SELECT * FROM container_images ORDER BY container_name", PODS, pod)
    parts = told(listed, "registry", "repository", "tag", "digest")
    assert dict(zip([row["image"] for row in listed], parts, strict=True)) == IMAGES


async def test_an_image_that_runs_has_a_digest(place: Place) -> None:
    query = "SELECT * FROM container_images WHERE running_digest IS NOT NULL"
    [row] = await found(place, query, PODS, POD)
    assert (row["container_name"], row["running_digest"]) == ("main", "sha256:def")


async def test_volumes_say_what_is_behind_them(place: Place) -> None:
    listed = await found(place, "SELECT * FROM volumes", PODS, POD, BARE)
    assert {row["volume_name"]: (row["type"], row["source_name"]) for row in listed} == {
        "settings": ("configMap", "web"),
        "keys": ("secret", "web-keys"),
        "data": ("persistentVolumeClaim", "web-data"),
        "scratch": ("emptyDir", None),
        "host": ("hostPath", "/var/log"),
        "own": ("ephemeral", "web-1-own"),
        "share": ("nfs", "files:/x"),
        "token": ("projected", None),
    }
    by_name = {row["volume_name"]: row for row in listed}
    assert told([by_name["scratch"]], "medium", "size_limit", "read_only") == [("Memory", 64 * 2**20, 0)]
    assert told([by_name["data"], by_name["settings"]], "read_only", "may_be_missing") == [(1, 0), (0, 1)]
    assert by_name["host"]["host_path_type"] == "Directory"
    assert (
        by_name["token"]["projected_sources"]
        == "serviceAccountToken,configMap/kube-root-ca.crt,secret/extra,downwardAPI"
    )


@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {"conditions": None},
        {"conditions": {"Ready": "True"}},
        {"conditions": "fine"},
        {"conditions": []},
        "fine",
    ],
    ids=str,
)
async def test_conditions_of_no_shape_are_no_rows(place: Place, status: Any) -> None:
    odd = thing(ODDITIES, status=status)
    assert await found(place, "SELECT * FROM conditions WHERE type = 'Ready'", ODDITIES, odd) == []


async def test_conditions_are_those_of_every_kind(place: Place) -> None:
    conditions = [
        {
            "type": "Ready",
            "status": "True",
            "reason": "AllGood",
            "message": "m",
            "lastTransitionTime": "2026-01-02T03:04:05.5Z",
            "observedGeneration": 3,
        },
        {"type": "Stalled", "status": True, "lastTransitionTime": "yesterday", "observedGeneration": "three"},
        "a string",
        7,
    ]
    odd = thing(ODDITIES, status={"conditions": conditions})
    query = "SELECT * FROM conditions ORDER BY type"
    listed = [row for row in await found(place, query, ODDITIES, odd) if row["type"] is not None]
    assert told(listed, "api_group", "kind", "type", "reason", "message", "last_transition_at") == [
        ("example.com", "Oddity", "Ready", "AllGood", "m", "2026-01-02 03:04:05.500000"),
        ("example.com", "Oddity", "Stalled", None, None, None),
    ]
    assert told(listed, "observed_generation") == [(3,), (None,)]
    assert listed[0]["status"] == "True"


async def test_ports_of_services(place: Place) -> None:
    ports = [
        {
            "name": "http",
            "port": 80,
            "targetPort": 8080,
            "nodePort": 30080,
            "protocol": "TCP",
            "appProtocol": "h2c",
        },
        {"port": 53, "targetPort": "dns", "protocol": "UDP"},
    ]
    service = thing(SERVICES, spec={"type": "NodePort", "ports": ports})
    listed = await found(place, "SELECT * FROM service_ports ORDER BY port", SERVICES, service)
    columns = ("type", "port_name", "port", "protocol", "target_port", "node_port", "app_protocol")
    assert told(listed, *columns) == [
        ("NodePort", None, 53, "UDP", "dns", None, None),
        ("NodePort", "http", 80, "TCP", "8080", 30080, "h2c"),
    ]


async def test_ingresses_lead_to_services_and_elsewhere(place: Place) -> None:
    def leads(service: str, **port: Any) -> dict[str, Any]:
        return {"service": {"name": service, "port": port}}

    ingress = thing(
        INGRESSES,
        spec={
            "ingressClassName": "nginx",
            "defaultBackend": leads("fallback", number=80),
            "tls": [{"hosts": ["b.example", "a.example"], "secretName": "tls-a"}, {"secretName": "rest"}],
            "rules": [
                {
                    "host": "a.example",
                    "http": {
                        "paths": [
                            {"path": "/", "pathType": "Prefix", "backend": leads("web", name="http")},
                            {
                                "path": "/x",
                                "pathType": "Exact",
                                "backend": {"resource": {"kind": "Bucket", "name": "x"}},
                            },
                        ]
                    },
                },
                {"host": "empty.example"},
            ],
        },
    )
    listed = await found(place, "SELECT * FROM ingress_rules", INGRESSES, ingress)
    columns = ("host", "path", "path_type", "service_name", "service_port", "resource_kind", "tls_secret")
    assert sorted(told(listed, *columns), key=str) == sorted(
        [
            ("a.example", "/", "Prefix", "web", "http", None, "tls-a"),
            ("a.example", "/x", "Exact", None, None, "Bucket", "tls-a"),
            ("empty.example", None, None, None, None, None, None),
            (None, None, None, "fallback", "80", None, None),
        ],
        key=str,
    )
    assert {row["ingress_class"] for row in listed} == {"nginx"}


async def test_a_rule_is_a_row_a_verb(place: Place) -> None:
    rules = [
        {
            "apiGroups": ["", "apps"],
            "resources": ["pods"],
            "verbs": ["get", "list"],
            "resourceNames": ["a", "b"],
        },
        {"nonResourceURLs": ["/metrics", "/healthz"], "verbs": ["get"]},
    ]
    role = thing(ROLES, rules=rules)
    query = "SELECT * FROM role_rules ORDER BY rule, rule_api_group, rule_resource, verb"
    listed = await found(place, query, ROLES, role, thing(ROLES, "none", rules=None))
    columns = ("kind", "rule", "verb", "rule_api_group", "rule_resource", "resource_names", "urls")
    assert told(listed, *columns) == [
        ("ClusterRole", 1, "get", "", "pods", "a,b", None),
        ("ClusterRole", 1, "list", "", "pods", "a,b", None),
        ("ClusterRole", 1, "get", "apps", "pods", "a,b", None),
        ("ClusterRole", 1, "list", "apps", "pods", "a,b", None),
        ("ClusterRole", 2, "get", None, None, None, "/metrics,/healthz"),
    ]
    rule = listed[0]["rule_json"]
    assert (json.loads(rule) if isinstance(rule, str) else rule) == rules[0]


async def test_bindings_give_subjects_a_role(place: Place) -> None:
    binding = thing(
        BINDINGS,
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
        subjects=[
            {"kind": "ServiceAccount", "name": "robot", "namespace": "ci"},
            {"kind": "User", "apiGroup": RBAC, "name": "ann"},
        ],
    )
    query = "SELECT * FROM subjects ORDER BY subject_kind"
    listed = await found(place, query, BINDINGS, binding, thing(BINDINGS, "none", subjects=None))
    columns = ("kind", "name", "subject_kind", "subject_namespace", "subject_name", "role_kind", "role_name")
    assert told(listed, *columns) == [
        ("RoleBinding", "one", "ServiceAccount", "ci", "robot", "ClusterRole", "view"),
        ("RoleBinding", "one", "User", None, "ann", "ClusterRole", "view"),
    ]
