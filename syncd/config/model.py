"""The keys of the configuration, their types, bounds and defaults. `docs/configuration.md` explains each.

A cluster's own `resources`, `exclude`, `reconcile` or `exec_allowed` replaces that of the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SecretStr,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema

from syncd.config.source import expanded
from syncd.config.value import Duration, Share, Size, address, cron, database_url, no_shorter_than
from syncd.core.history import History as Setting
from syncd.core.history import Record
from syncd.core.selection import POLL_SECONDS, Selection, intersect

ClusterName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
ResourceName = Annotated[
    str, StringConstraints(pattern=r"^(\*|\*\.[A-Za-z0-9.-]*|[A-Za-z0-9][A-Za-z0-9-]*(\.[A-Za-z0-9.-]*)?)$")
]
Namespace = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
Initial = Literal["list", "watchlist", "auto"]
SchemaName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]


class Model(BaseModel):
    """Unknown keys are errors, values are fixed once loaded, keys go by their name in the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Database(Model):
    url: SecretStr = Field(
        SecretStr("sqlite:///syncd.db"),
        validate_default=True,
        json_schema_extra={"default": "sqlite:///syncd.db", "format": "uri"},
    )
    schema_name: SchemaName = Field("public", alias="schema")

    @field_validator("url")
    @classmethod
    def _absolute(cls, value: SecretStr, info: ValidationInfo) -> SecretStr:
        base, environ = _surroundings(info)
        return SecretStr(database_url(value.get_secret_value(), base, environ))

    @field_validator("schema_name")
    @classmethod
    def _not_reserved(cls, value: str) -> str:
        if value.lower().startswith("pg_"):
            raise ValueError("must not begin with pg_, which PostgreSQL keeps for itself")
        return value

    @property
    def shown(self) -> str:
        """The URL without its password, for messages."""
        text = re.sub(r"(://[^/@?#]*?):.*@", r"\1:***@", self.url.get_secret_value())
        return re.sub(r"(?i)(password=)[^&]*", r"\1***", text)


class History(Model):
    record: Literal["none", "changes", "versions"] = "changes"
    status: bool = True

    @model_validator(mode="before")
    @classmethod
    def _a_word_alone(cls, value: Any) -> Any:
        return {"record": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        words = {"enum": [record.value for record in Record]}
        return {"anyOf": [words, handler.resolve_ref_schema(handler(schema))]}

    @property
    def setting(self) -> Setting:
        """As the engine takes it."""
        return Setting(Record(self.record), self.status)


class ResourceEntry(Model):
    name: ResourceName
    namespaces: tuple[Namespace, ...] = ()
    label_selector: str = ""
    field_selector: str = ""
    page_size: int = Field(500, ge=1, le=10_000)
    redact: Literal["values", "none"] = "values"
    initial: Initial | None = None
    mode: Literal["watch", "poll"] = "watch"
    every: Annotated[Duration, no_shorter_than(timedelta(seconds=1))] | None = None
    history: History | None = None

    @model_validator(mode="before")
    @classmethod
    def _a_name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _secrets_by_name(self) -> Self:
        if self.redact == "none" and self.name.startswith("*"):
            raise ValueError("`redact: none` must name secrets: a wildcard never stores their values")
        return self

    @model_validator(mode="after")
    def _poll_alone(self) -> Self:
        if self.every is not None and self.mode != "poll":
            raise ValueError("takes `every` with `mode: poll` alone")
        if self.initial is not None and self.mode == "poll":
            raise ValueError("takes no `initial` with `mode: poll`, which always lists")
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler.resolve_ref_schema(handler(schema))]}

    def selection(self, where: str, initial: Initial) -> Selection:
        """The entry as the engine takes it; `where` names its place in messages, `initial` is the file's."""
        every = None if self.every is None else self.every.total_seconds()
        return Selection(
            self.name,
            self.namespaces,
            self.label_selector,
            self.field_selector,
            self.page_size,
            self.redact == "values",
            self.initial or initial,
            (every or POLL_SECONDS) if self.mode == "poll" else None,
            where,
            self.history.setting if self.history is not None else None,
        )


