"""What pods run: their containers, of every sort, with the images and the ports of those."""

from __future__ import annotations

from dataclasses import replace

from syncd.views.expression import (
    Bound,
    Expression,
    Let,
    Path,
    Type,
    above,
    add,
    boolean,
    both,
    call,
    case,
    coalesce,
    concat,
    cores,
    count,
    default,
    either,
    equal,
    integer,
    items,
    literal,
    moment,
    negation,
    nonempty,
    path,
    present,
    units,
)
from syncd.views.part import Beside, Part, Rows
from syncd.views.view import at, number, quantity, text, yes

_PODS = (("", "pods"),)
_RESTARTABLE = equal(path("restartPolicy", up=1), "Always")
_SORTS: tuple[tuple[str, str, Expression], ...] = (
    ("spec.containers", "status.containerStatuses", literal("main")),
    (
        "spec.initContainers",
        "status.initContainerStatuses",
        case((_RESTARTABLE, "sidecar"), otherwise="init"),
    ),
    ("spec.ephemeralContainers", "status.ephemeralContainerStatuses", literal("ephemeral")),
)
_SORT = text("type", "", "main, init, sidecar (an init container that stays) or ephemeral (for debugging).")


def _rows(*, inner: str = "") -> tuple[Rows, ...]:
    """A row a container with its status beside it, or a row an item of a list in it."""
    if inner:
        sidecar = case((_RESTARTABLE, "sidecar"), otherwise="init")
        return tuple(
            Rows(_PODS, (items(place), items(inner)), values={"type": sidecar if "init" in place else sort})
            for place, _, sort in _SORTS
            if "ephemeral" not in place  # they have none
        )
    named = equal(path("name"), path("name", up=1))
    return tuple(
        Rows(_PODS, (items(place),), Beside(items(status, root=True), named), values={"type": sort})
        for place, status, sort in _SORTS
    )


def _asked(*keys: str) -> Path:
    """Of the container, where its status is the item at hand."""
    return path("", *keys, up=1)


def _state(field: str) -> Expression:
    return coalesce(path("state", "waiting", field), path("state", "terminated", field))


_STATE = case(
    (present(path("state.running")), "running"),
    (present(path("state.waiting")), "waiting"),
    (present(path("state.terminated")), "terminated"),
)
_PROBED = "Whether it has a {} probe."

CONTAINERS = Part(
    "containers",
    "Containers of pods: main ones, init containers, sidecars and ephemeral ones, with how they are.",
    (
        text("container_name", _asked("name"), "The container's name."),
        _SORT,
        text("image", _asked("image"), "The image as it was asked for."),
        text("state", _STATE, "waiting, running or terminated; NULL before the node reports."),
        text("reason", _state("reason"), "Why it waits or ended: CrashLoopBackOff, OOMKilled, Completed, …"),
        text("message", _state("message"), "The same for people."),
        yes("ready", "ready", "Whether it is ready; of an init container, whether it is done."),
        yes("started", "started", "Whether it has started, as its startup probe says."),
        number("restarts", "restartCount", "How often it was restarted."),
        number("exit_code", "state.terminated.exitCode", "With what it ended, where it has ended."),
        at(
            "started_at",
            coalesce(moment("state.running.startedAt"), moment("state.terminated.startedAt")),
            "When it started.",
        ),
        at("finished_at", "state.terminated.finishedAt", "When it ended."),
        text("last_reason", "lastState.terminated.reason", "Why it ended the time before."),
        number("last_exit_code", "lastState.terminated.exitCode", "With what it ended the time before."),
        at("last_finished_at", "lastState.terminated.finishedAt", "When it ended the time before."),
        text("image_id", nonempty(path("imageID")), "The image that it runs, by digest."),
        text("container_id", nonempty(path("containerID")), "Its id at the runtime: `containerd://…`."),
        number(
            "ports",
            count(replace(items("ports"), path=path("ports", kind=Type.JSON, up=1))),
            "How many ports it declares.",
        ),
        quantity("cpu_requests", cores(_asked("resources", "requests", "cpu")), "CPU requested, in cores."),
        quantity("cpu_limits", cores(_asked("resources", "limits", "cpu")), "Limit of CPU, in cores."),
        number(
            "memory_requests", units(_asked("resources", "requests", "memory")), "Memory requested, in bytes."
        ),
        number("memory_limits", units(_asked("resources", "limits", "memory")), "Limit of memory, in bytes."),
        text("image_pull_policy", _asked("imagePullPolicy"), "Always, IfNotPresent or Never."),
        yes("liveness_probe", present(_asked("livenessProbe")), _PROBED.format("liveness")),
        yes("readiness_probe", present(_asked("readinessProbe")), _PROBED.format("readiness")),
        yes("startup_probe", present(_asked("startupProbe")), _PROBED.format("startup")),
        yes(
            "privileged",
            coalesce(boolean("securityContext.privileged", up=1), False),
            "Whether it is privileged.",
        ),
        yes(
            "read_only_root",
            coalesce(boolean("securityContext.readOnlyRootFilesystem", up=1), False),
            "Whether it cannot write to its root file system.",
        ),
        yes(
            "run_as_non_root",
            boolean("securityContext.runAsNonRoot", up=1),
            "What it says of that by itself, pod aside.",
        ),
        number(
            "run_as_user",
            integer("securityContext.runAsUser", up=1),
            "What it says of that by itself, pod aside.",
        ),
    ),
    _rows(),
)

