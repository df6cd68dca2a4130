"""What makes pods: deployments and their like, jobs, templates."""

from __future__ import annotations

from syncd.views.expression import (
    items,
    join,
    path,
    zero,
)
from syncd.views.selector import label_selector
from syncd.views.view import AGE, Cell, Column, View, json, number, slash, text


def containers(place: str) -> tuple[Column, Column]:
    """The names and images of a pod template's containers."""
    listed = items(f"{place}.spec.containers")
    return (
        text("containers", join(listed, path("name")), "Names of the containers.", "Containers"),
        text("images", join(listed, path("image")), "Images of the containers.", "Images"),
    )


def selector(place: str) -> tuple[Column, Column]:
    """A label selector as text and as it is."""
    return (
        text(
            "selector",
            label_selector(place),
            "Which pods are its own, as kubectl writes it.",
            "Selector",
            "<none>",
        ),
        json("selector_json", place, "The same as it is in the object."),
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
        number(
            "updated_replicas", zero("status.updatedReplicas"), "Pods of the newest template.", "Up-to-date"
        ),
        number(
            "available_replicas", zero("status.availableReplicas"), "Pods that are available.", "Available"
        ),
        AGE,
        *containers("spec.template"),
        *selector("spec.selector"),
    ),
)