class Reconcile(Model):
    enabled: bool = True
    every: Annotated[Duration, no_shorter_than(timedelta(seconds=1))] | None = None
    jitter: Share | None = None
    cron: str | None = None
    compare: Literal["version", "content"] = "version"

    @field_validator("cron")
    @classmethod
    def _five_fields(cls, value: str | None) -> str | None:
        return cron(value) if value is not None else None

    @model_validator(mode="after")
    def _one_schedule(self) -> Self:
        if self.cron is not None and self.every is not None:
            raise ValueError("takes `every` or `cron`, not both")
        if self.cron is not None and self.jitter is not None:
            raise ValueError("takes `jitter` with `every` alone: a cron time is exact")
        return self

    @property
    def interval(self) -> timedelta | None:
        """Between two runs; None where a cron expression says when, or it is turned off."""
        if not self.enabled or self.cron is not None:
            return None
        return self.every or timedelta(hours=1)

    @property
    def spread(self) -> float:
        """The share of the interval by which a run may come sooner or later."""
        return 0.2 if self.jitter is None else self.jitter

    @property
    def deep(self) -> bool:
        """Whether documents are compared, not versions alone."""
        return self.compare == "content"


Entries = Annotated[tuple[ResourceEntry, ...], Field(min_length=1)]
Exclusions = tuple[ResourceName, ...]


def _command(value: str, info: ValidationInfo) -> str:
    """A name to be found in $PATH stays one; a path is made absolute."""
    if not value.strip() or "\0" in value:
        raise ValueError("must name a command, like aws or /usr/local/bin/aws")
    return str(expanded(value, *_surroundings(info))) if "/" in value else value


Commands = tuple[Annotated[str, AfterValidator(_command)], ...]


