"""WATCH: one open stream, from its first event to its end.

A stream holds a position in the collection's log and no queue of its own: however slow the client, it costs
no memory. Falling too far behind while a write is blocked ends it, as in the real server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from syncd.simulator import refusal
from syncd.simulator.kind import View
from syncd.simulator.listing import ListOptions
from syncd.simulator.record import Record, Scope
from syncd.simulator.watcher import Watcher

if TYPE_CHECKING:
    from syncd.simulator.simulator import Simulator

Write = Callable[[bytes], Awaitable[None]]

_CHUNK = 256 * 1024  # bytes that one write gathers
_LEAD = 2.0  # seconds before its deadline at which a watch gets a bookmark
_UNCACHED = ("", "events")  # read from etcd directly: no bookmarks on their own


@dataclass(frozen=True, slots=True)
class Opening:
    """A watch whose parameters were judged.

    Attributes:
        since: events up to this version are not delivered.
        reached: that of the last event there was; a bookmark has to say more than these do.
        initial: the objects to begin with, None where the watch begins with changes.
        error: the Status to begin and end with.
        spoilt: what becomes of the initial events, '' for the truth (see `Faults.spoil_watch_lists`).
    """

    since: int
    initial: list[Record] | None = None
    error: bytes | None = None
    spoilt: str = ""
    reached: int = 0


def validate(options: ListOptions, *, watch_list: bool = True) -> None:
    """Raises `Refusal` 422 for parameters that do not go together, 500 for a version that is none.

    Args:
        watch_list: whether the feature of that name is on.
    """
    if options.send_initial_events is not None and not watch_list:
        field = "sendInitialEvents"
        raise refusal.options_invalid(
            field, f"{field} is forbidden for watch unless the WatchList feature gate is enabled"
        )
    field = "resourceVersionMatch"
    if options.send_initial_events is not None and options.match != "NotOlderThan":
        raise refusal.options_invalid(
            field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    if options.match and options.send_initial_events is None:
        raise refusal.options_invalid(
            field, f"{field} is forbidden for watch unless sendInitialEvents is provided"
        )
    text = options.resource_version
    if text and not (text.isascii() and text.isdigit()):
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise refusal.refusal(500, "", f'resourceVersion: Invalid value: "{text}": {why}')


class WatchStream:
    """One watch of a collection.

    Args:
        watcher: what is to become of it; in the simulator's set while the stream is open.
    """

    def __init__(
        self, simulator: Simulator, view: View, scope: Scope, options: ListOptions, watcher: Watcher
    ) -> None:
        self._simulator = simulator
        self._view = view
        self._scope = scope
        self._options = options
        self._watcher = watcher
        self._collection = simulator.state.collection(view.kind.storage)
        self._position = self._collection.log.end
        self._writing = False
        self._lagging = False
        self._bookmarked = 0

    async def run(self, write: Write) -> bool:
        """Writes the body until its end; False where the connection is to be closed without one."""
        faults, watcher = self._simulator.faults, self._watcher
        faults.watchers.add(watcher)
        self._collection.listeners.add(self._changed)
        try:
            return await self._run(write)
        finally:
            self._collection.listeners.discard(self._changed)
            faults.watchers.discard(watcher)

    async def _run(self, write: Write) -> bool:
        opening = self._open()
        if opening.error is not None:
            await write(_error(opening.error))
            return True
        if opening.initial is not None and not await self._pour(self._initial(opening), write):
            return False
        if opening.spoilt == "end":
            return True
        return await self._follow(opening, write)

    def _open(self) -> Opening:
        options, collection, current = self._options, self._collection, self._simulator.resource_version
        self._position = collection.log.end
        version = int(options.resource_version or 0)
        # A watch without a version begins with the state, as if it had asked for it (since 1.34).
        initial = options.send_initial_events
        if initial is None:
            initial = version == 0
        if initial:
            if version > current:
                return Opening(version, error=msgspec.json.encode(refusal.too_large(version, current)))
            low, high = collection.current.range(self._scope.namespace)
            records = [collection.current.records[key] for key in collection.current.keys[low:high]]
            initially = [r for r in records if self._scope.contains(r)]
            spoilt = self._simulator.faults.watch_lists.get(self._view.kind.storage, "")
            error = None
            if spoilt == "fail":
                why = "the required storage feature RequestWatchProgress is disabled"
                error = msgspec.json.encode(refusal.status_object(500, "InternalError", why))
            return Opening(current, initial=initially, error=error, spoilt=spoilt)
        if version == 0:
            return Opening(current)
        if version < collection.floor:
            message = f"too old resource version: {version} ({collection.floor})"
            if self._view.kind.storage == _UNCACHED:
                message = "The resourceVersion for the provided watch is too old."
            status = refusal.status_object(410, "Expired", message)
            return Opening(version, error=msgspec.json.encode(status))
        self._position = collection.log.position_after(version)
        told = (event.version for event in reversed(collection.log.events) if not event.hidden)
        return Opening(version, reached=next(told, 0))

    def _initial(self, opening: Opening) -> Iterator[bytes]:
        records, spoilt, version = opening.initial or [], opening.spoilt, opening.since
        if spoilt == "reverse":
            records.reverse()
        elif spoilt == "end":
            del records[len(records) // 2 :]
        for number, record in enumerate(records):
            if spoilt == "mingle" and number == len(records) // 2:
                self._simulator.faults.midway()
                version = self._simulator.resource_version
                yield from self._pending(opening.since)
            if spoilt == "mingle" and self._collection.current.records.get(record.key) is not record:
                continue  # its change is told already
            yield b'{"type":"ADDED","object":%b}\n' % self._view.object(record.body)
        if self._options.allow_bookmarks and spoilt not in ("end", "unmarked"):
            yield self._view.bookmark(version, initial_events_end=spoilt != "ignore")

    async def _follow(self, opening: Opening, write: Write) -> bool:
        """Changes and bookmarks until the deadline, the end, or a cut."""
        watcher, loop = self._watcher, asyncio.get_running_loop()
        begun = loop.time()
        seconds = self._options.timeout or self._simulator.random.uniform(1_800, 3_600)
        seconds *= self._simulator.second
        bookmarks = self._bookmarks(begun, begun + seconds)
        due, forced = next(bookmarks)
        while True:
            watcher.wake.clear()
            if watcher.severed or watcher.gone:
                return False
            if not watcher.stalled:
                if not await self._pour(self._pending(opening.since), write):
                    return False
                now = loop.time()
                if watcher.error is not None:
                    return await self._pour(iter((_error(watcher.error),)), write)
                if self._behind() or now >= begun + seconds or (watcher.ending and self._level()):
                    return True
                if now >= due:
                    await self._bookmark(opening, write, forced=forced)
                    due, forced = next(bookmarks)
                    continue
                if not self._level():
                    continue
            timeout = None if watcher.stalled else max(0.0, min(due, begun + seconds) - loop.time())
            try:
                async with asyncio.timeout(timeout):
                    await watcher.wake.wait()
            except TimeoutError:
                continue

    async def _bookmark(self, opening: Opening, write: Write, *, forced: bool) -> None:
        """Where it says more than what the watch began with did; and more than the last, if not forced."""
        version = self._simulator.resource_version
        known = max(opening.since, opening.reached, 0 if forced else self._bookmarked)
        if version > known and self._level():
            await self._pour(iter((self._view.bookmark(version),)), write)
            self._bookmarked = version

    def _bookmarks(self, begun: float, deadline: float) -> Iterator[tuple[float, bool]]:
        """When bookmarks are due, and whether one is sent even if the last said the same: at the interval
        and 2 s before the deadline; a second later again if the version moved in between.
        """
        lead = _LEAD * self._simulator.second
        if self._options.allow_bookmarks and self._view.kind.storage != _UNCACHED:
            interval = self._simulator.bookmark_interval * self._simulator.second
            due = begun + interval
            while due < deadline - lead:
                yield due, True
                due += interval
            if deadline - lead > begun:
                yield deadline - lead, True
                yield deadline - lead / 2, False
        while True:
            yield deadline, False

    def _pending(self, since: int) -> Iterator[bytes]:
        """Lines that wait, of the events after `since`; not endless where they come as fast as they go."""
        log, size = self._collection.log, 0
        while not self._behind() and self._position < log.end and size < 4 * _CHUNK:
            event = log.events[self._position - log.start]
            self._position += 1
            if event.version > since and not event.hidden:
                line = event.line(self._view, self._scope)
                if line is not None:
                    size += len(line)
                    yield line

    async def _pour(self, lines: Iterator[bytes], write: Write) -> bool:
        """Writes lines, gathered; False when the connection is to be closed without an end."""
        watcher = self._watcher
        gathered: list[bytes] = []
        size = 0
        for line in lines:
            gathered.append(line)
            size += len(line)
            if watcher.mid_line:
                gathered[-1] = line[: len(line) // 2]
                await write(b"".join(gathered))
                return False
            if size >= _CHUNK:
                if not await self._write(b"".join(gathered), write):
                    return False
                gathered, size = [], 0
                if self._behind():
                    return True
        return not gathered or await self._write(b"".join(gathered), write)

    async def _write(self, data: bytes, write: Write) -> bool:
        watcher = self._watcher
        if watcher.sever_after is not None:
            if len(data) >= watcher.sever_after:
                await write(data[: watcher.sever_after])
                return False
            watcher.sever_after -= len(data)
        self._writing = True
        await write(data)
        self._writing = False
        return not (watcher.severed or watcher.gone)

    def _changed(self) -> None:
        # Only a blocked write makes a watcher slow: a burst of changes in one turn of the loop does not.
        if self._writing and self._collection.log.end - self._position > self._simulator.watch_buffer:
            self._lagging = True
        self._watcher.wake.set()

    def _behind(self) -> bool:
        return self._lagging or self._position < self._collection.log.start

    def _level(self) -> bool:
        return self._position >= self._collection.log.end


def _error(status: bytes) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % status
