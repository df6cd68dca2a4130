"""What makes pods: deployments and their like, jobs, templates."""

from __future__ import annotations

from syncd.views.duration import human
from syncd.views.expression import (
    Call,
    Expression,
    Ref,
    Type,
    above,
    boolean,
    call,
    case,
    coalesce,
    concat,
    condition,
    count,
    elapsed,
    equal,
    first,
    items,
    join,
    path,
    present,
    subtract,
    true,
    zero,
)
from syncd.views.selector import label_selector, labels_text
from syncd.views.view import AGE, Cell, Column, View, at, json, number, slash, text, yes


def containers(place: str) -> tuple[Column, Column]:
    """The names and images of a pod template's containers."""
    listed = items(f"{place}.spec.containers")
    return (
        text("containers", join(listed, path("name")), "Names of the containers.", "Containers"),
        text("images", join(listed, coalesce(path("image"), "")), "Images of the containers.", "Images"),
    )


def selector(place: str) -> tuple[Column, Column]:
    """A label selector as text and as it is."""
    return (
        text("selector", label_selector(place), "Which pods are its own.", "Selector", "<none>"),
        json("selector_json", place, "The same as it is in the object."),
    )


def _asks(place: str) -> tuple[Column, ...]:
    """What the pods of a template ask for."""
    return (
        text("service_account", f"{place}.spec.serviceAccountName", "Its pods run as this account."),
        text("priority_class", f"{place}.spec.priorityClassName", "Priority class of its pods."),
    )


DEPLOYMENTS = View(
    "deployments",
    ("apps",),
    "Deployment",
    "Deployments: what shall run in how many copies.",
    (
        number("ready_replicas", zero("status.readyReplicas"), "Pods that are ready."),
        number("replicas", zero("spec.replicas"), "Pods that are wanted."),
        Cell("Ready", slash("ready_replicas", "replicas")),
        number("updated_replicas", zero("status.updatedReplicas"), "Pods of the new template.", "Up-to-date"),
        number("available_replicas", zero("status.availableReplicas"), "Pods fit for use.", "Available"),
        AGE,
        *containers("spec.template"),
        text("selector", label_selector("spec.selector"), "Which pods are its own.", "Selector"),
        json("selector_json", "spec.selector", "The same as it is in the object."),
        number("unavailable_replicas", zero("status.unavailableReplicas"), "Pods that are missing."),
        text("strategy", "spec.strategy.type", "RollingUpdate or Recreate."),
        yes("paused", coalesce(boolean("spec.paused"), False), "Whether it is held."),
        yes("available", equal(condition("Available"), "True"), "Whether its condition Available is true."),
        text("progressing_reason", condition("Progressing", "reason"), "How its roll-out goes."),
        number("observed_generation", "status.observedGeneration", "The generation that was acted on."),
        *_asks("spec.template"),
    ),
)

REPLICA_SETS = View(
    "replicasets",
    ("apps",),
    "ReplicaSet",
    "Replica sets: so many pods of one template, most often for a deployment.",
    (
        number("replicas", zero("spec.replicas"), "Pods that are wanted.", "Desired"),
        number("current_replicas", zero("status.replicas"), "Pods that there are.", "Current"),
        number("ready_replicas", zero("status.readyReplicas"), "Pods that are ready.", "Ready"),
        AGE,
        *containers("spec.template"),
        *selector("spec.selector"),
        number("available_replicas", zero("status.availableReplicas"), "Pods fit for use."),
        *_asks("spec.template"),
    ),
)