class Cluster(Model):
    name: ClusterName
    kubeconfig: Path | None = None
    context: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    resources: Entries | None = None
    exclude: Exclusions | None = None
    reconcile: Reconcile | None = None
    exec_allowed: Commands | None = None

    @field_validator("kubeconfig")
    @classmethod
    def _absolute(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        base, environ = _surroundings(info)
        return expanded(str(value), base, environ) if value is not None else None

    @field_validator("resources")
    @classmethod
    def _disjoint(cls, value: Entries | None) -> Entries | None:
        return _disjoint(value) if value is not None else None


class Changes(Model):
    keep: Annotated[Duration, no_shorter_than(timedelta(minutes=1))] = Field(
        timedelta(days=7), json_schema_extra={"default": "7d"}
    )
    rows: int = Field(1_000_000, ge=1)


class Webhook(Model):
    url: SecretStr
    secret: SecretStr | None = None
    timeout: Annotated[Duration, no_shorter_than(timedelta(milliseconds=100))] = Field(
        timedelta(seconds=10), json_schema_extra={"default": "10s"}
    )

    @field_validator("url")
    @classmethod
    def _http(cls, value: SecretStr) -> SecretStr:
        if not re.match(r"https?://[^/?#\s]+", value.get_secret_value()):
            raise ValueError("must be https://HOST/PATH, or http://")
        return value


class Sink(Model):
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    webhook: Webhook
    kinds: tuple[str, ...] = ()
    clusters: tuple[ClusterName, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    begin: Literal["now", "oldest"] = "now"
    parallel: int = Field(4, ge=1, le=64)


class DeletedObjects(Model):
    keep: Annotated[Duration, no_shorter_than(timedelta(hours=1))] = Field(
        timedelta(days=7), json_schema_extra={"default": "7d"}
    )


class Limits(Model):
    concurrent_snapshots: int = Field(4, ge=1, le=64)
    deletion_share: Share = 0.5
    queue_bytes: Annotated[Size, Field(ge=2**20)] = 32 * 2**20


class Server(Model):
    listen: str | None = "127.0.0.1:8090"

    @field_validator("listen")
    @classmethod
    def _host_and_port(cls, value: str | None) -> str | None:
        if value:
            address(value)
        return value or None

    @property
    def address(self) -> tuple[str, int] | None:
        """Where to listen, None where the server is turned off."""
        return address(self.listen) if self.listen else None


class Log(Model):
    format: Literal["console", "json"] = "console"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Views(Model):
    steampipe: bool = False


class Config(Model):
    database: Database = Field(default_factory=Database, validate_default=True)
    clusters: Annotated[tuple[Cluster, ...], Field(min_length=1)]
    resources: tuple[ResourceEntry, ...] = ()
    exclude: Exclusions = ()
    initial: Initial = "list"
    exec_allowed: Commands | None = None
    reconcile: Reconcile = Field(default_factory=Reconcile)
    history: History = Field(default_factory=History)
    changes: Changes = Field(default_factory=Changes)
    sinks: tuple[Sink, ...] = ()
    deleted_objects: DeletedObjects = Field(default_factory=DeletedObjects)
    limits: Limits = Field(default_factory=Limits)
    views: Views = Field(default_factory=Views)
    server: Server = Field(default_factory=Server)
    log: Log = Field(default_factory=Log)

    @field_validator("clusters")
    @classmethod
    def _distinct(cls, value: tuple[Cluster, ...]) -> tuple[Cluster, ...]:
        _once([cluster.name for cluster in value], "it is a key of every table")
        return value

    @field_validator("sinks")
    @classmethod
    def _each_once(cls, value: tuple[Sink, ...]) -> tuple[Sink, ...]:
        _once([sink.name for sink in value], "it is that of a cursor")
        return value

    @field_validator("resources")
    @classmethod
    def _disjoint(cls, value: tuple[ResourceEntry, ...]) -> tuple[ResourceEntry, ...]:
        return _disjoint(value)

    @model_validator(mode="after")
    def _something_to_mirror(self) -> Self:
        idle = [cluster.name for cluster in self.clusters if cluster.resources is None]
        if not self.resources and idle:
            raise ValueError(f"nothing is selected for {', '.join(idle)}: add `resources`, like `- pods`")
        return self

    @model_validator(mode="after")
    def _steampipe_on_postgresql(self) -> Self:
        if self.views.steampipe and self.database.url.get_secret_value().startswith("sqlite:"):
            raise ValueError("`views.steampipe` needs PostgreSQL: those queries are PostgreSQL's SQL")
        return self

    def selections(self, cluster: Cluster) -> list[Selection]:
        """What is asked of a cluster: its own entries, else the file's."""
        if cluster.resources is None:
            place, entries = "resources", self.resources
        else:
            place, entries = f"clusters[{self.clusters.index(cluster)}].resources", cluster.resources
        return [entry.selection(f"{place}[{i}]", self.initial) for i, entry in enumerate(entries)]

    def excluded(self, cluster: Cluster) -> tuple[str, ...]:
        """What is never mirrored of a cluster."""
        return self.exclude if cluster.exclude is None else cluster.exclude

    def commands(self, cluster: Cluster) -> tuple[str, ...] | None:
        """What a kubeconfig may run to log in to a cluster, None for anything."""
        return self.exec_allowed if cluster.exec_allowed is None else cluster.exec_allowed

    def schedule(self, cluster: Cluster) -> Reconcile:
        """When and how deep a cluster is reconciled."""
        return self.reconcile if cluster.reconcile is None else cluster.reconcile


def _surroundings(info: ValidationInfo) -> tuple[Path, Mapping[str, str]]:
    context = info.context or {}
    return context.get("base", Path()), context.get("environ", {})


def _once(names: Sequence[str], why: str) -> None:
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"has the name {', '.join(doubled)} twice; {why}")


def _disjoint(entries: tuple[ResourceEntry, ...]) -> tuple[ResourceEntry, ...]:
    """Refuses two entries that spell one resource alike and share a namespace. Entries that spell it in
    two ways are found when a cluster's discovery is known.
    """
    for (i, left), (j, right) in combinations(enumerate(entries), 2):
        if left.name.lower() == right.name.lower() and intersect(left.namespaces, right.namespaces):
            raise ValueError(
                f'entries {i} and {j} (counted from 0) both select "{left.name}" in the same namespaces; '
                "merge them or give them namespaces that do not intersect"
            )
    return entries
