"""What the engine needs of the world: small protocols, each with its contract. `app` plugs adapters in.

Every method raises errors of `syncd.core.errors` only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from syncd.core.change import Batch, Committed, KeyRange, RowVersion, StreamRow, Tombstone
from syncd.core.definition import Definition
from syncd.core.resource import Cause, Resource, State, Stream


class Clock(Protocol):
    """Time. `now` is aware UTC on the database's clock; `monotonic` is for durations, in seconds."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


# --- the API server -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListRequest:
    """One page of a list. Neither resourceVersion nor match is ever sent: a list is consistent.

    `limit` None asks for everything at once. `field_selector` is added to the stream's own.
    """

    limit: int | None = 500
    continue_token: str | None = None
    field_selector: str = ""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """A watch from a version, with bookmarks; `initial_events` asks for a WatchList instead."""

    resource_version: str | None
    timeout_seconds: int
    initial_events: bool = False


class ApiServer(Protocol):
    """One cluster's API server.

    Errors: `ApiError` for any answer but 2xx, `ConnectionLost` where there is no complete answer.
    """

    async def list(self, stream: Stream, request: ListRequest, *, metadata_only: bool = False) -> bytes:
        """The complete body of a 200 answer; a truncated body is `ConnectionLost`."""
        ...

    def watch(
        self, stream: Stream, request: WatchRequest, *, metadata_only: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Raw chunks of the stream's body, identity-encoded, cut anywhere. Entering raises what the
        server answered instead of 200; a clean end of body ends the iteration, anything else raises
        `ConnectionLost`. Leaving closes the connection.
        """
        ...

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The body of a 200 answer to a plain GET of a path under the server's root."""
        ...


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a cluster serves.

    Attributes:
        resources: every resource of every served version but the stale ones, best version of a group
            first; subresources left out.
        stale: (group, version) pairs whose document is stale or could not be had: nothing may be
            concluded from their absence.
        complete: False when a whole part failed.
    """

    resources: tuple[Resource, ...]
    stale: frozenset[tuple[str, str]] = frozenset()
    complete: bool = True


class Discoverer(Protocol):
    """The cluster's discovery."""

    async def discover(self) -> Discovery:
        """Asks with the last ETag, so that an unchanged document costs nothing; equal results are the
        same object.
        """
        ...


class ClusterApi(ApiServer, Discoverer, Protocol):
    """All that a supervisor asks of one cluster."""

    @property
    def server(self) -> str:
        """The API server's URL."""
        ...

    async def identity(self) -> tuple[str, bool]:
        """The uid of namespace kube-system; where that is forbidden a hash of server and CA, and True."""
        ...

    async def version(self) -> str:
        """gitVersion."""
        ...


# --- the database ---------------------------------------------------------------------------------


class Store(Protocol):
    """The mirror's tables, as a reflector needs them.

    Every writing method is one transaction under the holder's lease and raises:
        FenceLost: the row moved, or the lease was lost; nothing was written.
        StoreUnavailable: nothing is known to be written; call again with the same arguments after
            reading the row.
    """

    async def open(self, stream: Stream, *, adopt: Iterable[int] = ()) -> StreamRow:
        """The stream's row under this holder, made (`pending`, the cluster's epoch, no version) where
        there is none. A new stream takes over the rows that the streams `adopt` hold in its namespace.
        Updates api_version and kind.
        """
        ...

    async def read(self, stream_id: int) -> StreamRow | None:
        """The row as it is now, None where it is gone."""
        ...

    async def rows(
        self, row: StreamRow, keys: KeyRange | Sequence[str], *, documents: bool = False
    ) -> list[RowVersion]:
        """The stream's own rows in a range or of some keys, in byte order of the key. A quarantined
        object stands in for its row.
        """
        ...

    async def newest(self, row: StreamRow) -> RowVersion | None:
        """The stream's row with the highest comparable version, None where there is none."""
        ...

    async def tombstones(self, row: StreamRow, keys: Sequence[str]) -> list[Tombstone]:
        """The tombstones of these keys of the row's epoch, newest last."""
        ...

    async def commit(self, row: StreamRow, batch: Batch) -> Committed:
        """One transaction: first the compare-and-swap of the stream's row on (holder, epoch, version),
        then rows, tombstones, findings. A row that the database refuses for its data is quarantined
        and the rest goes on (mirror.md §10).
        """
        ...

    async def begin_epoch(self, row: StreamRow, reason: str) -> None:
        """Distrust: for every stream of the cluster epoch + 1, `syncing`, no version; a no-op where the
        cluster's epoch is no longer the row's.
        """
        ...

    async def begin_reconciliation(
        self, row: StreamRow, *, deep: bool, dry_run: bool, request_id: int | None
    ) -> int:
        """A new row of syncd_reconciliations, its id."""
        ...

    async def finish_reconciliation(self, row: StreamRow, reconciliation_id: int, report: Report) -> None:
        """The run's figures."""
        ...


@dataclass(slots=True)
class Report:
    """The figures of one reconcile of one stream. `error` '' when it came to an end."""

    reconciliation_id: int = 0
    list_version: str = ""
    checked: int = 0
    missing: int = 0
    stale: int = 0
    ghost: int = 0
    altered: int = 0
    repaired: int = 0
    error: str = ""

    @property
    def drift(self) -> int:
        return self.missing + self.stale + self.ghost + self.altered


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """What is known of a cluster once it answers. `weak`: kube-system may not be read, so the uid is a
    hash of server and CA.
    """

    name: str
    uid: str
    server: str
    kubernetes_version: str
    labels: Mapping[str, str] = field(default_factory=dict)
    weak: bool = False


@dataclass(frozen=True, slots=True)
class KnownStream:
    """A stream that the database knows, selected or not."""

    stream_id: int
    identity: tuple[str, str, str, str, str, str]
    state: State
    object_count: int


@dataclass(frozen=True, slots=True)
class Request:
    """A row of syncd_requests: what an operator asked of the running daemon."""

    request_id: int
    action: str
    arguments: Mapping[str, object]


class Registry(Protocol):
    """Clusters, streams and requests, as a supervisor needs them. Errors as in `Store`."""

    async def see_cluster(self, cluster: ClusterSeen) -> bool:
        """Records the cluster. Where its uid is another than before: a new epoch for all its streams in
        the same transaction, and True.
        """
        ...

    async def streams(self, cluster: str) -> list[KnownStream]: ...

    async def retire(self, stream_id: int, *, cause: Cause) -> int:
        """The stream's rows become tombstones and its row goes, in one transaction; how many rows."""
        ...

    async def mark_cluster(self, cluster: str, state: State | None, error: str) -> None:
        """Why the cluster cannot be had at all, '' when it answers again; with a state, of all its streams
        too.
        """
        ...

    async def mark_stream(self, stream_id: int, state: State, error: str) -> None: ...

    async def definitions(self, cluster: str) -> dict[str, tuple[str, int]]:
        """(uid, generation) of the CustomResourceDefinitions that are kept of a cluster, by name."""
        ...

    async def keep_definitions(
        self, cluster: str, found: Sequence[Definition], gone: Collection[str] = ()
    ) -> None:
        """These are so now, and those are no more."""
        ...

    async def requests(self) -> list[Request]:
        """Unanswered requests, oldest first."""
        ...

    async def answer(self, request_id: int, *, error: str, result: Mapping[str, object]) -> None: ...

    async def progress(self, request_id: int, progress: Mapping[str, object]) -> None: ...


class Mirror(Store, Registry, Protocol):
    """The database, as a supervisor and its reflectors need it together."""
