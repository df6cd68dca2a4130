"""The page of guarantees held to the suite that it is made of."""

from __future__ import annotations

from tests.conformance.guarantees import PAGE, page
from tests.conformance.promises import promises

NOT_OFFERED = {54}


def test_the_page_is_what_the_suite_says() -> None:
    assert PAGE.read_text() == page(), "run `make guarantees`"


def test_every_scenario_has_one_test() -> None:
    numbers = [promise.number for promise in promises()]
    assert sorted(numbers) == sorted(set(numbers))
    assert set(range(1, 62)) - NOT_OFFERED <= set(numbers)
