"""Nodes, namespaces and what bounds them."""

from __future__ import annotations

from syncd.views.expression import (
    ITEM,
    Expression,
    Key,
    Ref,
    Type,
    boolean,
    call,
    case,
    coalesce,
    concat,
    cores,
    entries,
    equal,
    first,
    items,
    join,
    last,
    nonempty,
    path,
    present,
    starts,
    units,
)
from syncd.views.view import AGE, Cell, View, number, quantity, text, yes

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLES = join(
    entries("metadata.labels"),
    nonempty(
        case(
            (starts(Key(), _ROLE_PREFIX), call("substr", Type.TEXT, Key(), len(_ROLE_PREFIX) + 1)),
            (equal(Key(), "kubernetes.io/role"), ITEM),
        )
    ),
    unique=True,
)
_READY = last(items("status.conditions"), path("status"), equal(path("type"), "Ready"))
_UNSCHEDULABLE = coalesce(boolean("spec.unschedulable"), False)
_STATUS = concat(
    case((equal(_READY, "True"), "Ready"), (present(_READY), "NotReady"), otherwise="Unknown"),
    case((_UNSCHEDULABLE, ",SchedulingDisabled"), otherwise=""),
)


def _address(kind: str) -> Expression:
    return first(items("status.addresses"), path("address"), equal(path("type"), kind))


def _info(field: str) -> Expression:
    return nonempty(path(f"status.nodeInfo.{field}"))


NODES = View(
    "nodes",
    ("",),
    "Node",
    "Nodes: the machines of a cluster.",
    (
        text("status", _STATUS, "Ready, NotReady or Unknown, and whether it takes pods.", "Status"),
        text("roles", _ROLES, "Its roles, of its labels.", "Roles", "<none>"),
        AGE,
        text("kubelet_version", "status.nodeInfo.kubeletVersion", "Version of its kubelet.", "Version"),
        text("internal_ip", _address("InternalIP"), "Its address in the cluster.", "Internal-IP", "<none>"),
        text("external_ip", _address("ExternalIP"), "Its address outside.", "External-IP", "<none>"),
        text("os_image", _info("osImage"), "Its operating system.", "OS-Image", "<unknown>"),
        text("kernel_version", _info("kernelVersion"), "Its kernel."),
        text("architecture", _info("architecture"), "Its architecture, as amd64."),
        Cell(
            "Kernel-Version",
            concat(
                coalesce(Ref("kernel_version"), "<unknown>"),
                coalesce(concat(" (", Ref("architecture"), ")"), ""),
            ),
        ),
        text(
            "container_runtime",
            _info("containerRuntimeVersion"),
            "Its container runtime and the version of it.",
            "Container-Runtime",
            "<unknown>",
        ),
        yes("ready", equal(_READY, "True"), "Whether its condition Ready is true."),
        yes("unschedulable", _UNSCHEDULABLE, "Whether it takes no new pods."),
        text("operating_system", _info("operatingSystem"), "linux or windows."),
        text(
            "instance_type", path("metadata.labels", "node.kubernetes.io/instance-type"), "Its machine type."
        ),
        text("zone", path("metadata.labels", "topology.kubernetes.io/zone"), "Its zone."),
        text("region", path("metadata.labels", "topology.kubernetes.io/region"), "Its region."),
        text("provider_id", "spec.providerID", "Its name at the cloud that it is of."),
        text("pod_cidr", "spec.podCIDR", "The addresses of its pods."),
        quantity("cpu_capacity", cores(path("status.capacity.cpu")), "CPU, in cores."),
        quantity("cpu_allocatable", cores(path("status.allocatable.cpu")), "CPU for pods, in cores."),
        number("memory_capacity", units(path("status.capacity.memory")), "Memory, in bytes."),
        number("memory_allocatable", units(path("status.allocatable.memory")), "Memory for pods, in bytes."),
        number("pods_capacity", units(path("status.capacity.pods")), "How many pods it can hold."),
        number("pods_allocatable", units(path("status.allocatable.pods")), "How many pods it takes."),
        text(
            "taints",
            join(
                items("spec.taints"),
                concat(path("key"), coalesce(concat("=", nonempty(path("value"))), ""), ":", path("effect")),
            ),
            "What keeps pods away: `key=value:NoSchedule,…`.",
        ),
    ),
    namespaced=False,
)
