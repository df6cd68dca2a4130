"""Objects of a realistic size, and churn among them; the same for the same seed.

Pods are made from a template of bytes, some 8 KB each with the managedFields that a real one carries, so
that twenty thousand take a second.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

from syncd.simulator.kind import Object, encode_builtin
from syncd.simulator.record import Record
from syncd.simulator.refusal import Refusal
from syncd.simulator.simulator import Simulator

_TIERS = ("web", "db", "cache", "worker")
_STARTED = "2026-11-01T10:00:0"
_VARIABLES = 12


class Workload:
    """Fills a simulator.

    Args:
        simulator: where the objects go.
        seed: of names, sizes and the order of churn.
    """

    def __init__(self, simulator: Simulator, *, seed: int = 0) -> None:
        self.simulator = simulator
        self.random = random.Random(seed)
        self.changes = 0
        self._serial = 0
        self._templates = [_template(("main",)), _template(("main", "sidecar"))]
        self._owners: dict[str, str] = {}
        self._graveyard: list[tuple[str, str]] = []

    def namespaces(self, count: int = 5, prefix: str = "load") -> list[str]:
        """Makes what is missing of `<prefix>-1` … and returns the names."""
        names = [f"{prefix}-{number}" for number in range(1, count + 1)]
        present = self.simulator.collection("", "namespaces").current.records
        for name in names:
            if name not in present:
                self.simulator.create("", "namespaces", {"metadata": {"name": name}})
        return names

    def pods(self, count: int, *, namespaces: int = 5) -> None:
        """So many pods, spread over namespaces and forty applications."""
        names = self.namespaces(namespaces)
        first = self.simulator.resource_version + 1
        self.simulator.load(
            "", "pods", (self._pod(self.random.choice(names), first + index) for index in range(count))
        )

    def deployments(self, count: int, *, namespaces: int = 5) -> None:
        self._each("apps", "deployments", count, namespaces, _deployment)

    def configmaps(self, count: int, *, namespaces: int = 5) -> None:
        self._each("", "configmaps", count, namespaces, _configmap)

    def secrets(self, count: int, *, namespaces: int = 5) -> None:
        self._each("", "secrets", count, namespaces, _secret)

    def widgets(self, count: int, *, namespaces: int = 5) -> None:
        """Objects of the definition widgets.example.com, which is made if it is missing."""
        crds = self.simulator.collection("apiextensions.k8s.io", "customresourcedefinitions")
        if "widgets.example.com" not in crds.current.records:
            self.simulator.create_crd(short_names=("wd",), schema=_WIDGET_SCHEMA, selectable=(".spec.color",))
        self._each("example.com", "widgets", count, namespaces, _widget)

    def fill(self, pods: int) -> None:
        """A small cluster around so many pods."""
        self.pods(pods)
        self.deployments(max(1, pods // 50))
        self.configmaps(max(1, pods // 20))
        self.secrets(max(1, pods // 50))
        self.widgets(max(1, pods // 50))

    async def churn(self, rate: float, *, seconds: float | None = None) -> None:
        """So many changes a second until it is cancelled or the time is over; `changes` counts them.

        Six in ten are updates of pods; the others create, delete, re-create under an old name, and write
        configmaps and widgets.
        """
        loop = asyncio.get_running_loop()
        begun, done = loop.time(), 0
        while seconds is None or loop.time() - begun < seconds:
            due = int((loop.time() - begun) * rate)
            while done < due:
                self.change()
                done += 1
                if done % 50 == 0:
                    await asyncio.sleep(0)
            await asyncio.sleep(min(0.05, 1 / rate))

    def change(self) -> None:
        """One change, chosen at random."""
        choice = self.random.random()
        pods = self.simulator.collection("", "pods").current
        if choice < 0.6 and pods.keys:
            self.touch(pods.records[self.random.choice(pods.keys)])
        elif choice < 0.75:
            again = self._graveyard.pop() if self._graveyard and choice < 0.68 else None
            self._create_pod(again)
        elif choice < 0.85 and pods.keys:
            record = pods.records[self.random.choice(pods.keys)]
            self.simulator.delete("", "pods", record.namespace, record.name)
            self._graveyard.append((record.namespace, record.name))
        else:
            self._write_other()
        self.changes += 1

    def touch(self, record: Record) -> None:
        """A change of a pod's status, as a kubelet makes it."""
        restarts = self.random.randrange(1_000_000)
        merge = {"status": {"message": f"restarts {restarts}", "phase": "Running"}}
        self.simulator.patch("", "pods", record.namespace, record.name, merge)

    def _create_pod(self, again: tuple[str, str] | None) -> None:
        namespace, name = again or (self.random.choice(self.namespaces(1)), "")
        if f"{namespace}/{name}" in self.simulator.collection("", "pods").current.records:
            name = ""
        record = self._pod(namespace, self.simulator.resource_version + 1, name)
        self.simulator.load("", "pods", [record])

    def _write_other(self) -> None:
        for group, resource in self.random.sample([("", "configmaps"), ("example.com", "widgets")], 2):
            found = self.simulator.collection(group, resource).current
            if found.keys:
                record = found.records[self.random.choice(found.keys)]
                value = {"data": {"changed": str(self.random.random())}}
                if group:
                    value = {"spec": {"size": self.random.randrange(1_000_000)}}  # type: ignore[dict-item]
                self.simulator.patch(group, resource, record.namespace, record.name, value)
                return
        self._each("", "configmaps", 1, 1, _configmap)

    def _each(self, group: str, resource: str, count: int, namespaces: int, make: Any) -> None:
        names = self.namespaces(namespaces)
        for _ in range(count):
            self._serial += 1
            obj: Object = make(self._serial, self.random)
            obj["metadata"]["namespace"] = self.random.choice(names)
            try:
                self.simulator.create(group, resource, obj, manager="workload")
            except Refusal:  # the name is taken already, by an earlier workload
                continue

    def _pod(self, namespace: str, version: int, name: str = "") -> Record:
        self._serial += 1
        number, rand = self._serial, self.random
        app = f"app-{number % 40}"
        name = name or f"{app}-{rand.getrandbits(32):08x}-{number:06d}"
        uid = self.simulator.uid()
        owner = self._owners.get(app)
        if owner is None:
            owner = self._owners[app] = self.simulator.uid()
        values = {
            b"NAME": name,
            b"NAMESPACE": namespace,
            b"UID": uid,
            b"VERSION": str(version),
            b"CREATED": self.simulator.timestamp,
            b"APP": app,
            b"OWNER": owner,
            b"HASH": f"{rand.getrandbits(32):08x}",
            b"CHECKSUM": f"{rand.getrandbits(256):064x}",
            b"TEAM": f"team-{number % 17}",
            b"TIER": _TIERS[number % 4],
            b"NODE": f"node-{number % 500}",
            b"HOST": f"192.168.{number % 500 // 250}.{number % 250 + 1}",
            b"IP": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
            b"NUMBER": str(number),
        }
        body = self._templates[number % 2] % {key: value.encode() for key, value in values.items()}
        return Record(f"{namespace}/{name}", namespace, name, uid, version, body)


