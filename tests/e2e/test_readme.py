"""The README's half hour, typed as it stands there: from a clone to SQL over a simulated cluster.

Where kubectl or sqlite3 is not installed a few lines of Python stand in for it; all else is the same.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADING = "Half an hour, from clone to SQL"
CLONED = ("pyproject.toml", "constraints.txt", "Makefile", "README.md", "LICENSE", "syncd", "migrations")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LONGEST = 300.0  # seconds that one command may take, an installation among them
LEVEL = 30.0  # seconds until the table shows what the cluster was told

SQLITE3 = """#!{python}
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
for row in connection.execute(sys.argv[2]):
    print(*row, sep="|")
"""
KUBECTL = """#!{python}
import json, os, sys, urllib.request, yaml
server = yaml.safe_load(open(os.environ["KUBECONFIG"]))["clusters"][0]["cluster"]["server"]
path, verb, body, kind = "/api/v1/namespaces/default/configmaps", sys.argv[1], None, "application/json"
if verb == "apply":
    method, body = "POST", json.dumps(yaml.safe_load(sys.stdin.read()))
else:
    path, method = f"{path}/{sys.argv[3]}", verb.upper()
if verb == "patch":
    body, kind = sys.argv[sys.argv.index("-p") + 1], "application/merge-patch+json"
data = body.encode() if body else None
request = urllib.request.Request(server + path, data=data, method=method, headers={"Content-Type": kind})
urllib.request.urlopen(request, timeout=30).read()
"""


def blocks() -> list[tuple[str, str]]:
    """(language, text) of the half hour, in order."""
    text = (ROOT / "README.md").read_text()
    [section] = re.findall(rf"^## {HEADING}\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    return FENCE.findall(section)


def typed(block: str) -> Iterator[tuple[str, str]]:
    """(command, what it is said to print), one at a time; a here-document belongs to its command."""
    lines = iter(block.splitlines())
    for line in lines:
        command = line
        if marker := re.search(r"<<'(\w+)'$", line):
            for more in lines:
                command += f"\n{more}"
                if more == marker[1]:
                    break
        command, _, said = command.partition("  # ")
        yield command.rstrip(), said.strip()


class Terminal:
    """A shell in the clone: what is exported stays; what does not end is left running."""

    def __init__(self, clone: Path, environ: dict[str, str]) -> None:
        self._clone = clone
        self._environ = environ
        self._exported = ""
        self._running: list[subprocess.Popen[bytes]] = []

    def type(self, command: str, said: str = "") -> str:
        """What it prints; it must end with 0, and print what it is said to before long."""
        if command.startswith("export "):
            self._exported += f"{command}\n"
            return ""
        until = time.monotonic() + LEVEL
        while True:
            done = self._run(command)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            if not said or done.stdout.strip() == said:
                return done.stdout
            assert time.monotonic() < until, f"{command}\nprints {done.stdout!r}, not {said!r}"
            time.sleep(0.1)

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-ec", self._exported + command],
            cwd=self._clone,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )

    def leave(self, command: str, sign: str) -> None:
        """Begins what stays in the foreground, and waits until a command succeeds."""
        log = (self._clone / f"terminal-{len(self._running)}.log").open("wb")
        script = f"{self._exported}exec {command}"
        self._running.append(
            subprocess.Popen(
                ["bash", "-c", script], cwd=self._clone, env=self._environ, stdout=log, stderr=log
            )
        )
        log.close()
        until = time.monotonic() + LEVEL
        while self._run(sign).returncode:
            assert self._running[-1].poll() is None, Path(log.name).read_text()
            assert time.monotonic() < until, Path(log.name).read_text()
            time.sleep(0.1)

    def close(self) -> list[int]:
        """Ctrl-C in each; their exit codes."""
        for process in self._running:
            process.send_signal(signal.SIGINT)
        return [process.wait(timeout=60) for process in self._running]


@contextmanager
def terminal(clone: Path, environ: dict[str, str]) -> Iterator[Terminal]:
    made = Terminal(clone, environ)
    try:
        yield made
    finally:
        codes = made.close()
    assert set(codes) <= {0}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A newcomer's: nothing of ours, and stand-ins for the tools that this machine lacks."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("kubectl", KUBECTL), ("sqlite3", SQLITE3)):
        if shutil.which(name) is None:
            (tools / name).write_text(text.replace("{python}", sys.executable))
            (tools / name).chmod(0o755)
    ours = re.compile("PYTHON|SYNCD_|KUBE|VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not ours.match(name)}
    home = {"HOME": str(tmp_path), "PATH": f"{tools}:{os.environ['PATH']}"}
    return kept | home | {"PYTHON": sys.executable}


@pytest.fixture
def clone(tmp_path: Path, environ: dict[str, str]) -> Path:
    """What a clone holds. Where pip reaches no index, its environment is there already, with the libraries of
    this one.
    """
    made = tmp_path / "clone"
    made.mkdir()
    for name in CLONED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, made / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, made / name)
    asked = ("download", "-q", "--no-deps", "--retries=0", "--timeout=10", "-d", str(tmp_path), "hatchling")
    reaches = subprocess.run(
        [sys.executable, "-m", "pip", *asked], env=environ, capture_output=True, check=False
    )
    if reaches.returncode:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", made / ".venv"], check=True)
        [packages] = (made / ".venv/lib").glob("python*/site-packages")
        (packages / "libraries.pth").write_text(f"{made}\n{sysconfig.get_path('purelib')}\n")
        command = made / ".venv/bin/syncd"
        command.write_text(f"#!{made}/.venv/bin/python\nfrom syncd.__main__ import main\nmain()\n")
        command.chmod(0o755)
        (made / ".venv/.installed").touch()
    return made


@pytest.mark.timeout(600)
def test_the_half_hour(clone: Path, environ: dict[str, str]) -> None:
    (_, install), (yaml, config), (_, second), (_, third), (_, spoil) = blocks()
    assert yaml == "yaml"
    # The ports of the README may be in use here.
    (clone / "syncd.yaml").write_text(f'{config}server: {{listen: ""}}\n')
    with terminal(clone, environ) as cluster, terminal(clone, environ) as daemon:
        *before, (simulate, _) = typed(install)
        for command, said in before:
            cluster.type(command, said)
        assert simulate.startswith("syncd simulate")
        cluster.leave(f"{simulate} --port 0", "test -s simulator.kubeconfig")
        *before, (run, _) = typed(second)
        for command, said in before:
            daemon.type(command, said)
        assert run == "syncd run"
        daemon.leave(run, "syncd status > /dev/null")
        for block in (third, spoil):
            with terminal(clone, environ) as another:
                printed = [another.type(command, said) for command, said in typed(block)]
        assert "fresh" in printed[-1]
    if Path(shutil.which("kubectl", path=environ["PATH"]) or "").is_relative_to(clone.parent):
        pytest.skip("it all held; but kubectl is not installed, and its part was taken over HTTP")
