"""Versions compare as the API's rule says, and never otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.core.resource import Cause, Resource, Stream, compare_versions, version_number

COMPARABLE = st.integers(min_value=1, max_value=10**40)


@given(COMPARABLE, COMPARABLE)
def test_comparable_versions_compare_as_integers(left: int, right: int) -> None:
    assert compare_versions(str(left), str(right)) == (left > right) - (left < right)


@pytest.mark.parametrize("odd", ["", "0", "00", "01", "-1", "+1", "1.0", "1e3", " 1", "1\n", "a", "١", "1_0"])
def test_others_do_not_compare(odd: str) -> None:
    assert compare_versions(odd, "5") is None
    assert compare_versions("5", odd) is None
    assert compare_versions(odd, odd) == 0
    assert version_number(odd) is None


def test_a_version_of_five_thousand_digits_compares() -> None:
    assert compare_versions("9" * 5000, "1" + "0" * 5000) == -1
    assert version_number("9" * 5000) is None


def test_the_number_is_that_of_a_bigint_column() -> None:
    assert version_number("9223372036854775807") == 2**63 - 1
    assert version_number("9223372036854775808") is None
    assert version_number(None) is None


def test_paths_and_names() -> None:
    deployments = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
    pods = Resource("", "v1", "pods", "Pod", namespaced=True)
    assert deployments.path("shop") == "/apis/apps/v1/namespaces/shop/deployments"
    assert pods.path() == "/api/v1/pods"
    assert (deployments.qualified, deployments.api_version) == ("deployments.apps", "apps/v1")


def test_a_stream_stays_itself_when_the_served_version_changes() -> None:
    old = Stream("c", Resource("g", "v1beta1", "things", "Thing", namespaced=True), "n")
    new = Stream("c", Resource("g", "v1", "things", "Thing", namespaced=True), "n")
    assert old.identity == new.identity
    assert not old.selective
    assert Stream("c", old.resource, field_selector="a=b").selective


def test_only_causes_that_the_api_gave_guard() -> None:
    assert {cause for cause in Cause if not cause.guards} == {Cause.DESELECTED, Cause.RECONCILE}
