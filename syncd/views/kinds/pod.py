"""Pods. Their status, readiness and restarts are computed as kubectl's printer computes them (printPod)."""

from __future__ import annotations

from syncd.views.duration import human
from syncd.views.expression import (
    Bound,
    Call,
    Expression,
    Key,
    Let,
    Named,
    Ref,
    Type,
    above,
    absent,
    add,
    among,
    boolean,
    both,
    case,
    coalesce,
    concat,
    condition,
    cores,
    count,
    either,
    elapsed,
    equal,
    exists,
    filled,
    first,
    integer,
    items,
    join,
    latest,
    moment,
    negation,
    nonempty,
    path,
    present,
    total,
    true,
    units,
    zero,
)
from syncd.views.view import AGE, Cell, View, at, json, number, quantity, slash, text, yes

_CONTAINERS = items("spec.containers")
_INIT_CONTAINERS = items("spec.initContainers")
_STATUSES = items("status.containerStatuses")
_INIT_STATUSES = items("status.initContainerStatuses")

_TERMINATED = present(path("state.terminated"))
_READY = true(boolean("ready"))
_RESTARTABLE = equal(path("restartPolicy"), "Always")

# Of an init container's status: whether its container is a sidecar, and whether it is done with.
_SIDECAR = exists(
    items("spec.initContainers", root=True), both(equal(path("name"), path("name", up=1)), _RESTARTABLE)
)
_STARTED_SIDECAR = both(true(boolean("started")), _SIDECAR)
_SUCCEEDED = both(_TERMINATED, equal(zero("state.terminated.exitCode"), 0))
_DONE = either(_SUCCEEDED, _STARTED_SIDECAR)


def _ending(prefix: str) -> Expression:
    """Why a container ended, in words."""
    signal = zero("state.terminated.signal")
    code = zero("state.terminated.exitCode")
    bare = case(
        (negation(equal(signal, 0)), concat(f"{prefix}Signal:", signal)),
        otherwise=concat(f"{prefix}ExitCode:", code),
    )
    return coalesce(concat(prefix, nonempty(path("state.terminated.reason"))), bare)


_WAITING = path("state.waiting.reason")
_INIT_REASON = first(
    _INIT_STATUSES,
    case(
        (_TERMINATED, _ending("Init:")),
        (
            both(filled(_WAITING), negation(equal(_WAITING, "PodInitializing"))),
            concat("Init:", _WAITING),
        ),
        otherwise=concat("Init:", Key(Type.INTEGER), "/", count(items("spec.initContainers", root=True))),
    ),
    negation(_DONE),
)
# The index of the init container that holds the pod up: those after it do not count. NULL: none does.
_HELD_AT = first(_INIT_STATUSES, Key(Type.INTEGER), negation(_DONE))
_HELD = Bound("held", Type.INTEGER)
_REACHED = either(absent(_HELD), negation(above(Key(Type.INTEGER), _HELD)))
_INITIALIZED = true(equal(condition("Initialized"), "True"))
_PAST_INIT = Bound("past", Type.BOOLEAN)


def _held(body: Expression) -> Let:
    """With `_HELD` and `_PAST_INIT`: whether the containers proper count already."""
    return Let("held", _HELD_AT, Let("past", either(absent(_HELD), _INITIALIZED), body))


