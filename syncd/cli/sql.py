"""`syncd sql` and `syncd tables`: the mirror by SQL, and what there is to ask it."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Annotated, Any, NoReturn

import typer

from syncd.cli import answer
from syncd.cli.answer import Form
from syncd.cli.database import opened
from syncd.cli.exit import DONE, FAILED, FINDINGS, USAGE, first, perform, stop_on_signals
from syncd.cli.options import ConfigOption, load_config
from syncd.core.errors import QueryError

_ALL = (
    "SELECT relation, relation_type AS type, description, note FROM dictionary"
    " WHERE place = 0 ORDER BY relation_type DESC, relation"
)
_COLUMNS = (
    "SELECT column_name, type, description, source_path FROM dictionary"
    " WHERE relation = '{}' AND place > 0 ORDER BY place"
)
FormOption = Annotated[Form, typer.Option("--output", "-o", help="How to print the answer.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(sql)
    app.command()(tables)


def sql(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One query; - reads it from stdin.")],
    config: ConfigOption = None,
    timeout: Annotated[float, typer.Option(help="Seconds that the database may take.", min=0.001)] = 60.0,
    output: FormOption = Form.TABLE,
) -> NoReturn:
    """Ask the mirror in SQL.

    It reads only, whatever the query says. `syncd tables` lists what there is.
    """
    text = sys.stdin.read() if query == "-" else query
    if not text.strip():
        typer.echo("syncd: an empty query; try: syncd sql 'SELECT * FROM freshness'", err=True)
        raise typer.Exit(USAGE)
    loaded = load_config(config, quiet=True)

    async def work() -> int:
        async with opened(loaded, checked=False) as database, database.asking(text, timeout) as found:
            await answer.write(found, output)
        return DONE

    perform(lambda: _stoppable(work()), loaded)


def tables(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A table or view; all if none.", show_default=False)
    ] = "",
    config: ConfigOption = None,
    output: FormOption = Form.TABLE,
) -> NoReturn:
    """List the tables and views, or the columns of one.

    3: there is none of that name.
    """
    loaded = load_config(config, quiet=True)

    async def work() -> int:
        text = _COLUMNS.format(name.replace("'", "''")) if name else _ALL
        async with opened(loaded) as database, database.asking(text) as found:
            if await answer.write(found, output) or not name:
                return DONE
        typer.echo(f'syncd: there is no table or view "{name}"; `syncd tables` lists them', err=True)
        return FINDINGS

    perform(lambda: _stoppable(work()), loaded)


async def _stoppable(work: Coroutine[Any, Any, int]) -> int:
    codes: list[int] = []

    async def do() -> None:
        try:
            codes.append(await work)
        except QueryError as error:
            typer.echo(f"syncd: {error}", err=True)
            codes.append(USAGE)

    return FAILED if await first(stop_on_signals(), do()) else codes[0]