REPLICATION_CONTROLLERS = View(
    "replicationcontrollers",
    ("",),
    "ReplicationController",
    "Replication controllers: what came before replica sets.",
    (
        number("replicas", zero("spec.replicas"), "Pods that are wanted.", "Desired"),
        number("current_replicas", zero("status.replicas"), "Pods that there are.", "Current"),
        number("ready_replicas", zero("status.readyReplicas"), "Pods that are ready.", "Ready"),
        AGE,
        *containers("spec.template"),
        text("selector", labels_text("spec.selector"), "The labels of its pods.", "Selector", "<none>"),
        json("selector_json", "spec.selector", "The same as it is in the object."),
        number("available_replicas", zero("status.availableReplicas"), "Pods fit for use."),
        *_asks("spec.template"),
    ),
)

STATEFUL_SETS = View(
    "statefulsets",
    ("apps",),
    "StatefulSet",
    "Stateful sets: pods with a name and volumes of their own.",
    (
        number("ready_replicas", zero("status.readyReplicas"), "Pods that are ready."),
        number("replicas", zero("spec.replicas"), "Pods that are wanted."),
        Cell("Ready", slash("ready_replicas", "replicas")),
        AGE,
        *containers("spec.template"),
        *(Column(one.name, one.type, one.value, one.description) for one in selector("spec.selector")),
        number("current_replicas", zero("status.currentReplicas"), "Pods of the current template."),
        number("updated_replicas", zero("status.updatedReplicas"), "Pods of the new template."),
        number("available_replicas", zero("status.availableReplicas"), "Pods fit for use."),
        text("service", "spec.serviceName", "The service that names its pods."),
        text("strategy", "spec.updateStrategy.type", "RollingUpdate or OnDelete."),
        *_asks("spec.template"),
    ),
)

DAEMON_SETS = View(
    "daemonsets",
    ("apps",),
    "DaemonSet",
    "Daemon sets: a pod on every node that fits.",
    (
        number("desired", zero("status.desiredNumberScheduled"), "Nodes that shall have it.", "Desired"),
        number("scheduled", zero("status.currentNumberScheduled"), "Nodes that have it.", "Current"),
        number("ready", zero("status.numberReady"), "Nodes where it is ready.", "Ready"),
        number("updated", zero("status.updatedNumberScheduled"), "Of the new template.", "Up-to-date"),
        number("available", zero("status.numberAvailable"), "Nodes where it is fit for use.", "Available"),
        text(
            "node_selector",
            labels_text("spec.template.spec.nodeSelector"),
            "Labels that its nodes must have.",
            "Node Selector",
            "<none>",
        ),
        AGE,
        *containers("spec.template"),
        *selector("spec.selector"),
        number("unavailable", zero("status.numberUnavailable"), "Nodes where it is missing."),
        number("misscheduled", zero("status.numberMisscheduled"), "Nodes that have it and should not."),
        text("strategy", "spec.updateStrategy.type", "RollingUpdate or OnDelete."),
        *_asks("spec.template"),
    ),
)


def _is(kind: str) -> Expression:
    return true(equal(condition(kind), "True"))


_STARTED, _COMPLETED = Ref("started_at", Type.TIME), Ref("completed_at", Type.TIME)
_SUCCEEDED = Ref("succeeded", Type.INTEGER)
JOBS = View(
    "jobs",
    ("batch",),
    "Job",
    "Jobs: pods that run to an end.",
    (
        text(
            "status",
            case(
                (_is("Complete"), "Complete"),
                (_is("Failed"), "Failed"),
                (present(path("metadata.deletionTimestamp")), "Terminating"),
                (_is("Suspended"), "Suspended"),
                (_is("FailureTarget"), "FailureTarget"),
                (_is("SuccessCriteriaMet"), "SuccessCriteriaMet"),
                otherwise="Running",
            ),
            "Running, Complete, Failed, Suspended, Terminating, …",
            "Status",
        ),
        number("succeeded", zero("status.succeeded"), "Pods that succeeded."),
        number("completions", "spec.completions", "Pods that shall succeed; NULL: one is enough."),
        number("parallelism", "spec.parallelism", "Pods that may run at once."),
        Cell(
            "Completions",
            case(
                (present(Ref("completions")), slash("succeeded", "completions")),
                (
                    above(Ref("parallelism", Type.INTEGER), 1),
                    concat(_SUCCEEDED, "/1 of ", Ref("parallelism", Type.INTEGER)),
                ),
                otherwise=concat(_SUCCEEDED, "/1"),
            ),
        ),
        at("started_at", "status.startTime", "When it began."),
        at("completed_at", "status.completionTime", "When it succeeded."),
        Cell(
            "Duration",
            coalesce(human(elapsed(_STARTED, coalesce(_COMPLETED, Call("now", (), Type.TIME)))), ""),
            relative=True,
        ),
        AGE,
        *containers("spec.template"),
        *selector("spec.selector"),
        number("active", zero("status.active"), "Pods that run."),
        number("failed", zero("status.failed"), "Pods that failed."),
        number("backoff_limit", "spec.backoffLimit", "Failures that it bears."),
        yes("suspended", coalesce(boolean("spec.suspend"), False), "Whether it is held."),
        text("failure_reason", condition("Failed", "reason"), "Why it failed."),
        *_asks("spec.template"),
    ),
)

