"""`syncd`: its commands and their options."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from syncd import __version__, logs
from syncd.cli import changes, diff, preflight, sql
from syncd.cli.database import opened
from syncd.cli.exit import DONE, FAILED, FINDINGS, USAGE, first, hangups, perform, stop_on_signals
from syncd.cli.options import ConfigOption, Output, OutputOption, find_config, given_duration, load_config
from syncd.config import Config, json_schema
from syncd.core import recovery
from syncd.core.errors import ConfigError, LeaseHeld, StoreError, StoreUnavailable
from syncd.core.freshness import Verdict

if TYPE_CHECKING:
    from syncd.app.daemon import Daemon
    from syncd.app.reconciling import Run, Wanted
    from syncd.cli.progress import ReconcileProgress
    from syncd.store.database import Database

# What a command needs alone is imported in it: `status` opens no HTTP client, `run` draws no bars.

CLAIM_SECONDS = 20.0
"""How long a running daemon may take to claim a request before it counts as deaf."""

app = typer.Typer(
    name="syncd",
    help="Mirrors Kubernetes clusters into a SQL database, rows and resource version in one transaction.",
    epilog="Exit codes: 0 done and nothing found, 1 could not do it, 2 bad usage or configuration, "
    "3 done, with findings (a stale stream, drift left, a parked stream).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # it wraps paragraphs; a line break in a docstring is none
)
config_app = typer.Typer(help="About the configuration file.", no_args_is_help=True)
app.add_typer(config_app, name="config")


MigrateOption = Annotated[
    bool, typer.Option("--migrate/--no-migrate", help="Bring the database's schema to head first.")
]


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Mirrors Kubernetes clusters into a SQL database, rows and resource version in one transaction."""
    if version:
        typer.echo(f"syncd {__version__}")
        raise typer.Exit(DONE)


@app.command()
def run(config: ConfigOption = None, migrate: MigrateOption = True) -> NoReturn:
    """Run the daemon: mirror until asked to stop by SIGTERM or SIGINT.

    SIGHUP, or a change of its files, makes it follow the configuration.
    """
    from syncd.app.daemon import running, scaled_timing
    from syncd.app.notify import waiting
    from syncd.app.reload import Origin
    from syncd.app.service import Service

    path, loaded = find_config(config), load_config(config)

    async def work() -> int:
        stop = stop_on_signals(DONE)
        origin = Origin(path, os.environ, hangups())
        current, attempt = loaded, 0
        while not stop.is_set():
            try:
                async with running(current, migrate=migrate, timing=scaled_timing()) as daemon:
                    attempt = 0
                    await Service(daemon, origin).run(stop)
                    if daemon.failure is not None:
                        raise daemon.failure
                return DONE
            except StoreUnavailable as error:
                delay = recovery.backoff(attempt, lambda: 0.5, scaled_timing())
                where = current.database.shown
                logs.get("app").warning(
                    "no database yet", database=where, error=str(error), seconds=round(delay, 1)
                )
                waiting(os.environ, f"no database yet: {where}: {error}", delay)
                await first(stop, asyncio.sleep(delay), origin.hangup.wait())
                attempt += 1
                current = origin.reloaded(current)
        return DONE

    perform(work, loaded)


@app.command()
def sync(
    config: ConfigOption = None,
    migrate: MigrateOption = True,
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds that a cluster or stream may fail before it is given up.")
    ] = 60.0,
) -> NoReturn:
    """Bring every stream live once, then exit.

    3: some stream is parked or could not be had.
    """
    from syncd.app.daemon import running, scaled_timing
    from syncd.cli.progress import SyncProgress
    from syncd.cli.settling import settled

    loaded = load_config(config, quiet=True)

    async def work() -> int:
        stop = stop_on_signals()
        async with running(loaded, migrate=migrate, timing=scaled_timing()) as daemon:
            with SyncProgress(daemon) as progress:
                if await first(stop, settled(daemon, patience, progress.show, listed=True)):
                    return FAILED
            return _tell_unsettled(daemon)

    perform(work, loaded)


@app.command()
def status(
    config: ConfigOption = None,
    max_lag: Annotated[str, typer.Option(help="The lag past which a stream is stale, like 60s.")] = "60s",
    output: OutputOption = Output.TABLE,
) -> NoReturn:
    """Say from the database alone how every stream is.

    3: one is stale, parked, or the daemon is down.
    """
    from syncd.cli import report

    loaded, bound = load_config(config), given_duration(max_lag, "--max-lag")

    async def work() -> int:
        async with opened(loaded) as database:
            found = await database.status()
        if output is Output.JSON:
            typer.echo(report.status_json(found, bound))
        else:
            report.print_status(found, bound)
        fresh = all(verdict is Verdict.FRESH for verdict in report.verdicts(found, bound).values())
        return DONE if fresh and found.streams else FINDINGS

    perform(work, loaded)


