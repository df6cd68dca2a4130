"""What guards pods and scales what makes them."""

from __future__ import annotations

from syncd.views.expression import (
    Case,
    Key,
    Over,
    Ref,
    Type,
    both,
    case,
    coalesce,
    concat,
    condition,
    equal,
    exists,
    first,
    integer,
    items,
    path,
    present,
    scalar,
    some,
    zero,
)
from syncd.views.selector import label_selector
from syncd.views.view import AGE, Cell, View, at, json, number, text, yes

POD_DISRUPTION_BUDGETS = View(
    "poddisruptionbudgets",
    ("policy",),
    "PodDisruptionBudget",
    "Pod disruption budgets: how many pods may be away at once.",
    (
        text("min_available", scalar("spec.minAvailable"), "A number or a share.", "Min Available", "N/A"),
        text(
            "max_unavailable", scalar("spec.maxUnavailable"), "A number or a share.", "Max Unavailable", "N/A"
        ),
        number(
            "allowed_disruptions",
            zero("status.disruptionsAllowed"),
            "Pods that may go now.",
            "Allowed Disruptions",
        ),
        AGE,
        number("current_healthy", zero("status.currentHealthy"), "Pods that are well."),
        number("desired_healthy", zero("status.desiredHealthy"), "Pods that must be well."),
        number("expected_pods", zero("status.expectedPods"), "Pods that it counts."),
        text("selector", label_selector("spec.selector"), "Which pods it guards."),
        json("selector_json", "spec.selector", "The same as it is in the object."),
    ),
)

# --- horizontal pod autoscalers -------------------------------------------------------------------

_CURRENT = items("status.currentMetrics", root=True)
_SAME_PLACE = equal(Key(Type.INTEGER), Key(Type.INTEGER, up=1))


def _current(source: str, field: str) -> Over:
    """A field of the status at the metric's place in the list, if that is of the same kind."""
    return first(_CURRENT, path(f"{source}.current.{field}"), _SAME_PLACE)


def _amount(source: str, field: str) -> Case:
    """Where the status does not say, kubectl prints a pointer that nobody looked at."""
    there = exists(_CURRENT, both(_SAME_PLACE, present(path(source))))
    return case((there, coalesce(_current(source, field), "<nil>")), otherwise="<unknown>")


def _resource(source: str) -> Case:
    target = path(f"{source}.target.averageValue")
    percent = path(f"{source}.target.averageUtilization")
    name = concat(coalesce(path(f"{source}.name"), ""), ": ")
    by_value = concat(name, _amount(source, "averageValue"), "/", target)
    used = coalesce(concat(_current(source, "averageUtilization"), "%"), "<unknown>")
    by_share = concat(name, used, "/", coalesce(concat(percent, "%"), "<auto>"))
    return case((present(target), by_value), otherwise=by_share)


def _valued(source: str) -> Case:
    average = path(f"{source}.target.averageValue")
    used = coalesce(_current(source, "averageValue"), "<unknown>")
    plain = concat(_amount(source, "value"), "/", coalesce(path(f"{source}.target.value"), "<nil>"))
    return case((present(average), concat(used, "/", average, " (avg)")), otherwise=plain)


_KIND = path("type")
_METRIC = case(
    (equal(_KIND, "Resource"), _resource("resource")),
    (equal(_KIND, "ContainerResource"), _resource("containerResource")),
    (
        equal(_KIND, "Pods"),
        concat(_amount("pods", "averageValue"), "/", coalesce(path("pods.target.averageValue"), "<nil>")),
    ),
    (equal(_KIND, "Object"), _valued("object")),
    (equal(_KIND, "External"), _valued("external")),
    otherwise="<unknown type>",
)
# autoscaling/v1 knows the share of CPU alone.
_OLD_TARGET = concat(
    "cpu: ",
    coalesce(concat(integer("status.currentCPUUtilizationPercentage"), "%"), "<unknown>"),
    "/",
    integer("spec.targetCPUUtilizationPercentage"),
    "%",
)
AUTOSCALERS = View(
    "horizontalpodautoscalers",
    ("autoscaling",),
    "HorizontalPodAutoscaler",
    "Horizontal pod autoscalers: how many copies something has, by what it uses.",
    (
        text("target_kind", "spec.scaleTargetRef.kind", "Kind of what it scales."),
        text("target_name", "spec.scaleTargetRef.name", "Name of what it scales."),
        Cell("Reference", concat(coalesce(Ref("target_kind"), ""), "/", coalesce(Ref("target_name"), ""))),
        text(
            "targets",
            coalesce(some(items("spec.metrics"), _METRIC, 2, ", "), _OLD_TARGET),
            "How it stands and should stand: `cpu: 40%/80%`.",
            "Targets",
            "<none>",
        ),
        number("min_replicas", "spec.minReplicas", "Copies at least.", "MinPods", "<unset>"),
        number("max_replicas", zero("spec.maxReplicas"), "Copies at most.", "MaxPods"),
        number("current_replicas", zero("status.currentReplicas"), "Copies that there are.", "Replicas"),
        AGE,
        number("desired_replicas", zero("status.desiredReplicas"), "Copies that it wants."),
        at("last_scale_at", "status.lastScaleTime", "When it last changed the number."),
        yes("able_to_scale", equal(condition("AbleToScale"), "True"), "Whether it can."),
        yes("scaling_active", equal(condition("ScalingActive"), "True"), "Whether it does."),
        yes("scaling_limited", equal(condition("ScalingLimited"), "True"), "Whether a bound stops it."),
    ),
)

SCALING = (POD_DISRUPTION_BUDGETS, AUTOSCALERS)
