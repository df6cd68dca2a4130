"""Whatever comes from outside is a result or an error of our tree: never another exception, never a hang."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from syncd.config.file import loads
from syncd.core.document import Transform, definition_identity, same_content
from syncd.core.errors import ApiError, SyncdError
from syncd.core.frames import LineSplitter, parse_frame, parse_page
from syncd.core.listwatch import ListWatch
from syncd.core.status import MAX_RETRY_AFTER, api_error
from syncd.kube.auth import Exec
from syncd.kube.discovery_document import (
    parse_aggregated,
    parse_api_versions,
    parse_groups,
    parse_resources,
)
from syncd.kube.exec import issued
from syncd.kube.kubeconfig import load_connection
from syncd.kube.process import Ended
from syncd.views.expression import Type
from syncd.views.jsonpath import expression
from tests.fakes.recording import NAMES, recording
from tests.fakes.value import PODS, SECRETS
from tests.properties.document import DEEP, damaged, encoded, spoilt, values

RECORDINGS = [recording(name) for name in NAMES]
BODIES = [each.body for each in RECORDINGS if each.body and not each.is_watch and len(each.body) < 20_000]
DOCUMENTS = [json.loads(body) for body in BODIES if body.startswith(b"{")]
LINES = [
    line for each in RECORDINGS if each.is_watch for line in each.body.splitlines() if len(line) < 20_000
]
EVENTS = [json.loads(line) for line in LINES]


def bodies(documents: list[Any], wholes: list[bytes]) -> st.SearchStrategy[bytes]:
    """What a server sent, spoilt as a document or as bytes; or anything."""
    return (
        one(documents).flatmap(spoilt).map(encoded)
        | one(wholes).flatmap(damaged)
        | values.map(encoded)
        | st.binary(max_size=40)
        | one(DEEP)
    )


def one(large: Sequence[Any]) -> st.SearchStrategy[Any]:
    """One of them, none of which a report of a failure should print."""
    return st.integers(0, len(large) - 1).map(lambda place: large[place])


def survives(read: Callable[[], object]) -> None:
    """A result, or an error of ours."""
    with contextlib.suppress(SyncdError):
        read()


# --- the wire -------------------------------------------------------------------------------------


@given(bodies(EVENTS, LINES))
def test_a_watch_line(line: bytes) -> None:
    def read() -> None:
        machine = ListWatch(Transform(PODS), resource_version="5")
        machine.watch_opened()
        frame = parse_frame(line)
        if frame is not None:
            assert isinstance(frame.error(), ApiError)
            machine.event_received(frame)

    survives(read)


@given(bodies(EVENTS, LINES))
def test_an_initial_event(line: bytes) -> None:
    def read() -> None:
        machine = ListWatch(Transform(PODS), limit=1)
        machine.watch_list_opened()
        frame = parse_frame(line)
        if frame is not None:
            machine.initial_event_received(frame)

    survives(read)


@given(bodies(DOCUMENTS, BODIES), st.booleans(), st.booleans())
def test_a_page(body: bytes, whole: bool, versioned: bool) -> None:
    def read() -> None:
        machine = ListWatch(Transform(PODS))
        page = parse_page(body, versioned=versioned)
        machine.page_received(page, None if whole else [machine.transform.head(raw) for raw in page.items])

    survives(read)


OBJECTS = [event["object"] for event in EVENTS if isinstance(event.get("object"), dict)]
SECRET = {
    "kind": "Secret",
    "metadata": {
        "name": "s",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"data":{"a":"aHVudGVyMg=="}}'},
        "managedFields": [{"manager": "x"}],
        "ownerReferences": [{"uid": "u", "controller": True}],
    },
    "data": {"a": "aHVudGVyMg=="},
    "stringData": {"b": "aHVudGVyMg=="},
}


@given(bodies([*OBJECTS, SECRET], [encoded(SECRET)]), st.sampled_from([PODS, SECRETS]))
def test_an_object(raw: bytes, resource: Any) -> None:
    survives(lambda: Transform(resource)(raw))
    survives(lambda: Transform(resource).head(raw))  # type: ignore[arg-type]
    survives(lambda: definition_identity(raw))


@given(spoilt(SECRET))
def test_a_spoilt_secret_never_shows_what_is_under_data(document: Any) -> None:
    try:
        stored = Transform(SECRETS)(encoded(document)).document
    except SyncdError as error:
        stored = str(error)
    kept = json.dumps({key: value for key, value in _dict(document).items() if key in ("data", "stringData")})
    if "aHVudGVyMg==" in kept and "aHVudGVyMg==" not in json.dumps(_without_values(document)):
        assert "aHVudGVyMg==" not in stored


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _without_values(document: Any) -> Any:
    """All of it that a redaction may leave."""
    left = {key: value for key, value in _dict(document).items() if key not in ("data", "stringData")}
    notes = _dict(_dict(left.get("metadata")).get("annotations"))
    notes.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    return [left, *(list(_dict(_dict(document).get(key))) for key in ("data", "stringData"))]


@given(bodies(DOCUMENTS, BODIES), st.integers(100, 599), st.none() | st.text(max_size=30))
def test_a_status(body: bytes, status: int, after: str | None) -> None:
    error = api_error(body, status, after)
    assert isinstance(error, ApiError)
    assert len(error.message) <= 256
    if error.retry_after is not None:
        assert math.isfinite(error.retry_after)
        assert 0 <= error.retry_after <= MAX_RETRY_AFTER


@given(bodies(DOCUMENTS, BODIES))
def test_a_discovery_document(body: bytes) -> None:
    for parse in (
        parse_aggregated,
        parse_api_versions,
        parse_groups,
        lambda data: parse_resources(data, "apps", "v1"),
    ):
        survives(lambda parse=parse: parse(body))  # type: ignore[misc]


@given(st.lists(st.binary(max_size=60), max_size=12), st.integers(1, 100))
def test_lines_are_the_same_however_the_bytes_are_cut(chunks: list[bytes], limit: int) -> None:
    def lines(parts: list[bytes]) -> list[bytes] | None:
        splitter = LineSplitter(limit)
        try:
            return [line for part in parts for line in splitter.feed(part)]
        except SyncdError:
            return None  # a line that is too long: how much of it is seen is a matter of the cut

    whole, cut = lines([b"".join(chunks)]), lines(chunks)
    by_byte = lines([bytes([byte]) for byte in b"".join(chunks)])
    assert cut is None or whole is None or cut == whole
    assert by_byte is None or by_byte == whole


@given(values, values)
def test_contents_compare(left: Any, right: Any) -> None:
    one, other = (json.dumps(value) for value in (left, right))
    assert same_content(one, one)
    assert same_content(one, other) == same_content(other, one)


CREDENTIAL = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "kind": "ExecCredential",
    "status": {
        "token": "t",
        "expirationTimestamp": "2026-01-02T03:04:05Z",
        "clientCertificateData": "c",
        "clientKeyData": "k",
    },
}


@given(bodies([CREDENTIAL], [encoded(CREDENTIAL)]), st.integers(-15, 127))
def test_what_a_plugin_prints(stdout: bytes, code: int) -> None:
    plugin = Exec("client.authentication.k8s.io/v1", "aws")
    survives(lambda: issued(plugin, Ended(0, stdout, b"")))
    survives(lambda: issued(plugin, Ended(code, stdout, stdout)))


PATHS = [
    ".",
    "[",
    "]",
    "*",
    "?",
    "(",
    ")",
    "@",
    "==",
    '"',
    "'",
    "\\",
    "0",
    "-1",
    "9" * 30,
    "{",
    "$",
    "\0",
    "é",
]
PATHS += [".spec.x", '[?(@.type=="Ready")]', "[*]", "[0]", ".status.conditions"]


@given(st.lists(st.sampled_from(PATHS), max_size=10).map("".join), st.sampled_from(Type))
def test_a_printer_column_s_path(text: str, kind: Type) -> None:
    """One that SQL cannot say is None, whatever it is."""
    assert expression(text, kind) == expression(text, kind)


# --- files ----------------------------------------------------------------------------------------

CONFIG: dict[str, Any] = {
    "database": {"url": "sqlite:///x.db", "schema": "public"},
    "clusters": [{"name": "c", "kubeconfig": "k", "labels": {"a": "b"}, "resources": ["pods"]}],
    "resources": ["pods", {"name": "secrets", "namespaces": ["a"], "page_size": 5, "label_selector": "a=b"}],
    "exclude": ["events"],
    "initial": "auto",
    "limits": {"queue_bytes": "64MiB", "deletion_share": "50%", "concurrent_snapshots": 4},
    "reconcile": {"enabled": True, "every": "1h", "cron": "0 3 * * *"},
    "deleted_objects": {"keep": "7d"},
    "history": {"record": "changes", "status": False},
    "server": {"listen": "127.0.0.1:80"},
    "log": {"format": "json", "level": "debug"},
}
KUBECONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "x",
    "clusters": [
        {"name": "c", "cluster": {"server": "https://h:6443/p", "certificate-authority-data": "aGk="}}
    ],
    "users": [
        {
            "name": "u",
            "user": {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "aws",
                    "args": ["a"],
                    "env": [{"name": "A", "value": "b"}],
                    "interactiveMode": "Never",
                },
                "as": "me",
                "as-groups": ["g"],
                "as-user-extra": {"k": ["v"]},
            },
        },
        {"name": "t", "user": {"token": "t", "client-certificate-data": "aGk=", "client-key-data": "aGk="}},
    ],
    "contexts": [
        {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "n"}},
        {"name": "y", "context": {"cluster": "c", "user": "t"}},
    ],
}


def texts(document: Any) -> st.SearchStrategy[bytes]:
    """A file, spoilt; or anything."""
    return (
        spoilt(document).map(encoded)
        | spoilt(document).map(
            lambda value: yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "replace")
        )
        | damaged(yaml.safe_dump(document).encode())
        | st.binary(max_size=40)
        | one([b"a: &a [*a]", b"a: !!python/object:os.system {}", b"? {a: b}\n: c", b"[" * 50_000])
    )


@given(texts(CONFIG))
def test_a_configuration(text: bytes) -> None:
    survives(lambda: loads(text.decode("utf-8", "replace"), Path("/etc/syncd.yaml"), {"HOME": "/home/me"}))


@given(texts(KUBECONFIG), st.none() | st.sampled_from(["x", "y", "z"]))
def test_a_kubeconfig(tmp_path_factory: pytest.TempPathFactory, text: bytes, context: str | None) -> None:
    file = tmp_path_factory.getbasetemp() / "kubeconfig"
    file.write_bytes(text)
    survives(lambda: load_connection(str(file), context, environ={}, home=Path("/nowhere")))