@app.command()
def reconcile(
    resources: Annotated[
        list[str] | None,
        typer.Argument(metavar="RESOURCE", help="As in the configuration; all if none."),
    ] = None,
    config: ConfigOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Record what differs, repair nothing.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Compare content too, not versions alone.")] = False,
    output: OutputOption = Output.TABLE,
) -> NoReturn:
    """Compare the clusters with the table, report the drift and repair it.

    Asks the running daemon; where there is none, does it itself. 3: drift is left, or a stream could not be
    reconciled.
    """
    from syncd.app.reconciling import Wanted
    from syncd.cli import report
    from syncd.cli.progress import ReconcileProgress
    from syncd.sync.reconcile import Order

    loaded = load_config(config, quiet=True)
    wanted = Wanted(tuple(resources or ()), order=Order(deep=deep, dry_run=dry_run))

    async def work() -> int:
        stop = stop_on_signals()
        with ReconcileProgress() as progress:
            result: list[Run] = []

            async def do() -> None:
                result.append(await _reconcile(loaded, wanted, progress))

            if await first(stop, do()):
                return FAILED
        done = result[0]
        if output is Output.JSON:
            typer.echo(report.run_json(done))
        else:
            report.print_run(done, dry_run=dry_run)
        for name in done.unknown:
            typer.echo(f'syncd: nothing that is mirrored is named "{name}"; see `syncd status`', err=True)
        if done.unknown:
            return USAGE
        return FINDINGS if done.left or done.failed else DONE

    perform(work, loaded)


@app.command()
def migrate(
    config: ConfigOption = None,
    rebuild_views: Annotated[
        bool, typer.Option("--rebuild-views", help="Make the views anew, without columns that are gone.")
    ] = False,
    reader: Annotated[
        bool, typer.Option("--reader", help="PostgreSQL: a role that can read all this and nothing else.")
    ] = False,
    reader_name: Annotated[str, typer.Option(metavar="NAME", help="The name of that role.")] = "syncd_reader",
) -> NoReturn:
    """Bring the database's schema to head, and the views.

    `run` and `sync` do it by themselves unless told not to. 3: a view is not as wanted.
    """
    from syncd.app import viewing

    loaded = load_config(config)

    async def work() -> int:
        async with opened(loaded, checked=False) as database:
            before = await database.current()
            await database.migrate()
            after = await database.current()
            outcomes = await viewing.show(database, rebuild=rebuild_views)
            if loaded.views.steampipe:
                from syncd.app import steampipe

                outcomes += steampipe.outcomes(await steampipe.make(database))
            if reader:
                made = await database.allow_reader(reader_name)
                typer.echo(f"role {reader_name}: {'made' if made else 'already there'}, may read all this")
        changed = "already there" if before == after else f"from {before or 'nothing'}"
        done = sum(not outcome.note for outcome in outcomes)
        typer.echo(f"{loaded.database.shown}: schema at {after}, {changed}; {done} views made or changed")
        left = [outcome for outcome in outcomes if outcome.note]
        for outcome in left:
            typer.echo(f"syncd: view {outcome.name}: {outcome.action.value}: {outcome.note}", err=True)
        return FINDINGS if left else DONE

    perform(work, loaded)


@app.command()
def simulate(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to listen on 127.0.0.1; 0 picks a free port.")
    ] = 8001,
    pods: Annotated[int, typer.Option(min=0, help="Pods to begin with; other kinds in proportion.")] = 1000,
    churn: Annotated[float, typer.Option(min=0, help="Changes a second.")] = 20.0,
    seed: Annotated[int, typer.Option(help="The same seed makes the same cluster.")] = 0,
    kubeconfig: Annotated[Path, typer.Option(help="Where to write a kubeconfig for it.")] = Path(
        "simulator.kubeconfig"
    ),
) -> NoReturn:
    """Serve a simulated Kubernetes API until stopped. kubectl can talk to it, and break it on command."""
    from syncd.simulator.server import run_simulator
    from syncd.simulator.simulator import Simulator
    from syncd.simulator.workload import Workload

    async def work() -> int:
        stop = stop_on_signals()
        simulator = Simulator(seed=seed, remember=False, history=20_000)  # it may run for days
        workload = Workload(simulator, seed=seed)
        workload.fill(pods)

        def ready(url: str) -> None:
            typer.echo(f"{url} serves {pods} pods and more, {churn:g} changes a second")
            typer.echo(f"kubectl --kubeconfig {kubeconfig} get pods -A")

        try:
            serving = run_simulator(workload, port=port, kubeconfig=kubeconfig, churn=churn, ready=ready)
            await first(stop, serving)
        except OSError as error:
            what = f"write {error.filename}" if error.filename else f"listen on 127.0.0.1:{port}"
            option = "--kubeconfig" if error.filename else "--port"
            reason = os.strerror(error.errno or 0)
            raise ConfigError(f"cannot {what}: {reason}; choose another {option}") from error
        return DONE

    perform(work)


