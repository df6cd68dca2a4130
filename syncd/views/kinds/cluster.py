"""Nodes, namespaces and what bounds them."""

from __future__ import annotations

from syncd.views.expression import (
    ITEM,
    Call,
    Expression,
    Key,
    Over,
    Ref,
    Type,
    boolean,
    both,
    call,
    case,
    coalesce,
    concat,
    cores,
    count,
    entries,
    equal,
    first,
    integer,
    items,
    join,
    last,
    moment,
    negation,
    nonempty,
    path,
    present,
    starts,
    units,
)
from syncd.views.view import (
    AGE,
    CREATED,
    Cell,
    Member,
    View,
    at,
    json,
    number,
    quantity,
    since,
    text,
    yes,
)

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
_ENFORCED = "pod-security.kubernetes.io/enforce"
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

NAMESPACES = View(
    "namespaces",
    ("",),
    "Namespace",
    "Namespaces.",
    (
        text("status", "status.phase", "Active or Terminating.", "Status"),
        AGE,
        text("pod_security", path("metadata.labels", _ENFORCED), "The pod security standard it enforces."),
        text(
            "deletion_trouble",
            first(
                items("status.conditions"),
                path("message"),
                both(equal(path("status"), "True"), starts(path("type"), "Namespace")),
            ),
            "What keeps it from going.",
        ),
    ),
    namespaced=False,
)


def _usage(limits: bool) -> Over:
    of_limits = starts(Key(), "limits.")
    used = first(entries("status.used", root=True), ITEM, equal(Key(), Key(up=1)))
    line = concat(Key(), ": ", coalesce(used, "0"), "/", ITEM)
    return join(entries("status.hard"), line, ", ", where=of_limits if limits else negation(of_limits))


def _hard(resource: str) -> Expression:
    return path("status.hard", resource)


RESOURCE_QUOTAS = View(
    "resourcequotas",
    ("",),
    "ResourceQuota",
    "Resource quotas: how much a namespace may use.",
    (
        text("request_usage", _usage(False), "What is used of what: `pods: 3/10, …`.", "Request"),
        text("limit_usage", _usage(True), "The same for limits.", "Limit"),
        AGE,
        number("pods_hard", units(_hard("pods")), "Pods that there may be."),
        number("pods_used", units(path("status.used.pods")), "Pods that count."),
        quantity("cpu_requests_hard", cores(_hard("requests.cpu")), "CPU that may be requested, in cores."),
        quantity("cpu_requests_used", cores(path("status.used", "requests.cpu")), "CPU requested, in cores."),
        number("memory_requests_hard", units(_hard("requests.memory")), "Memory to request, in bytes."),
        number(
            "memory_requests_used",
            units(path("status.used", "requests.memory")),
            "Memory requested, in bytes.",
        ),
        json("hard", "status.hard", "All bounds."),
        json("used", "status.used", "All that is used."),
    ),
)

LIMIT_RANGES = View(
    "limitranges",
    ("",),
    "LimitRange",
    "Limit ranges: bounds and defaults for what pods ask for.",
    (
        CREATED,
        json("bounds", "spec.limits", "The bounds."),
        number("bound_count", count(items("spec.limits")), "How many."),
    ),
)

LEASES = View(
    "leases",
    ("coordination.k8s.io",),
    "Lease",
    "Leases: who leads, which node lives.",
    (
        text("holder", "spec.holderIdentity", "Who has it.", "Holder"),
        AGE,
        at("acquired_at", "spec.acquireTime", "Since when."),
        at("renewed_at", "spec.renewTime", "When it was last renewed."),
        number("duration_seconds", "spec.leaseDurationSeconds", "How long it lasts without."),
        number("transitions", "spec.leaseTransitions", "How often it changed hands."),
    ),
)

LEASE_CANDIDATES = View(
    "leasecandidates",
    ("coordination.k8s.io",),
    "LeaseCandidate",
    "Who would take a lease.",
    (
        text("lease", "spec.leaseName", "The lease.", "LeaseName"),
        text("binary_version", "spec.binaryVersion", "Its version.", "BinaryVersion"),
        text(
            "emulation_version", "spec.emulationVersion", "The version that it acts as.", "EmulationVersion"
        ),
        AGE,
        at("renewed_at", "spec.renewTime", "When it last said so."),
    ),
)

_HEALTHY = items("conditions")