_BUSY = either(filled(_WAITING), _TERMINATED)  # the container says something other than that it runs
_RUNS = both(_READY, present(path("state.running")), negation(_BUSY))
_CONTAINER_REASON = first(_STATUSES, coalesce(nonempty(_WAITING), _ending("")), _BUSY)
_FAILED_REASON = first(
    _STATUSES,
    _ending(""),
    both(negation(filled(_WAITING)), _TERMINATED, negation(equal(zero("state.terminated.exitCode"), 0))),
)
_CONDITIONS = items("status.conditions")
_GATED = exists(
    _CONDITIONS, both(equal(path("type"), "PodScheduled"), equal(path("reason"), "SchedulingGated"))
)
_IS_READY = exists(_CONDITIONS, both(equal(path("type"), "Ready"), equal(path("status"), "True")))
_HAS_RUNNING = exists(_STATUSES, _RUNS)
_PHASE = path("status.phase")
_BASE = case((_GATED, "SchedulingGated"), otherwise=coalesce(nonempty(path("status.reason")), _PHASE))
_REASON = Bound("reason")
_COMPLETED = both(equal(_REASON, "Completed"), _PAST_INIT)
_PRINTED = Let(
    "reason",
    coalesce(case((_PAST_INIT, _CONTAINER_REASON)), _INIT_REASON, _BASE),
    case(
        (both(_COMPLETED, _HAS_RUNNING, _IS_READY), "Running"),
        (both(_COMPLETED, present(_FAILED_REASON)), _FAILED_REASON),
        (both(_COMPLETED, _HAS_RUNNING), "NotReady"),
        otherwise=_REASON,
    ),
)
_DELETING = present(path("metadata.deletionTimestamp"))
STATUS = case(
    (both(_DELETING, equal(path("status.reason"), "NodeLost")), "Unknown"),
    (both(_DELETING, negation(among(_PHASE, "Failed", "Succeeded"))), "Terminating"),
    otherwise=_held(_PRINTED),
)
"""Pod's STATUS."""

_FINISHED = moment("lastState.terminated.finishedAt")
_COUNTED = both(_REACHED, either(Call("not", (_PAST_INIT,), Type.BOOLEAN), _SIDECAR))
_RESTARTS = _held(
    add(
        coalesce(total(_INIT_STATUSES, integer("restartCount"), _COUNTED), 0),
        case((_PAST_INIT, coalesce(total(_STATUSES, integer("restartCount")), 0)), otherwise=0),
    )
)
_LAST_RESTART = _held(
    Call(
        "greatest",
        (latest(_INIT_STATUSES, _FINISHED, _COUNTED), case((_PAST_INIT, latest(_STATUSES, _FINISHED)))),
        Type.TIME,
    )
)
_READY_CONTAINERS = _held(
    add(
        count(_INIT_STATUSES, both(_REACHED, negation(_SUCCEEDED), _STARTED_SIDECAR, _READY)),
        case((_PAST_INIT, count(_STATUSES, _RUNS)), otherwise=0),
    )
)
_TOTAL_CONTAINERS = add(count(_CONTAINERS), count(_INIT_CONTAINERS, _RESTARTABLE))
_GATES = items("spec.readinessGates")
_GATE_STATUS = first(
    items("status.conditions", root=True), path("status"), equal(path("type"), path("conditionType", up=1))
)


def _sum(field: str, resource: str) -> Expression:
    """Of the containers and sidecars; what the pod itself states as a whole comes first."""
    convert = cores if resource == "cpu" else units
    each = convert(path("resources", field, resource))
    plain, sidecars = Bound("plain", each.type), Bound("sidecars", each.type)
    sign = "+" if resource == "cpu" else "together"
    summed = coalesce(Call(sign, (plain, sidecars), each.type), plain, sidecars)
    both_sums = Let(
        "plain",
        total(_CONTAINERS, each),
        Let("sidecars", total(_INIT_CONTAINERS, each, _RESTARTABLE), summed),
    )
    whole = convert(path("spec.resources", field, resource))
    return Named(f"pod_{resource}_{field}", coalesce(whole, both_sums))