_SUSPEND = boolean("spec.suspend")
CRON_JOBS = View(
    "cronjobs",
    ("batch",),
    "CronJob",
    "Cron jobs: jobs by the clock.",
    (
        text("schedule", "spec.schedule", "When, in cron's words.", "Schedule"),
        text("time_zone", "spec.timeZone", "In which time zone.", "Timezone", "<none>"),
        yes("suspended", coalesce(_SUSPEND, False), "Whether it is held."),
        Cell(
            "Suspend",
            case((_SUSPEND, "True"), (Call("not", (_SUSPEND,), Type.BOOLEAN), "False"), otherwise="<unset>"),
        ),
        number("active", count(items("status.active")), "Jobs of it that run.", "Active"),
        at("last_schedule_at", "status.lastScheduleTime", "When it last began a job."),
        Cell(
            "Last Schedule",
            coalesce(human(elapsed(Ref("last_schedule_at", Type.TIME))), "<none>"),
            relative=True,
        ),
        AGE,
        *containers("spec.jobTemplate.spec.template"),
        *selector("spec.jobTemplate.spec.selector"),
        at("last_successful_at", "status.lastSuccessfulTime", "When a job of it last succeeded."),
        text("concurrency_policy", "spec.concurrencyPolicy", "Allow, Forbid or Replace."),
        *_asks("spec.jobTemplate.spec.template"),
    ),
)

POD_TEMPLATES = View(
    "podtemplates",
    ("",),
    "PodTemplate",
    "Pod templates that stand by themselves.",
    (
        *containers("template"),
        text("pod_labels", labels_text("template.metadata.labels"), "Its labels.", "Pod Labels", "<none>"),
    ),
)

_OWNERS = items("metadata.ownerReferences")
_GROUP_END = call("find", Type.INTEGER, path("apiVersion"), "/")
_GROUP = call("substr", Type.TEXT, path("apiVersion"), 1, subtract(_GROUP_END, 1))
_QUALIFIED = concat(path("kind"), case((above(_GROUP_END, 0), concat(".", _GROUP)), otherwise=""))
CONTROLLER_REVISIONS = View(
    "controllerrevisions",
    ("apps",),
    "ControllerRevision",
    "Controller revisions: the states that a daemon set or stateful set had.",
    (
        text(
            "controller",
            first(
                _OWNERS,
                concat(call("lower", Type.TEXT, _QUALIFIED), "/", path("name")),
                true(boolean("controller")),
            ),
            "Whose state it is: `statefulset.apps/web`.",
            "Controller",
            "<none>",
        ),
        number("revision", "revision", "Its number.", "Revision", "0"),
        AGE,
    ),
)

WORKLOADS = (
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
    CRON_JOBS,
    REPLICATION_CONTROLLERS,
    POD_TEMPLATES,
    CONTROLLER_REVISIONS,
)
