"""README and docs/ held to the program: commands and options, configurations, links, files and names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from syncd.cli.main import app
from syncd.config.file import loads
from syncd.metrics import Metrics
from syncd.store.schema import FUNCTIONS, metadata

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TOP = {"bench", "config", "deploy", "docs", "migrations", "syncd", "tests"}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")


def commands() -> dict[str, Any]:
    """Every command by its words, as `config schema`."""
    found: dict[str, Any] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        if hasattr(command, "commands"):
            for name, inner in command.commands.items():
                walk(inner, (*words, name))
        else:
            found[" ".join(words)] = command

    walk(typer.main.get_command(app), ())
    return found


def options(command: Any) -> set[str]:
    """The long options of a command, `--help` aside, which all have."""
    spelt = {opt for parameter in command.params for opt in (*parameter.opts, *parameter.secondary_opts)}
    return {opt for opt in spelt if opt.startswith("--")} - {"--help"}


def sections() -> dict[str, str]:
    """docs/commands.md by command."""
    parts = (ROOT / "docs/commands.md").read_text().split("\n## syncd ")[1:]
    return dict(part.split("\n", 1) for part in parts)


def invocations(page: Path) -> Iterator[list[str]]:
    """Words after `syncd` in the page's shell blocks and code spans."""
    text = page.read_text()
    lines = [line for kind, body in FENCE.findall(text) if kind == "sh" for line in body.splitlines()]
    for code in (*lines, *SPAN.findall(FENCE.sub("", text))):
        if re.match(r"syncd [a-z-]", code):
            yield shlex.split(code.split("|")[0], comments=True)[1:]


def test_every_command_and_option_is_documented_and_no_other() -> None:
    known, documented = commands(), sections()
    assert set(documented) == set(known)
    for name, command in known.items():
        said = {
            option
            for line in documented[name].splitlines()
            if line.startswith("- ")
            for option in re.findall(r"`(--[a-z-]+)`", line)
        }
        assert said == options(command), name


def test_help_lists_each_command_in_a_line_and_brackets_arguments_once() -> None:
    runner = CliRunner(env={"COLUMNS": "140"})
    listed = runner.invoke(app, ["--help"]).stdout.split("Commands")[1].split("╰")[0].splitlines()[1:]
    assert len(listed) == len({name.split()[0] for name in commands()})
    for name in commands():
        assert "[[" not in runner.invoke(app, [*name.split(), "--help"]).stdout, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_in_the_docs_could_be_typed(page: Path) -> None:
    known = commands()
    for words in invocations(page):
        if words[0].startswith("-"):
            assert words[0] in ("--help", "--version"), words
            continue
        name = " ".join(words[:2]) if words[0] == "config" else words[0]
        if name == "COMMAND":
            continue
        assert name in known, f"{page.name}: syncd {' '.join(words)}"
        used = {word.split("=")[0] for word in words if word.startswith("--")} - {"--help"}
        assert used <= options(known[name]), f"{page.name}: syncd {' '.join(words)}"


def test_every_configuration_in_the_docs_loads(tmp_path: Path) -> None:
    count = 0
    for page in PAGES:
        for kind, body in FENCE.findall(page.read_text()):
            if kind != "yaml" or "${file:" in body:  # such a block needs its file to be there
                continue
            loads(body, tmp_path / "syncd.yaml", {"HOME": str(tmp_path)})
            count += 1
    assert count > 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", FENCE.sub("", page.read_text())):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_is_named_is_there(page: Path) -> None:
    text = page.read_text()
    named = [word for code in SPAN.findall(FENCE.sub("", text)) for word in code.split()]
    for word in named:
        top, slash, _ = word.partition("/")
        if slash and top in TOP and "*" not in word:
            assert (ROOT / word).exists(), f"{page.name}: {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_of_a_table_or_metric_is_one(page: Path) -> None:
    known = {*metadata.tables, *FUNCTIONS, "syncd_migrations", "syncd_reader"}
    for declared in Metrics().declared:
        known |= {declared.name, *(f"{declared.name}_{part}" for part in ("bucket", "count", "sum"))}
    for name in re.findall(r"\bsyncd_[a-z_]+\b", page.read_text()):
        assert name in known or name == "syncd_", f"{page.name}: {name}"


def test_the_design_names_every_room() -> None:
    rooms = {path.stem for path in (ROOT / "syncd").iterdir() if not path.name.startswith("__")}
    [listed] = [body for kind, body in FENCE.findall((ROOT / "docs/design.md").read_text()) if kind == "text"]
    assert rooms <= set(re.findall(r"[a-z]+", listed))


def test_the_readme_says_what_was_promised() -> None:
    text = (ROOT / "README.md").read_text()
    assert re.search(r"^make demo\b", text, re.MULTILINE)
    assert re.search(r"^make test\b", text, re.MULTILINE)
    assert "```mermaid" in text


def test_every_page_is_found_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    linked = {target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)}
    pages = {str(page.relative_to(ROOT)) for page in PAGES if page.parent.name not in ("adr", "tables")}
    assert pages - linked == {"README.md"}
    assert {"docs/adr", "LICENSE", "deploy/prometheus/rules.yaml", "deploy/grafana/syncd.json"} <= linked
