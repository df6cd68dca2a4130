"""Whether files have other content than when they were last read. It polls: links that are swapped, files
that are replaced, network file systems and files that are not there yet all look alike to a reader.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

_MOST = 16 * 2**20  # bytes that are looked at of a file


class Watching:
    """Remembers what files held.

    Args:
        every: seconds between two looks.
    """

    def __init__(self, every: float) -> None:
        self._every = every
        self._known: dict[Path, bytes | None] = {}

    async def note(self, files: Iterable[Path]) -> None:
        """These are about to be read. Called before, so that what changes meanwhile is seen later."""
        self._known |= await asyncio.to_thread(_digests, list(files))

    def only(self, files: Iterable[Path]) -> None:
        """Forgets all others."""
        wanted = set(files)
        self._known = {file: digest for file, digest in self._known.items() if file in wanted}

    async def changed(self) -> None:
        """Until some file holds something else, and has held it for two looks: what is being written is not
        read half-way, since half a list would be a list too.
        """
        before: dict[Path, bytes | None] = {}
        while True:
            await asyncio.sleep(self._every)
            now = await asyncio.to_thread(_digests, list(self._known))
            differing = {file: digest for file, digest in now.items() if self._known.get(file) != digest}
            if differing and differing == before:
                return
            before = differing


def _digests(files: Iterable[Path]) -> dict[Path, bytes | None]:
    return {file: _digest(file) for file in files}


def _digest(file: Path) -> bytes | None:
    """Of the content behind a path, None where there is none to be had: the content alone decides, whatever
    link, inode or time it came with.
    """
    try:
        if not stat.S_ISREG(file.stat().st_mode):  # a pipe would wait for its writer
            return None
        with file.open("rb") as opened:
            return sha256(opened.read(_MOST)).digest()
    except OSError:
        return None
