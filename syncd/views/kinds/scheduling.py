"""Priorities, runtimes, groups of pods, and devices that are given out."""

from __future__ import annotations

from syncd.views.expression import (
    Expression,
    Ref,
    Type,
    above,
    among,
    boolean,
    both,
    case,
    coalesce,
    concat,
    count,
    equal,
    exists,
    first,
    integer,
    items,
    join,
    last,
    moment,
    negation,
    path,
    present,
    total,
)
from syncd.views.view import AGE, View, at, number, since, text, yes

PRIORITY_CLASSES = View(
    "priorityclasses",
    ("scheduling.k8s.io",),
    "PriorityClass",
    "Which pods go first.",
    (
        number("priority", coalesce(integer("value"), 0), "The higher goes first.", "Value"),
        yes(
            "global_default",
            coalesce(boolean("globalDefault"), False),
            "For pods that name none.",
            "Global-Default",
        ),
        AGE,
        text("preemption_policy", "preemptionPolicy", "PreemptLowerPriority or Never.", "PreemptionPolicy"),
        text("about", "description", "What it is for."),
    ),
    namespaced=False,
)

RUNTIME_CLASSES = View(
    "runtimeclasses",
    ("node.k8s.io",),
    "RuntimeClass",
    "Ways to run containers.",
    (text("handler_name", "handler", "What the node calls it.", "Handler"), AGE),
    namespaced=False,
)

WORKLOAD_OBJECTS = View(
    "workloads",
    ("scheduling.k8s.io",),
    "Workload",
    "Groups of pods that belong together.",
    (
        AGE,
        text("controller_kind", "spec.controllerRef.kind", "Kind of what they are of."),
        text("controller_name", "spec.controllerRef.name", "Name of what they are of."),
    ),
)

_GROUP_CONDITIONS = items("status.conditions")


def _newest(kind: str, field: str) -> Expression:
    return last(_GROUP_CONDITIONS, path(field), equal(path("type"), kind))


_DISRUPTED = exists(_GROUP_CONDITIONS, equal(path("type"), "DisruptionTarget"))
# Renamed in 1.37, as the reference to the workload was.
_SCHEDULED = coalesce(_newest("PodGroupInitiallyScheduled", "status"), _newest("PodGroupScheduled", "status"))
_WORKLOAD = "spec.workloadRef"
_TEMPLATE = "spec.podGroupTemplateRef"
POD_GROUPS = View(
    "podgroups",
    ("scheduling.k8s.io",),
    "PodGroup",
    "Pods that are scheduled together.",
    (
        text(
            "policy",
            case((present(path("spec.schedulingPolicy.gang")), "Gang"), otherwise="Basic"),
            "Gang or Basic.",
            "Policy",
        ),
        text(
            "workload",
            case(
                (present(path(_WORKLOAD)), coalesce(path(f"{_WORKLOAD}.workloadName"), "")),
                (present(path(_TEMPLATE)), coalesce(path(f"{_TEMPLATE}.workload.workloadName"), "")),
            ),
            "The workload that it is of.",
            "Workload",
            "<none>",
        ),
        text(
            "status",
            case(
                (_DISRUPTED, coalesce(_newest("DisruptionTarget", "reason"), "")),
                (equal(_SCHEDULED, "True"), "Scheduled"),
                (present(_SCHEDULED), "Unschedulable"),
                otherwise="Pending",
            ),
            "Pending, Scheduled, Unschedulable, or why it is disrupted.",
            "Status",
        ),
        AGE,
        number("minimum", "spec.schedulingPolicy.gang.minCount", "Pods that must fit at once."),
    ),
)

DEVICE_CLASSES = View(
    "deviceclasses",
    ("resource.k8s.io",),
    "DeviceClass",
    "Kinds of devices.",
    (AGE,),
    namespaced=False,
)

_ALLOCATED = present(path("status.allocation"))
_DELETING = present(path("metadata.deletionTimestamp"))
_RESERVED = exists(items("status.reservedFor"))
RESOURCE_CLAIMS = View(
    "resourceclaims",
    ("resource.k8s.io",),
    "ResourceClaim",
    "Claims on devices.",
    (
        text(
            "status",
            case(
                (both(_DELETING, _ALLOCATED, _RESERVED), "deleted,allocated,reserved"),
                (both(_DELETING, _ALLOCATED), "deleted,allocated"),
                (_DELETING, "deleted"),
                (both(_ALLOCATED, _RESERVED), "allocated,reserved"),
                (_ALLOCATED, "allocated"),
                otherwise="pending",
            ),
            "pending, allocated, reserved, deleted.",
            "State",
        ),
        AGE,
        text("reserved_for", join(items("status.reservedFor"), path("name")), "Who uses it."),
    ),
)

