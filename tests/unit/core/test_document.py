"""The stored form of an object: the server's bytes, less what must not be kept."""

from __future__ import annotations

import contextlib
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.core.document import Transform, definition_identity, same_content
from syncd.core.errors import ProtocolError
from syncd.core.frames import EventType, LineSplitter, parse_frame, parse_page
from tests.fakes.recording import NAMES, recording
from tests.fakes.value import PODS, SECRETS, WIDGETS, Json, compact, pod

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
PLANTED = "cGxhbnRlZA=="


def secret(**fields: object) -> bytes:
    return compact({"metadata": {"name": "s", "namespace": "n"}, **fields})


def test_every_other_byte_is_copied() -> None:
    """Spacing, escapes, key order and numbers stay as the server sent them."""
    raw = (
        b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":{ "b" :"\\u00e9"}},"x":[1.50, 1E5]}'
    )
    assert Transform(PODS)(raw).document.encode() == raw


def test_managed_fields_are_dropped_and_nothing_else() -> None:
    raw = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","managedFields":[1],"uid":"u"},"z":[1]}'
    want = '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u"},"z":[1]}'
    assert Transform(PODS)(raw).document == want


def test_kind_and_version_are_put_in_front_of_a_list_item() -> None:
    document = Transform(WIDGETS)(b'{"metadata":{"name":"a"},"spec":{}}').document
    assert document == '{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"a"},"spec":{}}'


def test_the_object_s_own_kind_wins() -> None:
    found = Transform(PODS)(b'{"kind":"Odd","metadata":{"name":"a"}}')
    assert json.loads(found.document)["kind"] == "Odd"
    assert found.kind == "Pod"


def test_columns() -> None:
    value = pod("a", 7, namespace="n")
    value["metadata"] |= {
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": None,
        "labels": {"app": "x"},
        "annotations": {},
    }
    found = Transform(PODS)(compact(value))
    assert (found.key, found.namespace, found.name, found.uid) == ("n/a", "n", "a", "u-a")
    assert (found.resource_version, found.generation, found.api_version) == ("7", 3, "v1")
    assert (found.labels, found.annotations) == ('{"app":"x"}', "{}")
    assert (found.creation_timestamp, found.deletion_timestamp) == ("2026-01-01T00:00:00Z", None)


@pytest.mark.parametrize("labels", [b"", b',"labels":null,"annotations":null'])
def test_no_labels(labels: bytes) -> None:
    found = Transform(PODS)(b'{"metadata":{"name":"a"' + labels + b"}}")
    assert (found.labels, found.annotations, found.key) == (None, None, "a")


@pytest.mark.parametrize(
    ("owners", "want"),
    [
        (None, None),
        ([], None),
        ([{"uid": "a"}], "a"),
        ([{"uid": "a"}, {"uid": "b", "controller": True}], "b"),
        ([{"uid": "a", "controller": False}, {"uid": "b"}], "a"),
        ([{}], None),
    ],
)
def test_the_owner_is_the_controller_else_the_first(owners: list[Json] | None, want: str | None) -> None:
    raw = compact({"metadata": {"name": "a", "ownerReferences": owners}})
    assert Transform(PODS)(raw).owner_uid == want


# --- what a database cannot hold ------------------------------------------------------------------


@given(st.integers(min_value=0, max_value=12), st.integers(min_value=1, max_value=3))
def test_a_nul_is_replaced_and_an_escaped_backslash_before_u0000_is_not(slashes: int, times: int) -> None:
    text = b"\\" * slashes + b"u0000"
    raw = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"x":"' + text * times + b'"}'
    found = Transform(PODS)(raw)
    is_nul = slashes % 2 == 1
    assert found.altered == ("NUL" if is_nul else "")
    was = json.loads(raw)["x"]
    assert json.loads(found.document)["x"] == was.replace("\0", "\ufffd")
    assert (found.document.encode() == raw) is not is_nul


def test_invalid_utf8_is_replaced() -> None:
    found = Transform(PODS)(b'{"metadata":{"name":"a"},"x":"\xff"}')
    assert json.loads(found.document)["x"] == "\ufffd"


# --- secrets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"data": {"password": PLANTED}},
        {"stringData": {"password": PLANTED}},
        {"data": {"nested": {"deep": [PLANTED]}}},
        {"data": [PLANTED]},
        {"data": PLANTED},
        {"metadata": {"name": "s", "annotations": {LAST_APPLIED: PLANTED, "kept": "yes"}}},
        {"metadata": {"name": "s", "managedFields": [PLANTED], "annotations": {LAST_APPLIED: PLANTED}}},
    ],
)
def test_a_planted_value_is_found_nowhere(fields: Json) -> None:
    found = Transform(SECRETS)(secret(**fields))
    assert PLANTED not in repr(found)


def test_the_keys_of_a_secret_are_kept() -> None:
    found = json.loads(Transform(SECRETS)(secret(data={"a": "1", "b": None}, type="Opaque")).document)
    assert found["data"] == {"a": "redacted", "b": "redacted"}
    assert found["type"] == "Opaque"


def test_other_annotations_of_a_secret_are_kept() -> None:
    found = Transform(SECRETS)(secret(metadata={"name": "s", "annotations": {LAST_APPLIED: "x", "a": "b"}}))
    assert json.loads(found.annotations or "") == {"a": "b"}


@pytest.mark.parametrize("data", [b'"data":null,', b"", b'"data":{},'])
def test_a_secret_without_values(data: bytes) -> None:
    raw = b'{"kind":"Secret","apiVersion":"v1",' + data + b'"metadata":{"name":"s","annotations":null}}'
    assert Transform(SECRETS)(raw).document.encode() == raw


