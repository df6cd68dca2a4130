"""The wheel as `pipx install` has it: built offline, in an environment of its own, in an empty directory."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST = 110  # seconds that any of it may take on a busy machine


def run(*command: str | Path, cwd: Path) -> str:
    """What it prints; it must end with 0. Nothing of ours is in its environment."""
    environ = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env={**environ, "HOME": str(cwd), "SYNCD_TIME_SCALE": "0.2"},
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by what the development environment holds."""
    made = tmp_path_factory.mktemp("wheel")
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "wheel", "-q", *offline, "-w", made, ROOT, cwd=made)
    [found] = made.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the command: an environment with the wheel, and the libraries of this one."""
    home = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", home / "venv", cwd=home)
    python = home / "venv/bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "-q", "--no-index", "--no-deps", wheel, cwd=home)
    [packages] = (home / "venv/lib").glob("python*/site-packages")
    # A directory that a .pth names has its own .pth files left alone: the sources are not on the path.
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    said = run(python, "-c", "import syncd; print(syncd.__file__)", cwd=home)
    assert Path(said.strip()).is_relative_to(packages)
    return home / "venv/bin"


def test_it_carries_all_of_syncd_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        carried = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = {Path(name).name for name in archive.namelist() if ".dist-info/" in name}
    sources = {str(path.relative_to(ROOT)) for room in ("syncd", "migrations") for path in files(ROOT / room)}
    assert {name if name.startswith("syncd/") else f"syncd/{name}" for name in sources} - carried == set()
    assert {name for name in carried if not name.startswith("syncd/")} == set()
    assert any(name.startswith("syncd/migrations/versions/") for name in carried)
    assert {"METADATA", "entry_points.txt", "LICENSE"} <= metadata


def files(directory: Path) -> set[Path]:
    """All but what an interpreter leaves."""
    return {path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def test_it_says_its_version(installed: Path, tmp_path: Path) -> None:
    assert run(installed / "syncd", "--version", cwd=tmp_path).startswith("syncd ")


def test_it_makes_a_database(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "syncd.yaml").write_text("clusters: [{name: prod}]\nresources: [pods]\n")
    assert "already there" not in run(installed / "syncd", "migrate", cwd=tmp_path)
    assert "already there" in run(installed / "syncd", "migrate", cwd=tmp_path)
    with sqlite3.connect(tmp_path / "syncd.db") as connection:
        [(views,)] = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'view'")
        assert connection.execute("SELECT count(*) FROM syncd_objects").fetchone() == (0,)
    connection.close()
    assert views


def test_it_shows_the_demo(installed: Path, tmp_path: Path) -> None:
    said = run(installed / "syncd", "demo", "--for", "1s", "--pods", "200", cwd=tmp_path)
    assert "table ≡ cluster: yes" in said
    assert (tmp_path / ".demo" / "demo.db").exists()
