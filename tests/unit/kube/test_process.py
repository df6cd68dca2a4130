"""Children that end, that do not, that say too much, and that leave others behind."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import psutil
import pytest

from syncd.kube import process
from syncd.kube.process import Ended

from .plugins import alive
from .server import until

LONG = 600.0


async def python(script: str, *args: str, timeout: float = LONG) -> Ended:
    return await process.run((sys.executable, "-ISc", script, *args), os.environ, timeout=timeout)


async def test_a_child_that_ends() -> None:
    script = """
import os, sys
assert sys.stdin.read() == "" and os.path.samefile("/dev/stdin", "/dev/null")
assert os.getpid() == os.getsid(0) == os.getpgid(0)
print("out", sys.argv[1]); print("err", file=sys.stderr); sys.exit(7)
"""
    assert await python(script, "a b") == Ended(7, b"out a b\n", b"err\n")


async def test_the_environment_is_the_one_given() -> None:
    script = "import os; print(sorted(set(os.environ) - {'LC_CTYPE', 'PWD', 'SHLVL', '_'}))"
    command = (sys.executable, "-ISc", script)
    assert (await process.run(command, {"A": "1"}, timeout=LONG)).stdout == b"['A']\n"


async def test_a_signal_is_a_negative_code() -> None:
    assert (await python("import os; os.kill(os.getpid(), 15)")).code == -15


@pytest.mark.parametrize("command", ["/nowhere/at/all", "/", "\0"])
async def test_what_cannot_be_started(command: str) -> None:
    with pytest.raises((OSError, ValueError)):
        await process.run((command,), os.environ, timeout=LONG)


async def test_of_much_stderr_the_end_is_kept_and_the_child_never_blocks() -> None:
    ended = await python("import sys; sys.stderr.write('x' * 5_000_000 + 'end'); print('out')")
    assert (ended.code, ended.stdout) == (0, b"out\n")
    assert len(ended.stderr) == 16 * 1024
    assert ended.stderr.endswith(b"xend")


async def test_too_much_stdout_ends_the_child() -> None:
    ended = await python("while True: print('x' * 65536)")
    assert (ended.code, ended.killed) == (None, "wrote more than 1024 KiB")
    assert len(ended.stdout) <= 1024 * 1024


FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-ISc", "import time; time.sleep(600)"])
with open(sys.argv[1], "w") as file: file.write(f"{os.getpid()} {child.pid} ")
"""


def family(file: Path) -> list[int]:
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


async def test_a_child_that_does_not_end_is_killed_with_its_whole_group(tmp_path: Path) -> None:
    for timeout in (2, 10, 60):  # a busy machine may not get as far as having a grandchild in time
        ended = await python(FAMILY + "time.sleep(600)", str(tmp_path / "pids"), timeout=timeout)
        assert (ended.code, ended.killed) == (None, f"did not end within {timeout} s")
        if len(family(tmp_path / "pids")) == 2:
            break
    child, grandchild = family(tmp_path / "pids")
    assert not alive(child), "reaped, no zombie"
    await until(lambda: not running(grandchild))


async def test_a_cancelled_run_kills_the_group_and_reaps_the_child(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    task = asyncio.create_task(python(FAMILY + "time.sleep(600)", str(file)))
    await until(lambda: len(family(file)) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    child, grandchild = family(file)
    assert not alive(child)
    await until(lambda: not running(grandchild))


async def test_a_child_that_leaves_a_daemon_with_its_pipes_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    ended = await python(FAMILY + "print('out')", str(file))
    child, daemon = family(file)
    try:
        assert (ended.code, ended.stdout) == (0, b"out\n")
        assert not alive(child)
        assert running(daemon), "it ended in peace, and what it started is its own affair"
    finally:
        os.kill(daemon, 9)


async def test_the_loop_turns_while_a_child_works() -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    await python("import time; time.sleep(0.2)")
    turning.cancel()
    assert turns > 20


def running(pid: int) -> bool:
    """Whether a process is there and no zombie: an orphan is reaped by whoever adopts it, if at all."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
