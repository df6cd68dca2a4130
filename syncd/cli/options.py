"""What several commands take: where the configuration is and how to print, and the loading of it."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from syncd import logs
from syncd.cli.exit import USAGE
from syncd.config import Config, find, load
from syncd.core.errors import ConfigError


class Output(StrEnum):
    """Forms of a result."""

    TABLE = "table"
    JSON = "json"


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="The configuration; else $SYNCD_CONFIG, ./syncd.yaml, ~/.config/syncd/syncd.yaml, "
        "/etc/syncd/syncd.yaml.",
        show_default=False,
    ),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print the result.")]


def find_config(explicit: Path | None) -> Path:
    """The configuration's file. Exits where there is none."""
    try:
        return find(explicit, os.environ, Path.cwd())
    except ConfigError as error:
        typer.echo(f"syncd: {error}", err=True)
        raise typer.Exit(USAGE) from error


def load_config(explicit: Path | None, *, quiet: bool = False) -> Config:
    """The configuration, with logging set up as it says; `quiet` shows warnings alone. Exits where the
    file cannot be used.
    """
    path = find_config(explicit)
    try:
        loaded = load(path, os.environ)
    except ConfigError as error:
        typer.echo(f"syncd: {error}", err=True)
        raise typer.Exit(USAGE) from error
    level = "warning" if quiet and loaded.log.level == "info" else loaded.log.level
    logs.configure(loaded.log.format, level)
    return loaded
