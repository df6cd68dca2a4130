"""Documents as values: numbers are what their text says, whatever their size."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.core.document import same_content
from syncd.core.history import changed_paths
from syncd.core.number import values

HUGE = ["1e400", "1e999999", "1e9999999999999999999", "-1e-9999999999999999999", "9" * 30, "7" * 5000]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=10))
def test_values_are_those_of_json(value: object) -> None:
    assert values(json.dumps(value)) == value


@pytest.mark.parametrize("number", HUGE)
def test_a_number_of_any_size_is_itself_and_no_other(number: str) -> None:
    document = f'{{"a":{number},"b":{{"c":1}}}}'
    assert same_content(document, document.replace(",", " , "))
    assert not same_content(document, document.replace(number, f"{number[:-1]}3"))
    assert changed_paths(document, document.replace("1}", "2}")) == ["b.c"]
    assert changed_paths(document, document.replace(number, "5")) == ["a"]


@pytest.mark.parametrize("equal", [("1e2", "100"), ("1.50", "1.5"), ("7" * 5000, "7" * 5000 + ".0")])
def test_numbers_compare_by_value(equal: tuple[str, str]) -> None:
    assert same_content(*equal)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        values('{"a":')