def _template(containers: tuple[str, ...]) -> bytes:
    """A pod's bytes with places to fill, `%(NAME)b` and so on."""
    raw = encode_builtin(_pod_form(containers)).replace(b"%", b"%%")
    for part in raw.split(b"@")[1::2]:
        raw = raw.replace(b"@" + part + b"@", b"%(" + part + b")b")
    return raw


def _pod_form(names: tuple[str, ...]) -> Object:
    containers = [_container(name) for name in names]
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": f"{_STARTED}3Z"}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    statuses = [
        {
            "name": container["name"],
            "state": {"running": {"startedAt": f"{_STARTED}2Z"}},
            "lastState": {},
            "ready": True,
            "restartCount": 0,
            "image": container["image"],
            "imageID": "sha256:@CHECKSUM@",
            "containerID": "containerd://@CHECKSUM@",
            "started": True,
        }
        for container in containers
    ]
    metadata: Object = {
        "name": "@NAME@",
        "generateName": "@APP@-",
        "namespace": "@NAMESPACE@",
        "uid": "@UID@",
        "resourceVersion": "@VERSION@",
        "generation": 1,
        "creationTimestamp": "@CREATED@",
        "labels": {"app": "@APP@", "pod-template-hash": "@HASH@", "team": "@TEAM@", "tier": "@TIER@"},
        "annotations": {
            "checksum/config": "@CHECKSUM@",
            "note": "同期テスト ✓",
            "prometheus.io/port": "9090",
            "prometheus.io/scrape": "true",
        },
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "@APP@-rs",
                "uid": "@OWNER@",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    spec: Object = {
        "volumes": [
            {"name": "cfg", "configMap": {"name": "@APP@-cfg", "defaultMode": 420}},
            {"name": "data", "emptyDir": {}},
        ],
        "containers": containers,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "nodeName": "@NODE@",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
            for key in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    status: Object = {
        "phase": "Running",
        "conditions": conditions,
        "hostIP": "@HOST@",
        "podIP": "@IP@",
        "podIPs": [{"ip": "@IP@"}],
        "startTime": f"{_STARTED}0Z",
        "containerStatuses": statuses,
        "qosClass": "Burstable",
    }
    metadata["managedFields"] = [
        _managed({"f:metadata": _owned(metadata, "annotations", "labels"), "f:spec": _owned(spec, *spec)}),
        _managed({"f:status": _owned(status, *status)}, subresource="status"),
    ]
    return {"metadata": metadata, "spec": spec, "status": status}


def _container(name: str) -> Object:
    probe = {"path": "/healthz", "port": 8080, "scheme": "HTTP"}
    timing = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    variables: list[Object] = [
        {"name": f"VAR_{number}", "value": f"value-{number}-@NUMBER@"} for number in range(_VARIABLES)
    ]
    variables.append(
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}
    )
    return {
        "name": name,
        "image": "registry.example.com/team/@APP@:1.2.1",
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": variables,
        "resources": {
            "limits": {"cpu": "500m", "memory": "512Mi"},
            "requests": {"cpu": "100m", "memory": "128Mi"},
        },
        "volumeMounts": [{"name": "cfg", "mountPath": "/etc/cfg"}, {"name": "data", "mountPath": "/data"}],
        "livenessProbe": {"httpGet": probe, "initialDelaySeconds": 5, **timing},
        "readinessProbe": {"httpGet": probe, **timing},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _owned(value: Object, *names: str) -> Object:
    """The fieldsV1 of some fields, deep as the real ones are."""
    return {f"f:{name}": _fields(value[name]) for name in names}


def _fields(value: Any) -> Object:
    found: Iterator[tuple[str, Any]]
    if isinstance(value, dict):
        found = ((f"f:{key}", part) for key, part in value.items())
    elif isinstance(value, list) and value and isinstance(value[0], dict) and "name" in value[0]:
        found = ((f'k:{{"name":"{part["name"]}"}}', part) for part in value)
    else:
        return {}
    return {".": {}} | {key: _fields(part) for key, part in found}


def _managed(fields: Object, **more: str) -> Object:
    entry = {"manager": "workload", "operation": "Update", "apiVersion": "v1", "time": "@CREATED@"}
    return {**entry, "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


def _deployment(number: int, rand: random.Random) -> Object:
    labels = {"app": f"app-{number % 40}", "tier": _TIERS[number % 4]}
    container = {"name": "main", "image": f"registry.example.com/team/app-{number % 40}:1.{number % 9}"}
    return {
        "metadata": {"name": f"app-{number}", "labels": labels},
        "spec": {
            "replicas": rand.randrange(1, 9),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
        "status": {"observedGeneration": 1},
    }


def _configmap(number: int, rand: random.Random) -> Object:
    data = {f"key-{index}": f"{rand.getrandbits(128):032x}" for index in range(rand.randrange(1, 12))}
    return {"metadata": {"name": f"config-{number}", "labels": {"tier": _TIERS[number % 4]}}, "data": data}


def _secret(number: int, rand: random.Random) -> Object:
    return {
        "metadata": {"name": f"secret-{number}"},
        "type": "Opaque",
        "data": {"password": "cGxhbnRlZC1zZWNyZXQ=", "user": f"{rand.getrandbits(32):08x}"},
    }


def _widget(number: int, rand: random.Random) -> Object:
    spec = {"color": rand.choice(("red", "green", "blue")), "size": number}
    return {"metadata": {"name": f"widget-{number}"}, "spec": spec}


_WIDGET_SCHEMA: Object = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"color": {"type": "string"}, "size": {"type": "integer"}},
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}
