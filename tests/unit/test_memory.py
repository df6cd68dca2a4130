"""What was large and is free is the system's again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# Pages of a megabyte, and between them what stays: without the call all is kept once a larger one was freed.
PAGES = """
import psutil, sys
from syncd.cli.memory import give_back
if sys.argv[1] == "give back":
    give_back()
memory = psutil.Process().memory_info
large = bytearray(24 << 20)
del large
before, pages, kept = memory().rss, [], []
for _ in range(20):
    pages.append(bytearray(b"x") * (1 << 20))
    kept.append(bytearray(b"x") * 2000)
del pages
print(memory().rss - before)
"""


def left(how: str) -> int:
    """Bytes that the process still has of 20 MB."""
    done = subprocess.run([sys.executable, "-c", PAGES, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do so by themselves")
def test_pages_go_back_to_the_system() -> None:
    assert left("keep") > 10 << 20, "this C library no longer keeps them: the call can go"
    assert left("give back") < 2 << 20
