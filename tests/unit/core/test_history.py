"""What two documents differ in, and what is recorded by default."""

from __future__ import annotations

import json
from typing import Any

import pytest

from syncd.core.history import (
    ABSENT,
    MOST,
    Difference,
    History,
    Record,
    changed_paths,
    default_history,
    differences,
)

CASES: list[tuple[Any, Any, list[str] | None]] = [
    ({}, {}, None),
    ({"a": 1}, {"a": 1.0}, None),
    ({"a": True}, {"a": 1}, ["a"]),
    ({"a": None}, {}, ["a"]),
    ({"a": {"b": 1, "c": 2}}, {"a": {"b": 2, "c": 2}, "d": {"e": 1}}, ["a.b", "d"]),
    ({"a": [1, 2]}, {"a": [1, 3]}, ["a[1]"]),
    ({"a": [1, 2]}, {"a": [1, 2, 3]}, ["a"]),
    ({"a": [{"b": [1]}]}, {"a": [{"b": [2]}]}, ["a[0].b[0]"]),
    ({"a": {}}, {"a": []}, ["a"]),
    (
        {"m": {"app.kubernetes.io/name": 1}},
        {"m": {"app.kubernetes.io/name": 2}},
        ['m."app.kubernetes.io/name"'],
    ),
    ({'say "hi"\n': 1, "ä": 1, "": 1}, {'say "hi"\n': 2, "ä": 2, "": 2}, ['""', '"say \\"hi\\"\\n"', '"ä"']),
    (
        {"metadata": {"resourceVersion": "1", "managedFields": []}},
        {"metadata": {"resourceVersion": "2"}},
        None,
    ),
    ({"spec": {"resourceVersion": "1"}}, {"spec": {"resourceVersion": "2"}}, ["spec.resourceVersion"]),
    ({"data": {}}, {"data": {f"k{n}": n for n in range(MOST + 1)}}, ["data"]),
    ({"data": {}}, {"data": {f"k{n:02}": n for n in range(MOST)}}, [f"data.k{n:02}" for n in range(MOST)]),
]


@pytest.mark.parametrize(("old", "new", "paths"), CASES)
def test_the_paths_in_which_documents_differ(old: Any, new: Any, paths: list[str] | None) -> None:
    assert changed_paths(json.dumps(old), json.dumps(new)) == paths
    back = changed_paths(json.dumps(new), json.dumps(old))
    assert back == paths


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ({"status": {"a": 1}}, {"status": {"a": 2}}, False),
        ({}, {"status": {"a": 2}}, False),
        ({"status": [1]}, {"status": [2]}, False),
        ({"statusText": 1}, {"statusText": 2}, True),
        ({"spec": 1, "status": 1}, {"spec": 2, "status": 2}, True),
    ],
)
def test_status_alone_counts_where_asked(old: Any, new: Any, counts: bool) -> None:
    texts = json.dumps(old), json.dumps(new)
    assert changed_paths(*texts) is not None
    assert (changed_paths(*texts, status=False) is not None) == counts


def test_differences_tell_items_apart_by_name() -> None:
    old = {"c": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}], "n": [1, 2]}
    new = {"c": [{"name": "b", "image": "y:2"}, {"name": "z", "image": "z:1"}], "n": [1]}
    assert list(differences(old, new)) == [
        Difference("c[a]", {"name": "a", "image": "x:1"}, ABSENT),
        Difference("c[b].image", "y:1", "y:2"),
        Difference("c[z]", ABSENT, {"name": "z", "image": "z:1"}),
        Difference("n[1]", 2, ABSENT),
    ]


def test_noise_is_not_recorded_unless_named() -> None:
    asked = History(Record.VERSIONS)
    assert default_history("", "pods", asked) == asked
    assert not default_history("coordination.k8s.io", "leases", asked)
    assert not default_history("events.k8s.io", "events", asked)
