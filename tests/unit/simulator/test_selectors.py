"""Selectors, read and applied."""

from __future__ import annotations

import pytest

from syncd.simulator.selectors import SelectorError, parse_fields, parse_labels

WEB = {"tier": "web", "env": "prod"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("tier=web", True),
        ("tier==web", True),
        ("tier!=web", False),
        ("absent!=web", True),
        ("tier in (web, db)", True),
        ("tier in (db)", False),
        ("tier notin (db)", True),
        ("absent notin (db)", True),
        ("absent in (db)", False),
        ("tier", True),
        ("absent", False),
        ("!absent", True),
        ("!tier", False),
        ("tier=web,env=test", False),
        ("tier in (web,db),env!=test,!absent", True),
    ],
)
def test_labels(text: str, matches: bool) -> None:
    assert parse_labels(text).matches(WEB) is matches


@pytest.mark.parametrize("text", ["a b", "=x", "!", "a in b", "(a)"])
def test_what_is_no_label_selector(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_labels(text)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("status.phase=Running", True),
        ("status.phase==Running", True),
        ("status.phase!=Running", False),
        ("spec.nodeName=", True),
        ("status.phase=Running,spec.nodeName!=", False),
    ],
)
def test_fields(text: str, matches: bool) -> None:
    values = {"status.phase": "Running"}
    selector = parse_fields(text, lambda field: True)
    assert selector.matches(lambda field: values.get(field, "")) is matches


def test_escaped_values() -> None:
    selector = parse_fields(r"type=a\,b\=c", lambda field: True)
    assert selector.exact("type") == "a,b=c"


def test_unknown_fields_are_refused_in_two_ways() -> None:
    with pytest.raises(SelectorError, match=r'"spec\.nope" is not a known field selector'):
        parse_fields("spec.nope=x", lambda field: False)
    with pytest.raises(SelectorError, match=r"field label not supported: spec\.nope"):
        parse_fields("spec.nope=x", lambda field: False, labelled=True)