RESOURCE_CLAIM_TEMPLATES = View(
    "resourceclaimtemplates",
    ("resource.k8s.io",),
    "ResourceClaimTemplate",
    "Templates of claims on devices.",
    (AGE,),
)

RESOURCE_SLICES = View(
    "resourceslices",
    ("resource.k8s.io",),
    "ResourceSlice",
    "Devices that there are.",
    (
        text("node", "spec.nodeName", "The node that has them.", "Node"),
        text("driver", "spec.driver", "The driver that gives them out.", "Driver"),
        text("pool", "spec.pool.name", "Their pool.", "Pool"),
        AGE,
        number("devices", count(items("spec.devices")), "How many."),
    ),
    namespaced=False,
)

DEVICE_TAINT_RULES = View(
    "devicetaintrules",
    ("resource.k8s.io",),
    "DeviceTaintRule",
    "Devices that are to be kept from use.",
    (
        text("taint_key", "spec.taint.key", "The taint.", "Key"),
        text("taint_value", "spec.taint.value", "Its value.", "Value"),
        text("taint_effect", "spec.taint.effect", "What it does.", "Effect"),
        at("taint_added_at", "spec.taint.timeAdded", "When it was added."),
        since("TimeAdded", Ref("taint_added_at", Type.TIME), ""),
        AGE,
    ),
    namespaced=False,
)

_STATUS = present(path("status"))
_POOLS = items("status.pools")


def _ends(kind: str) -> Expression:
    """Whether the first condition that ends the request is of this kind."""
    ends = both(
        equal(path("status"), "True"),
        among(path("type"), "Complete", "Failed"),
    )
    return equal(first(items("status.conditions"), path("type"), ends), kind)


def _devices(field: str) -> Expression:
    summed = coalesce(total(_POOLS, integer(field)), 0)
    return case((both(_STATUS, negation(_ends("Failed"))), summed))


_POOL_COUNT = coalesce(integer("status.poolCount"), 0)
RESOURCE_POOL_STATUS_REQUESTS = View(
    "resourcepoolstatusrequests",
    ("resource.k8s.io",),
    "ResourcePoolStatusRequest",
    "Questions how many devices are free.",
    (
        text("driver", "spec.driver", "The driver that is asked about.", "Driver"),
        number("total_devices", _devices("totalDevices"), "All devices.", "Total", "-"),
        number("available_devices", _devices("availableDevices"), "Free ones.", "Available", "-"),
        number("allocated_devices", _devices("allocatedDevices"), "Ones in use.", "Allocated", "-"),
        number(
            "unavailable_devices", _devices("unavailableDevices"), "Ones kept from use.", "Unavailable", "-"
        ),
        number(
            "error_count",
            case(
                (
                    both(_STATUS, negation(_ends("Failed"))),
                    count(_POOLS, present(path("validationError"))),
                )
            ),
            "Pools that could not be read.",
            "Errors",
            "-",
        ),
        number("pool_count", _POOL_COUNT, "Pools.", "Pools"),
        text(
            "status",
            case(
                (
                    both(_ends("Complete"), above(_POOL_COUNT, count(_POOLS))),
                    concat("Complete (", count(_POOLS), "/", _POOL_COUNT, " pools)"),
                ),
                (_ends("Complete"), "Complete"),
                (_ends("Failed"), "Failed"),
                otherwise="Pending",
            ),
            "Pending, Complete or Failed.",
            "Status",
        ),
        at(
            "completed_at",
            case(
                (
                    _ends("Complete"),
                    first(
                        items("status.conditions"),
                        moment("lastTransitionTime"),
                        both(equal(path("type"), "Complete"), equal(path("status"), "True")),
                    ),
                )
            ),
            "When it was answered.",
        ),
        since("Completed", Ref("completed_at", Type.TIME), "<none>"),
    ),
    namespaced=False,
)

SCHEDULING = (
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    WORKLOAD_OBJECTS,
    POD_GROUPS,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    DEVICE_TAINT_RULES,
    RESOURCE_POOL_STATUS_REQUESTS,
)