# A reference is [registry/]repository[:tag][@digest]. What is before the first slash is a registry where it
# has a dot or a colon, or is localhost (distribution/reference, as Docker and containerd read it).
_IMAGE, _BASE, _HEAD, _REST = Bound("image"), Bound("base"), Bound("head"), Bound("rest")


def _find(value: Expression, part: str) -> Expression:
    return call("find", Type.INTEGER, value, part)


def _before(value: Expression, part: str) -> Expression:
    """What precedes the first `part`, NULL where there is none."""
    place = _find(value, part)
    return case((above(place, 0), call("substr", Type.TEXT, value, 1, call("-", Type.INTEGER, place, 1))))


def _after(value: Expression, part: str) -> Expression:
    """What follows the first `part`, NULL where there is none."""
    return case((above(_find(value, part), 0), call("substr", Type.TEXT, value, add(_find(value, part), 1))))


_IS_REGISTRY = either(above(_find(_HEAD, "."), 0), above(_find(_HEAD, ":"), 0), equal(_HEAD, "localhost"))
_NAMED = coalesce(_before(_REST, ":"), _REST)
_REGISTRY = case(
    (negation(_IS_REGISTRY), "docker.io"), (equal(_HEAD, "index.docker.io"), "docker.io"), otherwise=_HEAD
)
_REPOSITORY = case(
    (
        both(equal(_REGISTRY, "docker.io"), equal(_find(_NAMED, "/"), 0)),
        concat("library/", _NAMED),
    ),
    otherwise=_NAMED,
)
_TAG = coalesce(_after(_REST, ":"), case((equal(_find(_IMAGE, "@"), 0), "latest")))


def _parsed(part: Expression) -> Expression:
    """A part of the container's image, whose reference is taken apart around it."""
    rest = Let("rest", case((_IS_REGISTRY, _after(_BASE, "/")), otherwise=_BASE), part)
    head = Let("head", coalesce(_before(_BASE, "/"), ""), rest)
    base = Let("base", coalesce(_before(_IMAGE, "@"), _IMAGE), head)
    return Let("image", nonempty(_asked("image")), case((present(_IMAGE), base)))


CONTAINER_IMAGES = Part(
    "container_images",
    "Images of the containers of pods, taken apart as Docker does it.",
    (
        text("container_name", _asked("name"), "The container's name."),
        _SORT,
        text("image", _asked("image"), "The image as it was asked for."),
        text("registry", _parsed(_REGISTRY), "The registry's host; docker.io where none is named."),
        text("repository", _parsed(_REPOSITORY), "The repository, with `library/` for Docker's own."),
        text("tag", _parsed(_TAG), "The tag; latest where neither tag nor digest is named."),
        text("digest", _after(_asked("image"), "@"), "The digest, where one is named."),
        text("running_digest", _after(path("imageID"), "@"), "The digest of what runs, as its node says."),
    ),
    _rows(),
)

CONTAINER_PORTS = Part(
    "container_ports",
    "Ports that the containers of pods declare.",
    (
        text("container_name", path("name", up=1), "The container's name."),
        _SORT,
        text("port_name", "name", "The port's name."),
        number("container_port", "containerPort", "The port."),
        text("protocol", default(path("protocol"), "TCP"), "TCP, UDP or SCTP."),
        number("host_port", "hostPort", "The port of the node that leads to it."),
        text("host_ip", "hostIP", "The address of the node that it is bound to."),
    ),
    _rows(inner="ports"),
)
