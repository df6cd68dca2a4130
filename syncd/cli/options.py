"""What several commands take: where the configuration is, how to print, how long; and its loading."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from syncd import logs
from syncd.cli.exit import USAGE
from syncd.config import Config, find, load
from syncd.config.value import duration
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


def given_duration(text: str, option: str) -> timedelta:
    """An option's value, like `90s`. Exits where it is none."""
    try:
        return duration(text)
    except ValueError as error:
        typer.echo(f"syncd: {option}: {error}", err=True)
        raise typer.Exit(USAGE) from error


def json_text(value: Any) -> str:
    """What JSON has no form of: moments in ISO 8601, the rest as it calls itself."""
    return value.isoformat() if isinstance(value, datetime) else str(value)
