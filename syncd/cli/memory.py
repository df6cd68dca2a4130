"""The process's memory: large pieces go back to the system as soon as they are free."""

from __future__ import annotations

import ctypes
import sys

_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h
LARGE = 128 * 1024  # bytes


def give_back() -> None:
    """Fixes the size from which the C library takes memory from the system piece by piece.

    Pages of a list are megabytes. glibc raises that size to the largest piece it saw freed, and keeps what is
    smaller in its heap, under whatever came to lie above: memory went up and down by eight megabytes, by
    chance. Other C libraries have no such call, and no such habit.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_MMAP_THRESHOLD, LARGE)