def test_a_key_spelt_with_escapes_or_twice_is_redacted() -> None:
    raw = b'{"metadata":{"name":"s"},"d\\u0061ta":{"k":"cGxhbnRlZA=="},"data":{"k":"cGxhbnRlZA=="}}'
    assert PLANTED not in Transform(SECRETS)(raw).document


def test_redaction_is_for_secrets_alone_and_can_be_left_out() -> None:
    assert PLANTED in Transform(PODS)(secret(data={"a": PLANTED})).document
    assert PLANTED in Transform(SECRETS, redact=False)(secret(data={"a": PLANTED})).document
    assert Transform(SECRETS).signature != Transform(SECRETS, redact=False).signature


def test_a_refusal_quotes_nothing_of_a_secret() -> None:
    for raw in (b'{"data":{"k":"cGxhbnRlZA=="},"metadata":{"name":7}}', b'{"data":{"k":"cGxhbnRlZA=="}}'):
        with pytest.raises(ProtocolError) as refused:
            Transform(SECRETS)(raw)
        assert PLANTED not in str(refused.value)


# --- everything recorded, and anything else -------------------------------------------------------


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name.startswith(("list-", "crd-", "rbac-", "watch"))]
)
def test_every_recorded_object_becomes_an_item(name: str) -> None:
    answer = recording(name)
    if answer.status != 200 or name == "crd-definition":
        return
    transform = Transform(WIDGETS if name.startswith("crd-") else PODS)
    if answer.is_watch:
        frames = [frame for each in LineSplitter().feed(answer.body) if (frame := parse_frame(each))]
        raws = [frame.raw for frame in frames if frame.type in (EventType.ADDED, EventType.MODIFIED)]
    else:
        raws = [bytes(raw) for raw in parse_page(answer.body).items]
    for raw in raws:
        found, want = transform(raw), json.loads(raw)
        want["metadata"].pop("managedFields", None)
        stored = json.loads(found.document)
        assert {key: stored[key] for key in want} == want
        assert stored["kind"] and stored["apiVersion"]
        assert found.uid == want["metadata"]["uid"]
        assert found.resource_version == want["metadata"]["resourceVersion"]


def test_a_pod_of_a_realistic_size_loses_half_of_itself() -> None:
    raws = parse_page(recording("list-pods-realistic").body).items
    for raw in raws:
        assert Transform(PODS)(raw).size < 0.75 * len(bytes(raw))


def test_the_identity_of_a_definition() -> None:
    name, uid, generation = definition_identity(recording("crd-definition").body)
    assert name == "widgets.example.com"
    assert uid and generation >= 1
    with pytest.raises(ProtocolError):
        definition_identity(b'{"kind":"x"}')


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
METADATA = ("name", "namespace", "uid", "resourceVersion", "labels", "annotations", "managedFields")
LIKELY = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {},
            optional=dict.fromkeys(
                ("name", "namespace", "uid", "resourceVersion", "labels", "annotations", "managedFields"),
                JSON,
            ),
        ),
        "data": JSON,
        "stringData": JSON,
        "kind": JSON,
    },
)


@given(
    st.binary()
    | JSON.map(lambda value: json.dumps(value).encode())
    | LIKELY.map(lambda v: json.dumps(v).encode())
)
def test_any_bytes_are_an_item_or_a_protocol_error(raw: bytes) -> None:
    for resource in (PODS, SECRETS):
        try:
            Transform(resource)(raw)
        except ProtocolError:
            continue


@pytest.mark.parametrize(
    "around", [b'{"metadata":{"name":"a"},"data":%s}', b'{"metadata":{"name":"a","x":%s}}']
)
def test_nesting_past_the_stack_is_cut(around: bytes) -> None:
    found = Transform(SECRETS)(around % (b"[" * 100_000 + b"]" * 100_000))
    assert found.key == "a"
    assert len(found.document) < 1_000


@given(JSON, JSON)
def test_same_content_is_equality_of_the_values(left: object, right: object) -> None:
    assert same_content(json.dumps(left), json.dumps(left, indent=1))
    if json.dumps(left) != json.dumps(right):
        assert same_content(json.dumps(left), json.dumps(right)) == (_typed(left) == _typed(right))


def _typed(value: object) -> object:
    """Python takes True for 1; JSON does not."""
    if isinstance(value, dict):
        return {key: _typed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_typed(one) for one in value]
    return ("a boolean", value) if isinstance(value, bool) else value


def test_numbers_compare_as_jsonb_keeps_them() -> None:
    assert same_content('{"a": 1e23, "b": 1.0}', '{"b": 1, "a": 100000000000000000000000}')
    assert not same_content('{"a": true}', '{"a": 1}')


@pytest.mark.parametrize("odd", ['{"a":1e999}', '{"a":"\\ud800"}', "[" * 100_000 + "]" * 100_000, ""])
def test_what_cannot_be_decoded_is_the_same_as_itself_alone(odd: str) -> None:
    assert same_content(odd, odd)
    assert not same_content(odd, '{"a":1}')


@given(LIKELY.map(lambda value: json.dumps(value).encode()))
def test_a_head_says_what_its_item_says(raw: bytes) -> None:
    transform = Transform(PODS)
    try:
        found = transform(raw)
    except ProtocolError:
        with contextlib.suppress(ProtocolError):
            transform.head(msgspec.Raw(raw))
        return
    head = transform.head(msgspec.Raw(raw))
    assert (head.key, head.namespace, head.name) == (found.key, found.namespace, found.name)
    assert (head.uid, head.resource_version) == (found.uid, found.resource_version)
    assert transform.whole(head) == found
