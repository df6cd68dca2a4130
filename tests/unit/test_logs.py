"""The log: its two forms, its levels, and what never gets into it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from syncd import logs
from syncd.core.secrecy import without_credentials


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, ours = list(root.handlers), root.level, logging.getLogger("syncd").level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("syncd").setLevel(ours)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_is_one_object_a_line() -> None:
    stream = io.StringIO()
    logs.configure("json", "info", stream=stream)
    logs.get("sync").info("stream is live", cluster="prod", objects=3)
    (event,) = lines(stream)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "event": "stream is live",
        "cluster": "prod",
        "objects": 3,
        "level": "info",
        "logger": "syncd.sync",
    }


def test_the_console_form_is_for_people() -> None:
    stream = io.StringIO()
    logs.configure("console", "info", stream=stream)
    logs.get("sync").warning("stream is parked", cluster="prod")
    text = stream.getvalue()
    assert "[warning" in text
    assert "stream is parked" in text
    assert "cluster=prod" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(("level", "seen"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_levels(level: str, seen: int) -> None:
    stream = io.StringIO()
    logs.configure("json", level, stream=stream)
    for name in ("debug", "info", "warning", "error"):
        getattr(logs.get("x"), name)("said")
    assert len(lines(stream)) == seen


@pytest.mark.parametrize("name", ["uvicorn.error", "alembic.runtime", "apscheduler.scheduler", "httpx"])
def test_libraries_are_heard_from_warning_on(name: str) -> None:
    stream = io.StringIO()
    logs.configure("json", "debug", stream=stream)
    logging.getLogger(name).info("chatter")
    logging.getLogger(name).warning("with %s", "postgresql://u:hunter2@h/d")
    (event,) = lines(stream)
    assert (event["event"], event["logger"]) == ("with postgresql://u:***@h/d", name)


def test_configuring_again_does_not_double_the_lines() -> None:
    stream = io.StringIO()
    logs.configure("json", "info", stream=io.StringIO())
    logs.configure("json", "info", stream=stream)
    logs.get("x").info("once")
    assert len(lines(stream)) == 1


SECRETS = [
    "Authorization: Bearer hunter2hunter2",
    "authorization: basic aHVudGVyMjpodW50ZXIy hunter",
    "postgresql://user:hunter2@host/db",
    "postgresql://user:hun@ter2@host/db",
    "https://:hunter2@proxy:3128",
    "cannot connect: password=hunter2 host=h",
    "token eyJhbGciOiJIUzI1NiJ9.hunter2hunter2.c2lnbmF0dXJl",
]


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("secret", SECRETS)
def test_credentials_never_get_in(form: Any, secret: str) -> None:
    stream = io.StringIO()
    logs.configure(form, "info", stream=stream)
    log = logs.get("x")
    log.info(secret)
    log.info("event", url=secret, headers={"h": secret}, many=[secret], error=ValueError(secret))
    log.info("event", password="hunter2", Authorization="hunter2", token="hunter2")
    try:
        raise ValueError(secret)
    except ValueError:
        log.exception("failed")
        logging.getLogger("uvicorn").exception("failed")
    text = stream.getvalue()
    assert "hunter2" not in text
    assert "aHVudGVyMj" not in text
    assert "ter2@" not in text
    assert "failed" in text


@pytest.mark.parametrize(
    "harmless",
    ["http://host:8080/path", "a bearer of news", "key=value", "postgresql://user@host/db", "10:30@x"],
)
def test_what_is_no_credential_stays(harmless: str) -> None:
    assert without_credentials(harmless) == harmless