_NUMBER = Type.INTEGER
PODS = View(
    "pods",
    ("",),
    "Pod",
    "Pods: what runs, where, and how it is.",
    (
        number(
            "ready_containers",
            Named("pod_ready", _READY_CONTAINERS),
            "Containers, sidecars included, that are ready.",
        ),
        number("total_containers", _TOTAL_CONTAINERS, "Containers, sidecars included."),
        Cell("Ready", slash("ready_containers", "total_containers")),
        text(
            "status",
            Named("pod_status", STATUS),
            "What kubectl prints: CrashLoopBackOff, Init:0/2, Terminating, …",
            "Status",
        ),
        number("restarts", Named("pod_restarts", _RESTARTS), "Restarts of the containers and sidecars."),
        at(
            "last_restart_at",
            Named("pod_last_restart", _LAST_RESTART),
            "When a container last ended before a restart.",
        ),
        Cell(
            "Restarts",
            case(
                (
                    both(negation(equal(Ref("restarts", _NUMBER), 0)), present(Ref("last_restart_at"))),
                    concat(
                        Ref("restarts", _NUMBER),
                        " (",
                        human(elapsed(Ref("last_restart_at", Type.TIME))),
                        " ago)",
                    ),
                ),
                otherwise=concat(Ref("restarts", _NUMBER)),
            ),
            relative=True,
        ),
        AGE,
        text(
            "pod_ip",
            nonempty(coalesce(path("status.podIPs.0.ip"), path("status.podIP"))),
            "Its first address.",
            "IP",
            "<none>",
        ),
        text(
            "node",
            Named("pod_node", nonempty(path("spec.nodeName"))),
            "The node that it is bound to.",
            "Node",
            "<none>",
        ),
        text(
            "nominated_node",
            nonempty(path("status.nominatedNodeName")),
            "The node that is being made free for it.",
            "Nominated Node",
            "<none>",
        ),
        number("readiness_gates", count(_GATES), "Conditions that readiness asks for besides."),
        number(
            "readiness_gates_true", count(_GATES, equal(_GATE_STATUS, "True")), "Those of them that are true."
        ),
        Cell(
            "Readiness Gates",
            case(
                (
                    above(Ref("readiness_gates", _NUMBER), 0),
                    slash("readiness_gates_true", "readiness_gates"),
                ),
                otherwise="<none>",
            ),
        ),
        text(
            "phase",
            Named("pod_phase", _PHASE),
            "Pending, Running, Succeeded, Failed or Unknown; see status too.",
        ),
        text("status_reason", "status.reason", "Why it is in its phase, as in Evicted."),
        text("status_message", "status.message", "The same for people."),
        yes("ready", equal(condition("Ready"), "True"), "Whether its condition Ready is true."),
        yes("scheduled", equal(condition("PodScheduled"), "True"), "Whether it has found a node."),
        text("qos_class", "status.qosClass", "Guaranteed, Burstable or BestEffort."),
        text("service_account", "spec.serviceAccountName", "The service account that it runs as."),
        text("priority_class", "spec.priorityClassName", "Its priority class."),
        number("priority", "spec.priority", "Its priority."),
        text("scheduler", "spec.schedulerName", "The scheduler that places it."),
        text("runtime_class", "spec.runtimeClassName", "Its runtime class."),
        text("restart_policy", "spec.restartPolicy", "Always, OnFailure or Never."),
        text("host_ip", "status.hostIP", "The address of its node."),
        yes(
            "host_network",
            coalesce(boolean("spec.hostNetwork"), False),
            "Whether it uses its node's network.",
        ),
        text("containers", join(_CONTAINERS, path("name")), "Names of its containers."),
        text("images", join(_CONTAINERS, path("image")), "Images of its containers, as they were asked for."),
        text("init_containers", join(_INIT_CONTAINERS, path("name")), "Names of its init containers."),
        quantity("cpu_requests", _sum("requests", "cpu"), "CPU requested, in cores."),
        quantity("cpu_limits", _sum("limits", "cpu"), "Limit of CPU, in cores."),
        number("memory_requests", _sum("requests", "memory"), "Memory requested, in bytes."),
        number("memory_limits", _sum("limits", "memory"), "Limit of memory, in bytes."),
        json("node_selector", "spec.nodeSelector", "Labels that its node must have."),
        json("tolerations", "spec.tolerations", "Taints that it puts up with."),
        at("started_at", "status.startTime", "When its node took it up."),
    ),
)