@app.command()
def demo(
    length: Annotated[str, typer.Option("--for", help="About how long, like 15s or 5m.")] = "30s",
    forever: Annotated[bool, typer.Option("--forever", help="Go on until Ctrl-C.")] = False,
    pods: Annotated[int, typer.Option(min=10, max=200_000, help="Pods of the simulated cluster.")] = 5_000,
    directory: Annotated[Path, typer.Option("--dir", help="Where its files go.")] = Path(".demo"),
) -> NoReturn:
    """Show all of it in half a minute: a simulated cluster, a kill, an expired version, drift, and a proof.

    Needs no cluster and no database server. 1: the table does not equal the cluster.
    """
    from rich.console import Console

    from syncd.demo.play import Play, Settings

    seconds = None if forever else given_duration(length, "--for").total_seconds()
    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        console = Console(width=200, no_color=True, markup=False, emoji=False)
    play = Play(Settings(seconds, pods, directory), console)

    async def work() -> int:
        stopped = await first(stop_on_signals(), play.run())
        return DONE if play.complete and (forever or not stopped) else FAILED

    perform(work)


preflight.register(app)
changes.register(app)
diff.register(app)
sql.register(app)


@config_app.command("schema")
def config_schema() -> None:
    """Print the JSON schema of the configuration, for editors."""
    typer.echo(json.dumps(json_schema(), indent=2))


# --- what the commands share --------------------------------------------------------------------------


def _tell_unsettled(daemon: Daemon) -> int:
    """Says what is not live; the exit code that it means."""
    code = DONE
    for supervisor in daemon.supervisors:
        for problem in supervisor.problems:
            typer.echo(f"syncd: {supervisor.settings.name}: {problem}", err=True)
            code = code or FINDINGS
        if not supervisor.planned.is_set():
            typer.echo(f"syncd: {supervisor.settings.name}: {supervisor.error or 'no answer'}", err=True)
            code = FAILED
    for reflector in daemon.reflectors:
        if not reflector.live:
            progress = reflector.progress
            typer.echo(f"syncd: {reflector.stream}: {progress.state.value}: {progress.error}", err=True)
            code = code or FINDINGS
    return code


async def _reconcile(config: Config, wanted: Wanted, progress: ReconcileProgress) -> Run:
    """Does it here under the lease, or asks who has the lease to do it."""
    from syncd.app.daemon import running, scaled_timing
    from syncd.app.reconciling import reconcile as reconcile_streams
    from syncd.cli.settling import settled

    try:
        async with running(config, timing=scaled_timing()) as daemon:
            await settled(daemon, 60.0)
            return await reconcile_streams(daemon, wanted, progress.show)
    except LeaseHeld as held:
        async with opened(config) as database:
            return await _ask(database, wanted, progress, held)


async def _ask(database: Database, wanted: Wanted, progress: ReconcileProgress, held: LeaseHeld) -> Run:
    from syncd.app.reconciling import Run

    arguments: Mapping[str, Any] = {
        "resources": list(wanted.resources),
        "deep": wanted.order.deep,
        "dry_run": wanted.order.dry_run,
    }
    request = await database.ask("reconcile", arguments)
    waited = 0.0
    while True:
        reply = await database.reply(request)
        if reply is None:
            raise StoreError("the request is gone from syncd_requests; ask again")
        if reply.answered_at is not None:
            if reply.error:
                raise StoreError(f"the daemon could not do it: {reply.error}")
            return Run.from_json(reply.result)
        if reply.progress:
            progress.show(Run.from_json(reply.progress))
        if reply.claimed_at is None and waited > CLAIM_SECONDS and await database.withdraw(request):
            raise StoreError(f"no answer from the daemon ({held}); is it stopped?")
        await asyncio.sleep(0.1)
        waited += 0.1
