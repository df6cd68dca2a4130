"""The demo, as a newcomer and as CI run it: plain lines, exit code, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

WAIT = 110.0  # seconds; it takes about fifteen where nothing else runs


def begin(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "syncd", "demo", "--pods", "200", "--dir", str(folder), *options]
    # A database of the user's must not get the demo's rows.
    environment = {**os.environ, "SYNCD_DATABASE_URL": "sqlite:////nowhere/at/all.db"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def test_the_whole_script(tmp_path: Path) -> None:
    process = begin(tmp_path / "demo", "--for", "1s")
    output, _ = process.communicate(timeout=WAIT)
    assert process.returncode == 0, output
    # one probe a stream, and one more where its newest object changed meanwhile
    assert re.search(r"0 lists, ([6-9]|1[0-2]) probes of one object, 6 watches", output)
    assert "drift in 3 rows, 0 left" in output
    assert "table ≡ cluster: yes" in output
    assert not [line for line in output.splitlines() if line != line.rstrip()]
    assert "\x1b" not in output
    assert "ASGI" not in output, "a library spoke up"
    with sqlite3.connect(tmp_path / "demo" / "demo.db") as connection:
        findings = connection.execute("SELECT finding FROM syncd_drift WHERE repaired ORDER BY finding")
        assert findings.fetchall() == [("ghost",), ("missing",), ("stale",)]
    connection.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_process_behind(tmp_path: Path, number: signal.Signals) -> None:
    process = begin(tmp_path / "demo", "--forever")
    assert process.stdout is not None
    for line in process.stdout:
        if "objects in 6 streams, live" in line:
            break
    left = children(process)
    assert left
    process.send_signal(number)
    process.communicate(timeout=WAIT)
    assert process.returncode == 1, "the script was not over"
    assert not [child for child in left if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


def test_a_directory_of_the_users_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "syncd.yaml").write_text("clusters: []\n")
    process = begin(tmp_path, "--for", "1s")
    output, _ = process.communicate(timeout=WAIT)
    assert process.returncode == 2
    assert "is not the demo's; choose another --dir" in output
    assert [path.name for path in tmp_path.iterdir()] == ["syncd.yaml"]


def test_an_odd_length_is_bad_usage(tmp_path: Path) -> None:
    process = begin(tmp_path / "demo", "--for", "soon")
    output, _ = process.communicate(timeout=WAIT)
    assert process.returncode == 2
    assert "--for: must be a duration" in output
