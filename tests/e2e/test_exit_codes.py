"""What the commands say by their exit codes: 0 done, 1 could not, 2 usage or configuration, 3 findings."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import DatabasePlace
from tests.e2e.world import CONFIGMAPS, World

FULL = Path("/dev/full")  # Linux: a disk without room
INTERRUPTED = """
import sys
from syncd.__main__ import main

class Finder:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder())
main()
"""


@pytest.fixture
def place(sqlite_place: DatabasePlace) -> DatabasePlace:
    """What is shown here is the same on every database."""
    return sqlite_place


async def test_usage_and_configuration_are_2(world: World) -> None:
    path = world.write_config("configmaps")
    for text, named in (
        ('{"clusters": [{"name": "c"}], "resorces": []}', "resources"),
        ("resources: [pods", "line"),
    ):
        path.write_text(text)
        code, output = await world.syncd("sync")
        assert code == 2, output
        assert named in output
        assert "Traceback" not in output
    for arguments in (("sync", "--no-such-option"), ("sync", "-c", "/no/such/file")):
        code, output = await world.syncd(*arguments)
        assert code == 2, output
        assert "Traceback" not in output


async def test_a_kubeconfig_that_cannot_be_used_is_2(world: World) -> None:
    world.write_config("configmaps", clusters=[{"name": "c", "kubeconfig": "/no/such/kubeconfig"}])
    code, output = await world.syncd("sync")
    assert code == 2, output
    assert "/no/such/kubeconfig" in output


async def test_two_entries_that_mean_the_same_rows_are_2(world: World) -> None:
    world.write_config("deployments", {"name": "deploy", "label_selector": "a=b"})
    code, output = await world.syncd("run")
    assert code == 2, output
    assert "deploy" in output


async def test_findings_are_3_and_what_cannot_be_done_is_1(world: World) -> None:
    world.workload.configmaps(5)
    world.write_config("configmaps", "no-such-things")
    code, output = await world.syncd("sync")
    assert code == 3, output
    assert "no-such-things" in output
    assert await world.differences(*CONFIGMAPS) == []
    world.write_config("configmaps")
    code, output = await world.syncd("status")
    assert code == 3, output  # nobody keeps it level
    code, output = await world.syncd("reconcile", "no-such-things")
    assert code == 2, output
    code, output = await world.syncd("migrate")
    assert code == 0, output
    for command in ("sync", "status", "changes", "tables"):
        code, output = await world.syncd(command, SYNCD_DATABASE_URL="postgresql://nobody@127.0.0.1:9/none")
        assert code == 1, output
        assert output.startswith("syncd: postgresql://nobody@127.0.0.1:9/none: the database: ")
        assert output.endswith("; `syncd check` looks closer\n")
    world.simulator.access.grant_all("test")
    world.simulator.access.grant("anyone", resources=("pods", "namespaces"))
    code, output = await world.syncd("sync")
    assert code == 3, output
    assert "parked" in output


async def test_a_database_without_a_schema_is_named_and_not_made(world: World, tmp_path: Path) -> None:
    file = tmp_path / "typo.db"
    world.write_config("configmaps", database={"url": f"sqlite:///{file}"})
    for arguments in (("status",), ("changes",), ("tables",), ("diff", "ConfigMap/a")):
        code, output = await world.syncd(*arguments)
        assert code == 1, output
        assert output.startswith(f"syncd: sqlite:///{file}: ")
        assert output.endswith("; run `syncd migrate`\n")
    assert not file.exists()


def ended(*command: str, out: Path) -> tuple[int, str]:
    """How a process ends whose stdout is this file: (exit code, stderr)."""
    with out.open("w") as file:
        done = subprocess.run(
            [sys.executable, *command],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    return done.returncode, done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [("status",), ("sql", "-o", "csv", "SELECT 1"), ("--version",)])
async def test_a_result_that_cannot_be_written_is_1(world: World, arguments: tuple[str, ...]) -> None:
    config = world.write_config("configmaps")
    code, output = await world.syncd("migrate")
    assert code == 0, output
    named = () if arguments == ("--version",) else ("-c", str(config))
    found = ended("-m", "syncd", *arguments, *named, out=FULL)
    assert found == (1, "syncd: cannot write the result: No space left on device\n")


async def test_a_reader_who_has_seen_enough_is_told_nothing(world: World) -> None:
    world.workload.configmaps(1)
    config = world.write_config("configmaps")
    code, output = await world.syncd("sync")
    assert code == 0, output
    for form in ("table", "json", "csv"):
        process = subprocess.Popen(
            [sys.executable, "-m", "syncd", "sql", "SELECT 1", "-o", form, "-c", str(config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait(60) == 1


def test_an_interrupt_while_it_starts_is_130(tmp_path: Path) -> None:
    assert ended("-c", INTERRUPTED, out=tmp_path / "out") == (130, "")


def test_a_simulator_that_cannot_begin_is_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for options, said in (
            (("--port", port), f"syncd: cannot listen on 127.0.0.1:{port}: Address already in use"),
            (
                ("--port", "0", "--kubeconfig", "/no/such/file"),
                "syncd: cannot write /no/such/file: No such file",
            ),
            (("--port", "70000"), "65535"),
            (("--pods", "-1"), "0"),
            (("--churn", "-1"), "0"),
        ):
            arguments = ("--pods", "1", "--kubeconfig", str(tmp_path / "kubeconfig"), *options)
            code, complaint = ended("-m", "syncd", "simulate", *arguments, out=tmp_path / "out")
            assert (code, said in complaint) == (2, True), complaint
            assert "Traceback" not in complaint