def _healthy(field: str) -> Over:
    return first(_HEALTHY, path(field), equal(path("type"), "Healthy"))


COMPONENT_STATUSES = View(
    "componentstatuses",
    ("",),
    "ComponentStatus",
    "Parts of the control plane, in a form that is passing away.",
    (
        text(
            "status",
            case(
                (equal(_healthy("status"), "True"), "Healthy"),
                (present(_healthy("status")), "Unhealthy"),
                otherwise="Unknown",
            ),
            "Healthy, Unhealthy or Unknown.",
            "Status",
        ),
        text("message", _healthy("message"), "What it says.", "Message"),
        text("error", _healthy("error"), "What is wrong.", "Error"),
    ),
    namespaced=False,
)

# Both shapes: of the core group, and of events.k8s.io, where old fields are `deprecated…`.
_FIRST_SEEN = coalesce(moment("firstTimestamp"), moment("deprecatedFirstTimestamp"), moment("eventTime"))
_LAST_SEEN = coalesce(
    moment("series.lastObservedTime"), moment("lastTimestamp"), moment("deprecatedLastTimestamp"), _FIRST_SEEN
)
_COUNT = coalesce(integer("count"), integer("deprecatedCount"), 0)
_OCCURRENCES = case(
    (present(path("series")), coalesce(integer("series.count"), 0)), (equal(_COUNT, 0), 1), otherwise=_COUNT
)
# kubectl takes what a series says of itself, and nothing else where there is one.
_LAST_SHOWN = case(
    (present(path("series")), moment("series.lastObservedTime")), otherwise=Ref("last_observed_at", Type.TIME)
)
_COMPONENT = coalesce(
    nonempty(path("source.component")),
    nonempty(path("deprecatedSource.component")),
    nonempty(path("reportingComponent")),
    nonempty(path("reportingController")),
)
_INSTANCE = coalesce(
    nonempty(path("source.host")),
    nonempty(path("deprecatedSource.host")),
    nonempty(path("reportingInstance")),
)


def _about(field: str) -> Call:
    return coalesce(path(f"involvedObject.{field}"), path(f"regarding.{field}"))


def _event_members() -> tuple[Member, ...]:
    target = call("lower", Type.TEXT, Ref("involved_kind"))
    named = nonempty(Ref("involved_name"))
    return (
        at("last_observed_at", _LAST_SEEN, "When it last happened."),
        since("Last Seen", _LAST_SHOWN),
        text("type", "type", "Normal or Warning.", "Type"),
        text("reason", "reason", "Why, in a word.", "Reason"),
        text("involved_kind", _about("kind"), "Kind of what it is about."),
        text("involved_namespace", _about("namespace"), "Its namespace."),
        text("involved_name", _about("name"), "Its name."),
        text("involved_uid", _about("uid"), "Its uid."),
        Cell("Object", concat(coalesce(target, ""), coalesce(concat("/", named), ""))),
        text("subobject", _about("fieldPath"), "Which part of it, as a container.", "Subobject"),
        text("source_component", _COMPONENT, "What says so."),
        text("source_instance", _INSTANCE, "Which one of it, often a node."),
        Cell(
            "Source",
            concat(coalesce(Ref("source_component"), ""), coalesce(concat(", ", Ref("source_instance")), "")),
        ),
        text("message", coalesce(path("message"), path("note")), "What happened, for people."),
        Cell("Message", call("trim", Type.TEXT, Ref("message"))),
        at("first_observed_at", _FIRST_SEEN, "When it first happened."),
        since("First Seen", Ref("first_observed_at", Type.TIME)),
        number("occurrences", _OCCURRENCES, "How often it happened.", "Count"),
        Cell("Name", Ref("name")),
        text("action_taken", "action", "What was being done."),
    )


# Both groups serve one storage, and a mirror has one of them: the short name shows whichever it is.
EVENTS = View(
    "events",
    ("",),
    "Event",
    "Events: what happened to objects.",
    _event_members(),
    short_groups=("", "events.k8s.io"),
)
GROUP_EVENTS = View("events", ("events.k8s.io",), "Event", "Events of the newer group.", _event_members())

CLUSTER = (
    NODES,
    NAMESPACES,
    EVENTS,
    GROUP_EVENTS,
    RESOURCE_QUOTAS,
    LIMIT_RANGES,
    LEASES,
    LEASE_CANDIDATES,
    COMPONENT_STATUSES,
)
