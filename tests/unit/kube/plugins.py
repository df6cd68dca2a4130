"""Exec plugins for the tests: small scripts, run as real children, that write down each of their runs."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from syncd.kube.auth import Exec

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"

_HEAD = """#!{python} -IS
import json, os, sys, time
place = {place!r}
with open(os.path.join(place, "runs"), "a") as file:
    file.write(json.dumps({{"args": sys.argv[1:], "pid": os.getpid(), "env": dict(os.environ)}}) + "\\n")
def answer():
    with open(os.path.join(place, "answer")) as file:
        sys.stdout.write(file.read())
"""


@dataclass(frozen=True)
class Plugin:
    """A script in a directory of its own. It prints what `prints` was last given, unless its body differs."""

    place: Path

    @property
    def command(self) -> Path:
        return self.place / "plugin"

    def becomes(self, body: str = "answer()") -> Plugin:
        """Replaces the script, whole."""
        fresh = self.place / "fresh"
        fresh.write_text(_HEAD.format(python=sys.executable, place=str(self.place)) + body + "\n")
        fresh.chmod(0o755)
        fresh.replace(self.command)
        return self

    def prints(self, document: object) -> Plugin:
        """Sets the answer: a document, or raw text."""
        fresh = self.place / "answer.fresh"
        fresh.write_text(document if isinstance(document, str) else json.dumps(document))
        fresh.replace(self.place / "answer")
        return self

    @property
    def runs(self) -> list[dict[str, Any]]:
        file = self.place / "runs"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def login(self, **changes: Any) -> Exec:
        return Exec(**{"api_version": V1, "command": str(self.command), **changes})

    def gone(self) -> bool:
        """Whether no process of any run is left, not even a zombie."""
        return not any(alive(run["pid"]) for run in self.runs)


def plugin(place: Path, document: object = "") -> Plugin:
    place.mkdir(exist_ok=True)
    return Plugin(place).becomes().prints(document)


def alive(pid: int) -> bool:
    """Whether a process is there, a zombie included."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def credential(
    token: str = "", expires_in: float | None = None, /, *, version: str = V1, **status: object
) -> dict[str, Any]:
    """An ExecCredential; `expires_in` seconds from now."""
    if token:
        status["token"] = token
    if expires_in is not None:
        expires = datetime.fromtimestamp(time.time() + expires_in, UTC)
        status["expirationTimestamp"] = expires.isoformat().replace("+00:00", "Z")
    return {"apiVersion": version, "kind": "ExecCredential", "status": status}
