"""`syncd changes`: what happened, once or for as long as somebody reads."""

from __future__ import annotations

import json
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from syncd.cli.database import opened
from syncd.cli.exit import DONE, FINDINGS, first, perform, stop_on_signals
from syncd.cli.options import ConfigOption, Output, OutputOption, given_duration, json_text, load_config

if TYPE_CHECKING:
    from syncd.app.feeding import Start
    from syncd.store.database import Database
    from syncd.store.feed import ChangeRecord, Wanted

_PATHS = 4  # of a change that a line names


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(changes)


def changes(
    config: ConfigOption = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    cursor: Annotated[
        str,
        typer.Option(metavar="NAME", help="Go on where this name stopped, and remember.", show_default=False),
    ] = "",
    since: Annotated[
        str, typer.Option(metavar="AGE", help="Nothing older, like 15m or 24h.", show_default=False)
    ] = "",
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Of this type; may be repeated.", show_default=False),
    ] = None,
    cluster: Annotated[str, typer.Option(metavar="NAME", help="Of this cluster.", show_default=False)] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="In this namespace.", show_default=False)
    ] = "",
    output: OutputOption = Output.TABLE,
) -> NoReturn:
    """Print the changes of objects in the order of their commits.

    3: some were purged before anyone read them.
    """
    from syncd.store.feed import Wanted

    loaded = load_config(config, quiet=True)
    oldest = datetime.now(UTC) - given_duration(since, "--since") if since else None
    clusters, namespaces = ((one,) if one else () for one in (cluster, namespace))
    wanted = Wanted(clusters, namespaces, tuple(kind or ()), oldest)

    async def work() -> int:
        from syncd.app import feeding

        stop = stop_on_signals(DONE)
        async with opened(loaded) as database:
            start = await feeding.start(database, cursor, from_now=follow and not (cursor or since))
            _tell_gap(start, cursor, output)
            await first(stop, _print(database, start, wanted, cursor, follow, output))
        return FINDINGS if start.gap is not None else DONE

    perform(work, loaded)


async def _print(
    database: Database, start: Start, wanted: Wanted, cursor: str, follow: bool, output: Output
) -> None:
    """The cursor moves once what it leaves behind is printed: who is cut off is told twice, never not. Who
    stops with Ctrl-C is not cut off: what was printed is remembered first.
    """
    import asyncio

    from syncd.app import feeding

    printed = 0
    async with aclosing(feeding.pages(database, start.position, wanted, follow=follow)) as pages:
        async for page in pages:
            printed += len(page.changes)
            for change in page.changes:
                typer.echo(as_json(change) if output is Output.JSON else _line(change))
            if cursor:
                moving = asyncio.ensure_future(database.advance(cursor, page.upto))
                try:
                    await asyncio.shield(moving)
                except asyncio.CancelledError:
                    await moving
                    raise
    if not printed and not cursor:
        typer.echo("syncd: no such change is recorded", err=True)


def as_json(change: ChangeRecord) -> str:
    """A line of JSON."""
    values = {name: getattr(change, name) for name in change.__slots__ if name != "transaction_id"}
    values["position"] = str(change.position)
    return json.dumps(values, default=json_text, ensure_ascii=False)


def heading(change: ChangeRecord) -> str:
    """When, what and of which object."""
    name = f"{change.namespace}/{change.name}" if change.namespace else change.name
    moment = change.committed_at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    source = "" if change.source == "watch" else f"  ({change.source})"
    return f"{moment}  {change.change_type:<7}  {change.cluster}  {change.kind} {name}{source}"


def _line(change: ChangeRecord) -> str:
    said = ""
    if change.changed_paths:
        more = len(change.changed_paths) - _PATHS
        said = ", ".join(change.changed_paths[:_PATHS]) + (f" and {more} more" if more > 0 else "")
    elif change.change_type == "deleted":
        said = change.cause or ""
    elif change.initial:
        said = "initial"
    return f"{heading(change)}  {said}".rstrip()


def _tell_gap(start: Start, cursor: str, output: Output) -> None:
    if start.gap is None:
        return
    until = start.gap.committed_at.isoformat()
    typer.echo(
        f"syncd: changes from before {until} were purged before {cursor} read them; "
        "what they led to is in syncd_objects",
        err=True,
    )
    if output is Output.JSON:
        typer.echo(json.dumps({"gap": True, "cursor": cursor, "purged_before": until}))
