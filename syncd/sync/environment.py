"""What all reflectors of one cluster share, and what sets one apart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import random
from typing import Any, Protocol

from syncd.core.document import Transform
from syncd.core.history import UNRECORDED, History
from syncd.core.ports import ApiServer, Clock, Store
from syncd.core.recovery import Timing
from syncd.core.resource import Cause, Stream
from syncd.metrics import Metrics


class Log(Protocol):
    """Structured lines: an event, and what it is about as keywords."""

    def debug(self, event: str, **about: Any) -> Any: ...
    def info(self, event: str, **about: Any) -> Any: ...
    def warning(self, event: str, **about: Any) -> Any: ...
    def error(self, event: str, **about: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """What shapes one stream's mirror.

    Attributes:
        projection: a hash of all that shapes a stored document besides its version.
        custom: a custom resource: its schema may change content under one version, so every relist
            compares content, and a changed projection counts as settled only after its storage was
            torn down (list-watch.md §8).
        ranges: whether the server is known to list in byte order; else deletions wait for the last page.
        bookmarks: False for core events, which get none.
        watch_list: begin with a WatchList where the server can, else with a list.
        poll: seconds between two snapshots of a stream that is not watched; None watches.
        deletion_share: of the stream's rows that one snapshot may delete unconfirmed.
        queue_bytes: of received events that wait for their commit.
        history: what is recorded of its changes.
    """

    transform: Transform
    projection: str
    page_size: int = 500
    custom: bool = False
    ranges: bool = True
    bookmarks: bool = True
    watch_list: bool = False
    poll: float | None = None
    deletion_share: float = 0.5
    queue_bytes: int = 32 * 1024 * 1024
    history: History = UNRECORDED

    def cause(self, stream: Stream) -> Cause:
        """Of a tombstone that DELETED leaves: a selector cannot tell a deletion from a departure."""
        return Cause.LEFT_SELECTION if stream.selective else Cause.DELETED


@dataclass(slots=True)
class Environment:
    """The world of one cluster's reflectors.

    Attributes:
        snapshots: how many may be under way at a time.
        verify: asks whether it is still the same cluster behind the URL; raises `FenceLost` where a new
            epoch began because it is not.
        missed: a stream's path answered 404: discovery should look again.
        distrusted: a new epoch began; the other streams must begin anew.
        lease_lost: the database is somebody else's now.
        refused: until when (monotonic seconds) no WatchList is asked of an API group, or for a stream.
    """

    api: ApiServer
    store: Store
    clock: Clock
    metrics: Metrics
    log: Log
    verify: Callable[[], Awaitable[None]]
    missed: Callable[[Stream], None]
    distrusted: Callable[[Stream], None]
    lease_lost: Callable[[], None]
    snapshots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(4))
    timing: Timing = field(default_factory=Timing)
    random: Callable[[], float] = random
    refused: dict[str | Stream, float] = field(default_factory=dict)

    def knows_watch_list(self, stream: Stream) -> bool:
        """Whether nothing says that the server cannot send the stream a WatchList."""
        now = self.clock.monotonic()
        return not any(self.refused.get(key, now) > now for key in (stream.resource.group, stream))

    def watch_list_refused(self, stream: Stream, why: str, *, alone: bool = False) -> None:
        """Remembers it for all streams of the group, or for this one alone, and says it once."""
        if self.knows_watch_list(stream):
            self.log.info("no WatchList here: listing instead", stream=str(stream), why=why)
        key = stream if alone else stream.resource.group
        self.refused[key] = self.clock.monotonic() + self.timing.watch_list_refused
