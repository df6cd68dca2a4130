"""`syncd diff`: what changed about one object, when, and field by field where its versions are kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from syncd.cli.changes import as_json, heading
from syncd.cli.database import opened
from syncd.cli.exit import DONE, USAGE, perform
from syncd.cli.options import ConfigOption, Output, OutputOption, given_duration, load_config

if TYPE_CHECKING:
    from syncd.core.history import Difference
    from syncd.store.past import Step

_WIDTH = 100  # characters of a value that are shown


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(diff)


def diff(
    subject: Annotated[str, typer.Argument(metavar="KIND/NAME", help="As kubectl names it: deployment/web.")],
    config: ConfigOption = None,
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", metavar="NAME", help="Its namespace; any.", show_default=False),
    ] = "",
    cluster: Annotated[str, typer.Option(metavar="NAME", help="Its cluster; any.", show_default=False)] = "",
    since: Annotated[str, typer.Option(metavar="AGE", help="How far back, like 15m or 7d.")] = "24h",
    output: OutputOption = Output.TABLE,
) -> NoReturn:
    """Show what changed about an object, when, and field by field where its versions are kept."""
    from syncd.store.past import Named

    kind, slash, name = subject.partition("/")
    if not (kind and slash and name) or "/" in name:
        typer.echo("syncd: name it as KIND/NAME, like deployment/web, and its namespace with -n", err=True)
        raise typer.Exit(USAGE)
    loaded = load_config(config, quiet=True)
    oldest = datetime.now(UTC) - given_duration(since, "--since")

    async def work() -> int:
        async with opened(loaded) as database:
            steps = await database.steps(Named(kind, name, namespace, cluster), oldest)
        for step in steps:
            typer.echo(_as_json(step) if output is Output.JSON else _text(step))
        if not steps:
            typer.echo(f"syncd: no change of {subject} is recorded in the last {since}", err=True)
        return DONE

    perform(work, loaded)


def _fields(step: Step) -> list[Difference] | None:
    """What differs, None where only the paths are known."""
    from syncd.core.history import differences

    if step.before is None or step.change.object is None:
        return None
    return list(differences(step.before, step.change.object))


def _text(step: Step) -> str:
    fields = _fields(step)
    lines = [heading(step.change)]
    if fields is not None:
        lines += [f"    {each.path}: {_value(each.old)} -> {_value(each.new)}" for each in fields]
    elif step.change.changed_paths:
        lines += [f"    {path}" for path in step.change.changed_paths]
    return "\n".join(lines)


def _as_json(step: Step) -> str:
    from syncd.core.history import ABSENT

    fields = _fields(step)
    shown = None
    if fields is not None:
        sides = [(each.path, {"old": each.old, "new": each.new}) for each in fields]
        shown = [{"path": path, **{k: v for k, v in side.items() if v is not ABSENT}} for path, side in sides]
    return json.dumps({**json.loads(as_json(step.change)), "fields": shown}, ensure_ascii=False)


def _value(value: Any) -> str:
    from syncd.core.history import ABSENT

    if value is ABSENT:
        return "(none)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
