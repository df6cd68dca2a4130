"""Files that are followed: by what they hold, and only once they hold still."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from syncd.app import watching
from syncd.app.watching import Watching
from syncd.config import inputs


class Looks:
    """Counts the looks, and writes before each what it is given."""

    def __init__(self, file: Path, *contents: str) -> None:
        self.file = file
        self.contents = list(contents)
        self.count = 0
        self._digests = watching._digests

    def __call__(self, files: list[Path]) -> dict[Path, bytes | None]:
        self.count += 1
        if self.contents:
            self.file.write_text(self.contents.pop(0))
        return self._digests(files)


async def test_what_is_being_written_is_not_read_half_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "syncd.yaml"
    file.write_text("resources: [pods, secrets]")
    watch = Watching(0.0)
    await watch.note([file])
    looks = Looks(file, "resources: [pods, secrets]", "", "resources: [po", "resources: [pods]")
    monkeypatch.setattr(watching, "_digests", looks)
    async with asyncio.timeout(20):
        await watch.changed()
    assert looks.count == 5  # the fourth finds what it ends with, the fifth that it has ended
    assert file.read_text() == "resources: [pods]"


async def test_what_is_as_before_is_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another time, another inode, another link: only what is behind them counts."""
    first, second, link = tmp_path / "first", tmp_path / "second", tmp_path / "link"
    first.write_text("a")
    second.write_text("a")
    link.symlink_to("first")
    watch = Watching(0.0)
    await watch.note([link, tmp_path / "missing", tmp_path])
    (tmp_path / "other").symlink_to("second")
    os.replace(tmp_path / "other", link)
    os.utime(second, (1, 1))
    looks = Looks(tmp_path / "unrelated", *map(str, range(10)))
    monkeypatch.setattr(watching, "_digests", looks)
    waiting = asyncio.create_task(watch.changed())
    while looks.contents:
        await asyncio.sleep(0.001)
    assert not waiting.done()
    second.write_text("b")
    async with asyncio.timeout(20):
        await waiting


async def test_a_file_that_comes_and_one_that_is_forgotten(tmp_path: Path) -> None:
    watch = Watching(0.0)
    await watch.note([tmp_path / "wanted", tmp_path / "forgotten"])
    watch.only([tmp_path / "wanted"])
    (tmp_path / "forgotten").write_text("anything")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await watch.changed()
    (tmp_path / "wanted").write_text("")
    async with asyncio.timeout(20):
        await watch.changed()


def test_the_inputs_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "syncd.yaml"
    path.write_text("a: ${file:one}\nb: 'x ${file:~/two} ${NAME} $${file:three} ${file:'\nthis: is: not YAML")
    environ = {"HOME": "/home/user"}
    assert inputs(path, environ) == {path, tmp_path / "one", Path("/home/user/two")}
    assert inputs(tmp_path / "missing", environ) == {tmp_path / "missing"}
