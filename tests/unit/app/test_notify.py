"""What is said to the service manager, datagram by datagram."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncd.app.notify import Notifier


@pytest.fixture(params=["path", "abstract"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """A service manager's socket and its name, as $NOTIFY_SOCKET spells it."""
    name = f"@syncd-{secrets.token_hex(8)}" if request.param == "abstract" else str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.settimeout(10)
        bound.bind(name.replace("@", "\0"))
        yield name, bound


def test_a_message_is_one_datagram_of_lines(listener: tuple[str, socket.socket]) -> None:
    name, bound = listener
    notifier = Notifier({"NOTIFY_SOCKET": name})
    assert notifier.heard
    assert notifier.send(READY=1, STATUS="streams: 3 live")
    assert bound.recv(4096) == b"READY=1\nSTATUS=streams: 3 live"
    notifier.close()
    assert not notifier.heard
    assert not notifier.send(STOPPING=1)


def test_a_line_break_in_a_value_makes_no_message_of_its_own(listener: tuple[str, socket.socket]) -> None:
    name, bound = listener
    notifier = Notifier({"NOTIFY_SOCKET": name})
    assert notifier.send(STATUS="prod: down\nREADY=1")
    assert bound.recv(4096) == b"STATUS=prod: down READY=1"
    notifier.close()


def test_a_service_manager_that_does_not_read_blocks_nothing(listener: tuple[str, socket.socket]) -> None:
    name, bound = listener
    notifier = Notifier({"NOTIFY_SOCKET": name})
    sent = 0
    while notifier.send(WATCHDOG=1):
        sent += 1
        assert sent < 1_000_000, "its queue has no end"
    bound.recv(4096)
    assert notifier.send(WATCHDOG=1)
    bound.close()
    assert not notifier.send(WATCHDOG=1)
    notifier.close()


@pytest.mark.parametrize(
    "name", ["", "vsock:2:1234", "relative/path", "/nowhere/notify", "@syncd-nobody-listens", "/" + "x" * 300]
)
def test_without_a_socket_nothing_is_said(name: str) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": name} if name else {})
    assert not notifier.heard
    assert not notifier.send(READY=1)
    notifier.close()


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_a_watchdog_is_this_process_own(environ: dict[str, str], seconds: float | None) -> None:
    assert Notifier(environ).watchdog == seconds
