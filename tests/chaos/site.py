"""What the rooms of one seed share: the cluster, the database, the product between them and what was seen.

Nothing is done here; the steps are in the rooms beside this one.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from syncd.simulator.server import write_kubeconfig
from syncd.simulator.simulator import Simulator
from tests.chaos.checker import Checker
from tests.chaos.daemon import Mirror
from tests.chaos.front import Front
from tests.chaos.history import History, Scope, Type
from tests.chaos.picture import Picture, picture
from tests.chaos.postgresql import PostgresqlFaults, Server
from tests.chaos.schedule import Schedule
from tests.chaos.windows import Windows
from tests.conftest import DatabasePlace
from tests.e2e.table import Table

TYPES: dict[str, Type] = {
    "configmaps": ("", "configmaps"),
    "pods": ("", "pods"),
    "widgets": ("example.com", "widgets"),
}
NAMESPACES = ("a", "ord", "ord-b", "zz")  # `ord-b/a` sorts before `ord/a`
SCOPES: dict[str, tuple[Scope, ...]] = {
    "configmaps": (Scope(), Scope(("a", "ord")), Scope(("ord-b", "zz", "a"))),
    "pods": (Scope(tier="gold"), Scope(), Scope(tier="tin"), Scope(("ord",), "gold")),
    "widgets": (Scope(),),
}
"""What may be configured; the first of each at the start."""
DEFINITION = "widgets.example.com"


class Failed(AssertionError):
    """Something did not hold; the message says what."""


@dataclass(slots=True)
class Site:
    """Everything of one seed.

    Attributes:
        generation: of the past and of the scopes; a picture from before another one proves nothing.
        oldest: no version goes back beyond it.
        rescoped: the scopes were changed.
        record: of changes, as the configuration spells it.
        wrong: what was found to be.
    """

    schedule: Schedule
    directory: Path
    simulator: Simulator
    front: Front
    history: History
    checker: Checker
    place: DatabasePlace
    table: Table
    postgresql: PostgresqlFaults | None
    mirror: Mirror = field(init=False)
    windows: Windows = field(default_factory=Windows)
    generation: int = 0
    oldest: int = 0
    rescoped: bool = False
    record: str = ""
    wrong: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, schedule: Schedule, directory: Path, server: Server | None) -> Site:
        """The site of a schedule, empty; `server` where it is on PostgreSQL."""
        simulator = Simulator(
            seed=schedule.seed, bookmark_interval=0.3, history=schedule.history, watch_buffer=100
        )
        history = History(simulator, {TYPES[name]: choice[0] for name, choice in SCOPES.items()})
        place = (
            server.place()
            if server is not None
            else DatabasePlace("sqlite", f"sqlite:///{directory / 'mirror.db'}")
        )
        return cls(
            schedule,
            directory,
            simulator,
            Front(simulator),
            history,
            Checker(simulator, history, tuple(TYPES.values())),
            place,
            Table(place),
            PostgresqlFaults(server, place) if server is not None else None,
            record=schedule.record,
        )

    def configure(self) -> Path:
        """Writes the configuration of the scopes in force; its path."""
        kubeconfig = self.directory / "kubeconfig"
        write_kubeconfig(kubeconfig, self.front.url)
        document: dict[str, Any] = {
            "database": {"url": self.place.url, "schema": self.place.schema},
            "clusters": [{"name": "c", "kubeconfig": str(kubeconfig)}],
            "resources": [self._entry(type_, scope) for type_, scope in self.history.scopes.items()],
            "initial": self.schedule.initial,
            "limits": {"queue_bytes": self.schedule.queue},
            "history": self.record,
            "reconcile": {"enabled": False},
            "server": {"listen": ""},
            "log": {"format": "json", "level": "debug"},
        }
        path = self.directory / "syncd.yaml"
        path.write_text(json.dumps(document))
        return path

    def _entry(self, type_: Type, scope: Scope) -> dict[str, Any]:
        name = f"{type_[1]}.{type_[0]}" if type_[0] else type_[1]
        entry: dict[str, Any] = {"name": name, "page_size": self.schedule.page_size}
        if scope.namespaces:
            entry["namespaces"] = list(scope.namespaces)
        if self.polled(type_):
            entry |= {"mode": "poll", "every": "1s"}
        if scope.tier:
            entry["label_selector"] = scope.selector
        return entry

    def polled(self, type_: Type) -> bool:
        """Whether it is polled, not watched."""
        return self.schedule.polls and type_ == TYPES["configmaps"]

    def served(self) -> set[str]:
        """The names of the mirrored resources that the cluster has at present."""
        return {kind.name for kind in self.simulator.kinds if (kind.group, kind.name) in TYPES.values()}

    def wanted(self) -> list[tuple[str, str, str]]:
        """The streams that there should be: (resource, namespace, selector)."""
        served, scopes = self.served(), self.history.scopes
        return [
            (type_[1], namespace, scope.selector)
            for type_, scope in scopes.items()
            if type_[1] in served
            for namespace in scope.namespaces or ("",)
        ]

    def distrust(self) -> None:
        """Another past, or other scopes, from here on."""
        self.generation += 1
        self.checker.distrust()

    def picture(self) -> Picture | None:
        """What the tables say; None where they are not there yet, or not to be had at present."""
        try:
            return picture(self.table)
        except (sqlite3.OperationalError, psycopg.errors.UndefinedTable, psycopg.OperationalError):
            return None

    def judge(self) -> None:
        """
        Raises:
            Failed: a picture was wrong, or the daemon is no more.
        """
        if self.wrong:
            raise Failed("; ".join(self.wrong[:5]))
        failure = self.mirror.failure()
        if failure:
            raise Failed(f"the daemon: {failure}")
