"""Reconciles: by schedule, by request, or by a command of its own; one resource at a time a cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from syncd.app.daemon import Daemon
from syncd.core.ports import Discovery, Report
from syncd.core.resource import Resource
from syncd.core.served import Identity, Served, identity
from syncd.sync.reconcile import Order, Reconcile
from syncd.sync.reflector import Reflector
from syncd.sync.supervisor import Supervisor

_LOOK = 0.1  # seconds between two looks at whether a cluster is out of reach


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to reconcile: names as the configuration takes them, () for all; one cluster, '' for all."""

    resources: tuple[str, ...] = ()
    cluster: str = ""
    order: Order = field(default_factory=Order)


@dataclass(slots=True)
class Run:
    """How far it is: streams done and to do, objects checked, reports by stream."""

    streams: int = 0
    done: int = 0
    checked: int = 0
    current: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    reports: list[dict[str, Any]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For a row of syncd_requests."""
        return {key: value for key, value in asdict(self).items() if key != "counts"}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Run:
        """What another process wrote."""
        known = {key: value for key, value in values.items() if key in cls.__slots__}
        return cls(**known)

    @property
    def drift(self) -> int:
        return sum(report["drift"] for report in self.reports)

    @property
    def left(self) -> int:
        """Findings that were not repaired."""
        return sum(report["drift"] - report["repaired"] for report in self.reports)

    @property
    def failed(self) -> list[str]:
        return [f"{report['stream']}: {report['error']}" for report in self.reports if report["error"]]


async def reconcile(daemon: Daemon, wanted: Wanted, progress: Callable[[Run], None]) -> Run:
    """Reconciles what is wanted; clusters side by side. A daemon that has just begun has no streams yet: they
    are waited for, and a cluster that has none because it is out of reach is reported, not passed over.
    """
    run = Run()
    supervisors = [each for each in daemon.supervisors if wanted.cluster in ("", each.settings.name)]
    await asyncio.gather(*(_planned(supervisor) for supervisor in supervisors))
    unknown = dict.fromkeys(wanted.resources)
    pairs: list[tuple[Supervisor, list[Reflector]]] = []
    for supervisor in supervisors:
        chosen = supervisor.reflectors
        if wanted.resources:
            found = meant([reflector.stream.resource for reflector in chosen], wanted.resources)
            unknown = {name: None for name in unknown if not found[name]}
            every = set().union(*found.values())
            chosen = [each for each in chosen if identity(each.stream.resource) in every]
        pairs.append((supervisor, chosen))
    missed = [supervisor for supervisor in supervisors if not supervisor.planned.is_set()]
    run.reports += [_missed(supervisor) for supervisor in missed]
    run.streams = sum(len(reflectors) for _, reflectors in pairs)
    run.unknown = [] if missed else list(unknown)
    await asyncio.gather(
        *(_one_cluster(supervisor, chosen, wanted.order, (run, progress)) for supervisor, chosen in pairs)
    )
    run.current = ""
    return run


async def _planned(supervisor: Supervisor) -> None:
    """Waits until the cluster's streams are known, or it is known why they are not."""
    while not (supervisor.planned.is_set() or supervisor.error):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(supervisor.planned.wait(), _LOOK)


async def _one_cluster(
    supervisor: Supervisor,
    reflectors: Sequence[Reflector],
    order: Order,
    shown: tuple[Run, Callable[[Run], None]],
) -> None:
    run, progress = shown
    for reflector in reflectors:
        stream = str(reflector.stream)

        def page(checked: int, remaining: int | None, stream: str = stream) -> None:
            run.counts[stream] = checked
            run.checked = sum(run.counts.values())
            run.current = stream
            progress(run)

        report = await Reconcile(supervisor.environment, reflector, order, page).run()
        run.done += 1
        run.reports.append(_as_json(reflector, report))
        progress(run)


def _missed(supervisor: Supervisor) -> dict[str, Any]:
    """In place of a report, for a cluster of which nothing is known."""
    name, report = supervisor.settings.name, Report(error=supervisor.error)
    about = {"stream": name, "cluster": name, "resource": "", "namespace": "", "drift": 0}
    return {**about, **asdict(report)}


def _as_json(reflector: Reflector, report: Report) -> dict[str, Any]:
    stream = reflector.stream
    return {
        "stream": str(stream),
        "cluster": stream.cluster,
        "resource": stream.resource.qualified,
        "namespace": stream.namespace,
        "drift": report.drift,
        **asdict(report),
    }


def meant(mirrored: Sequence[Resource], names: Iterable[str]) -> dict[str, set[Identity]]:
    """What of the mirrored each name means, spelt as in the configuration: categories and wildcards too."""
    served = Served(Discovery(tuple(mirrored)))
    return {name: {identity(each) for each in served.meant_by(name).resources} for name in names}
