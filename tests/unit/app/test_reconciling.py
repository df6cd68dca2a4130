"""What a reconcile is asked for: names as the configuration takes them."""

from __future__ import annotations

import pytest

from syncd.app.reconciling import meant
from syncd.core.resource import Resource

WATCHED = frozenset({"list", "watch"})
MIRRORED = [
    Resource("apps", "v1", "deployments", "Deployment", True, WATCHED, "deployment", ("deploy",), ("all",)),
    Resource("", "v1", "pods", "Pod", True, WATCHED, "pod", ("po",), ("all",)),
    Resource("", "v1", "secrets", "Secret", True, WATCHED, "secret"),
    Resource("serving.knative.dev", "v1", "services", "Service", True, WATCHED, "service", ("ksvc",)),
    Resource("", "v1", "componentstatuses", "ComponentStatus", False, frozenset({"list"})),
]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("pods", "pods"),
        ("Pod", "pods"),
        ("po", "pods"),
        ("deployments.apps", "deployments"),
        ("deploy.v1.apps", "deployments"),
        ("services", "services"),  # the core group's are not mirrored
        ("ksvc", "services"),
        ("componentstatuses", "componentstatuses"),
        ("all", "pods deployments"),
        ("*.apps", "deployments"),
        ("*.", "pods secrets"),
        ("*", "pods secrets deployments services"),
        ("nodes", ""),
        ("deployments.extensions", ""),
    ],
)
def test_a_name_means_what_it_means_in_the_configuration(name: str, found: str) -> None:
    assert {plural for _, plural in meant(MIRRORED, [name])[name]} == set(found.split())
