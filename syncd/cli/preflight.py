"""The commands that look before the leap: `resources`, `check`, `rbac`. None of them writes anything."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from enum import StrEnum
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from syncd.app import rbac as accounts
from syncd.app.finding import Finding, Severity
from syncd.app.quantity import counted
from syncd.cli.columns import columns
from syncd.cli.exit import DONE, FAILED, FINDINGS, USAGE, perform
from syncd.cli.options import ConfigOption, Output, OutputOption, load_config
from syncd.config import Cluster, Config
from syncd.config.value import spelt
from syncd.core.access import Need, needs
from syncd.core.errors import ConfigError, SyncdError
from syncd.core.explanation import Explained, Reason
from syncd.core.offline import offline
from syncd.core.selection import Chosen

if TYPE_CHECKING:
    from syncd.app.resources import Inventory

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")


class Form(StrEnum):
    """Forms of a manifest."""

    YAML = "yaml"
    JSON = "json"


ClusterOption = Annotated[
    str, typer.Option("--cluster", metavar="NAME", help="This cluster alone.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(resources)
    app.command()(check)
    app.command()(rbac)


def resources(
    config: ConfigOption = None,
    cluster: ClusterOption = "",
    every: Annotated[bool, typer.Option("--all", help="What no entry means, too.")] = False,
    output: OutputOption = Output.TABLE,
) -> NoReturn:
    """List what each cluster serves, what of it is mirrored, by which entry, and what is not and why.

    3: an entry means nothing that is served.
    """
    from syncd.app.resources import inventories

    loaded = load_config(config, quiet=True)

    async def work() -> int:
        found = await inventories(loaded, _clusters(loaded, cluster))
        if output is Output.JSON:
            typer.echo(json.dumps({"clusters": [_inventory_json(each) for each in found]}, indent=2))
        else:
            for each in found:
                _print_inventory(each, every=every)
        for each in found:
            for message in filter(None, (each.error, *each.problems)):
                typer.echo(f"syncd: {each.cluster}: {message}", err=True)
        if any(each.error for each in found):
            return FAILED
        return FINDINGS if any(each.problems for each in found) else DONE

    perform(work)


def check(config: ConfigOption = None, output: OutputOption = Output.TABLE) -> NoReturn:
    """Find what would fail before it does: log-in, permissions, certificates, database, room.

    Exits 0 when nothing would, 3 when something would, 1 when something could not be checked, 2 for the
    configuration.
    """
    from syncd.app.check import Verdict, check_all

    codes = {Verdict.FINE: DONE, Verdict.UNCHECKED: FAILED, Verdict.CONFIG: USAGE, Verdict.FAILS: FINDINGS}
    loaded = load_config(config, quiet=True)

    async def work() -> int:
        findings, verdict = await check_all(loaded)
        if output is Output.JSON:
            document = {"verdict": verdict.value, "findings": [each.as_json() for each in findings]}
            typer.echo(json.dumps(document, indent=2))
        else:
            _print_findings(findings)
        return codes[verdict]

    perform(work)


def rbac(
    config: ConfigOption = None,
    cluster: ClusterOption = "",
    namespace: Annotated[str, typer.Option(help="Where the ServiceAccount lives.")] = "syncd",
    service_account: Annotated[str, typer.Option(help="Its name.")] = "syncd",
    create_namespace: Annotated[
        bool,
        typer.Option(
            "--create-namespace/--no-create-namespace",
            help="Begin with that namespace (never default, kube-*).",
        ),
    ] = True,
    without_cluster: Annotated[
        bool,
        typer.Option("--offline", help="Ask no cluster; an error names what only a cluster can explain."),
    ] = False,
    output: Annotated[Form, typer.Option("--output", "-o", help="How to print the result.")] = Form.YAML,
) -> NoReturn:
    """Print the least account that the configuration needs: `syncd rbac | kubectl apply -f -`."""
    loaded = load_config(config, quiet=True)
    account = accounts.Account(_name(namespace, "--namespace"), _name(service_account, "--service-account"))

    async def work() -> int:
        chosen = _clusters(loaded, cluster)
        wanted = [(each, await _needs(loaded, each, without_cluster=without_cluster)) for each in chosen]
        if output is Form.JSON:
            items = [
                document
                for _, each in wanted
                for document in accounts.documents(each, account, create_namespace=create_namespace)
            ]
            typer.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2))
        else:
            texts = [
                accounts.render(each, account, _heading(of, account), create_namespace=create_namespace)
                for of, each in wanted
            ]
            typer.echo("".join(texts), nl=False)
        if len(wanted) > 1:
            names = ", ".join(of.name for of, _ in wanted)
            typer.echo(
                f"syncd: these are sets for {len(wanted)} clusters ({names}); choose one with --cluster "
                "before you apply it",
                err=True,
            )
        return DONE

    perform(work)


# --- behind the commands ----------------------------------------------------------------------------


def _clusters(config: Config, name: str) -> list[Cluster]:
    """Those asked for. Raises ConfigError where there is none of that name."""
    chosen = [cluster for cluster in config.clusters if name in ("", cluster.name)]
    if not chosen:
        known = ", ".join(cluster.name for cluster in config.clusters)
        raise ConfigError(f"--cluster: no cluster is named {name!r}; there are {known}")
    return chosen


def _name(value: str, option: str) -> str:
    if not _NAME.match(value):
        typer.echo(f"syncd: {option}: {value!r} is no name: lower-case letters, digits and - alone", err=True)
        raise typer.Exit(USAGE)
    return value


async def _needs(config: Config, cluster: Cluster, *, without_cluster: bool) -> list[Need]:
    if without_cluster:
        said = offline(cluster.name, config.selections(cluster), config.excluded(cluster))
        if said.unclear:
            lines = "\n  ".join(f'"{name}": {why}' for name, why in said.unclear)
            raise ConfigError(
                f"{cluster.name}: cannot be said with --offline:\n  {lines}\nRun it without --offline"
            )
        return said.needs
    from syncd.app.resources import selected

    try:
        found = await selected(config, cluster)
    except ConfigError:
        raise
    except SyncdError as error:
        raise SyncdError(
            f"{cluster.name}: {error}; what the entries mean only the cluster knows: try --offline, which "
            "says what can be said without"
        ) from error
    for problem in found.problems:
        typer.echo(f"syncd: {cluster.name}: {problem.message}", err=True)
    return needs(found.streams)


def _heading(cluster: Cluster, account: accounts.Account) -> list[str]:
    return [
        f"What syncd needs of the cluster {cluster.name}, and nothing else; made by `syncd rbac`.",
        "Apply it as somebody who may grant all of this: syncd rbac | kubectl apply -f -",
        f"A token for a test: kubectl -n {account.namespace} create token {account.name}",
    ]


def _inventory_json(inventory: Inventory) -> dict[str, Any]:
    return {
        "cluster": inventory.cluster,
        "error": inventory.error,
        "problems": inventory.problems,
        "resources": [_explained_json(each) for each in inventory.resources],
    }


def _explained_json(explained: Explained) -> dict[str, Any]:
    resource = explained.resource
    return {
        "name": resource.name,
        "group": resource.group,
        "version": resource.version,
        "versions": list(explained.versions),
        "kind": resource.kind,
        "namespaced": resource.namespaced,
        "verbs": sorted(resource.verbs),
        "short_names": list(resource.short_names),
        "categories": list(resource.categories),
        "reason": explained.reason.value,
        "detail": explained.detail,
        "streams": [
            {
                "entry": chosen.entry.name,
                "where": chosen.entry.where,
                "namespace": chosen.stream.namespace,
                "label_selector": chosen.stream.label_selector,
                "field_selector": chosen.stream.field_selector,
                "poll_seconds": chosen.poll,
            }
            for chosen in explained.streams
        ],
    }


def _print_inventory(inventory: Inventory, *, every: bool) -> None:
    if inventory.error:
        return
    shown = [each for each in inventory.resources if every or each.reason is not Reason.UNSELECTED]
    rows = [("RESOURCE", "VERSION", "KIND", "MIRRORED", "ENTRY", "WHERE, OR WHY NOT")]
    for each in shown:
        entries = dict.fromkeys(chosen.entry.name for chosen in each.streams)
        scopes = ", ".join(map(_scope, each.streams))
        mirrored = "yes" if each.streams else "no"
        resource = each.resource
        named = (resource.qualified, resource.version, resource.kind, mirrored)
        rows.append((*named, ", ".join(entries), scopes or each.detail))
    count = sum(bool(each.streams) for each in inventory.resources)
    typer.echo(f"{inventory.cluster}: {count} of {len(inventory.resources)} resources are mirrored")
    typer.echo(columns(rows))
    if len(shown) < len(inventory.resources):
        left = len(inventory.resources) - len(shown)
        typer.echo(f"and {left} that no entry means (--all lists them)")


def _scope(chosen: Chosen) -> str:
    stream = chosen.stream
    scope = stream.namespace or ("all namespaces" if stream.resource.namespaced else "cluster")
    selectors = ",".join(filter(None, (stream.label_selector, stream.field_selector)))
    scope = f"{scope} [{selectors}]" if selectors else scope
    if chosen.poll is None:
        return scope
    unasked = "" if chosen.entry.poll else ": offers no watch"
    return f"{scope} (polled every {spelt(timedelta(seconds=chosen.poll))}{unasked})"


def _print_findings(findings: list[Finding]) -> None:
    marks = {Severity.OK: "ok", Severity.WARNING: "warning", Severity.ERROR: "ERROR"}
    width = max((len(each.subject) for each in findings), default=0)
    for each, after in zip_longest(findings, findings[1:]):
        typer.echo(f"{marks[each.severity]:<8} {each.subject:<{width}}  {each.message}")
        if each.next_step and (after is None or after.next_step != each.next_step):
            typer.echo(f"{'':<8} {'':<{width}}  -> {each.next_step}")
    counts = {severity: sum(each.severity is severity for each in findings) for severity in Severity}
    errors, warnings = counts[Severity.ERROR], counts[Severity.WARNING]
    typer.echo(f"{counted(errors, 'error')}, {counted(warnings, 'warning')}")
