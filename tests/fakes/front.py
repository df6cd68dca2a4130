"""A simulated cluster on a port, a configuration for it, and `syncd` commands that use them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from typer.testing import CliRunner

from syncd.cli.main import app
from syncd.config import Config, load
from syncd.simulator.server import SimulatorServer, write_kubeconfig
from syncd.simulator.simulator import Simulator

DEADLINE = 60.0  # seconds that a command may take on a busy machine


@dataclass(frozen=True, slots=True)
class Output:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Cluster:
    """While entered: `simulator` is served, `kubeconfig` and the configuration file lead to it.

    Args:
        resources: entries as in the file.
        more: further keys of the file.
    """

    def __init__(self, directory: Path, resources: Sequence[Any] = ("pods",), **more: Any) -> None:
        self.simulator = Simulator(bookmark_interval=1.0)
        self.directory = directory
        self.file = directory / "syncd.yaml"
        self.kubeconfig = directory / "kubeconfig"
        self.database = directory / "mirror.db"
        self._document = {
            "database": {"url": f"sqlite:///{self.database}"},
            "clusters": [{"name": "c", "kubeconfig": str(self.kubeconfig)}],
            "resources": list(resources),
            "server": {"listen": ""},
            **more,
        }
        self._server = SimulatorServer(self.simulator)

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        self.log_in("anyone")
        self.configure()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.__aexit__(kind, error, trace)

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def config(self) -> Config:
        return load(self.file, {})

    def configure(self, **keys: Any) -> None:
        """Changes top-level keys of the file."""
        self._document |= keys
        self.file.write_text(json.dumps(self._document))

    def log_in(self, token: str) -> None:
        """The token that the kubeconfig holds from now on."""
        write_kubeconfig(self.kubeconfig, self._server.url, token)

    async def run(self, *arguments: str) -> Output:
        """`syncd` with these arguments and the configuration, in a thread of this process: for commands
        that listen to no signals.
        """
        root = logging.getLogger()
        handlers, level = list(root.handlers), root.level
        runner = CliRunner(env={"COLUMNS": "200"})
        try:
            result = await asyncio.to_thread(runner.invoke, app, [*arguments, "-c", str(self.file)])
        finally:  # the command set up logging to a stream that is closed now
            root.handlers[:] = handlers
            root.setLevel(level)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return Output(result.exit_code, result.stdout, result.stderr)

    async def sync(self) -> Output:
        """`syncd sync` as a process, ended within the deadline."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "syncd", "sync", "-c", str(self.file)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "SYNCD_TIME_SCALE": "0.1"},
        )
        try:
            async with asyncio.timeout(DEADLINE):
                out, err = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.communicate()
            raise AssertionError("syncd sync has not ended") from None
        return Output(process.returncode or 0, out.decode(), err.decode())
