"""Misbehaviour on command. A rule answers, delays, truncates or pauses the requests that it matches, for a
number of them or for a time; a watch can be cut, ended or stalled where it stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from syncd.simulator.refusal import Refusal, refusal, status_object
from syncd.simulator.requests import Request
from syncd.simulator.watcher import Watcher

if TYPE_CHECKING:
    from syncd.simulator.simulator import Simulator

_REASONS = {
    400: ("BadRequest", "the request is bad"),
    401: ("Unauthorized", "Unauthorized"),
    403: ("Forbidden", "forbidden"),
    404: ("NotFound", "the server could not find the requested resource"),
    410: ("Expired", "The resourceVersion for the provided list is too old."),
    429: ("TooManyRequests", "storage is (re)initializing"),
    500: ("InternalError", "Internal error occurred: etcdserver: leader changed"),
    503: ("ServiceUnavailable", "apiserver is shutting down"),
    504: ("Timeout", "Timeout: request did not complete within the allotted timeout"),
}
_PLAIN = {
    404: "404 page not found\n",
    429: "Too many requests, please try again later.\n",
    503: "the server is currently unable to handle the request\n",
}


WATCH_LISTS = ("refuse", "fail", "ignore", "unmarked", "end", "reverse", "mingle")


@dataclass(slots=True)
class Pause:
    """A request that waits. `reached` is set when it has come, `release` lets it go on."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        self.released.set()


@dataclass(slots=True)
class Rule:
    """What happens to the requests that match; empty conditions match all.

    Attributes:
        skip: matching requests that pass untouched first.
        times: requests left, None for no bound.
        until: on the simulator's clock, None for no bound.
        continued: only pages after the first, or only others.
        probes: whether lists that only ask for the version count.
    """

    verb: str = ""
    resource: str = ""
    group: str | None = None
    namespace: str = ""
    path: str = ""
    times: int | None = 1
    until: float | None = None
    skip: int = 0
    continued: bool | None = None
    probes: bool = True
    answer: Refusal | None = None
    delay: float = 0.0
    truncate: int | None = None
    expire: bool = False
    pause: Pause | None = None
    reverse: bool = False

    def takes(self, request: Request, now: float) -> bool:
        """Whether the request is one of the rule's; counts it if so."""
        if (
            self.spent(now)
            or (self.verb and request.verb != self.verb)
            or (self.resource and request.resource != self.resource)
            or (self.group is not None and request.group != self.group)
            or (self.namespace and request.namespace != self.namespace)
            or (self.path and not request.path.startswith(self.path))
            or (request.probes and not self.probes)
            or (self.continued is not None and ("continue" in request.query) != self.continued)
        ):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True

    def spent(self, now: float) -> bool:
        return self.times == 0 or (self.until is not None and now >= self.until)


class Faults:
    """The switchboard of one simulator. Every method can also be called over the control path.

    Conditions, the same everywhere: `verb, resource, group, namespace, path` (a prefix), and `times` (default
    once; None: no bound) or `seconds`.
    """

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self.rules: list[Rule] = []
        self.watchers: set[Watcher] = set()
        self._pauses: list[Pause] = []
        self.stale_groups: set[str] = set()
        self.missing_groups: set[str] = set()
        self.watch_lists: dict[tuple[str, str], str] = {}
        self.midway: Callable[[], object] = lambda: None

    def clear(self) -> None:
        """Back to good behaviour: rules, stalls and sick groups go, pauses are released."""
        self.release_pauses()
        self.rules.clear()
        self.stale_groups.clear()
        self.missing_groups.clear()
        self.watch_lists.clear()
        for _, collection in self._simulator.state:
            collection.hide = 0
        self.release_watches()

    def taken_by(self, request: Request) -> list[Rule]:
        """The rules that this request falls under, each counted."""
        now = self._simulator.clock()
        self.rules = [rule for rule in self.rules if not rule.spent(now)]
        return [rule for rule in self.rules if rule.takes(request, now)]

    # --- requests ---------------------------------------------------------------------------------

    def answer(
        self,
        status: int,
        *,
        retry_after: int | None = None,
        plain: bool = False,
        close: bool = False,
        message: str = "",
        reason: str = "",
        **conditions: Any,
    ) -> None:
        """Answer with an error: a Status, or plain text as proxies and the server's own filters write it.

        Args:
            reason: of the Status, where it is to be another than the usual one.
            plain: text/plain.
            retry_after: seconds, as the header and in a Status' details.
            close: ask the client to leave, as a server does that shuts down.
        """
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        if close:
            headers["Connection"] = "close"
        if plain:
            text = message or _PLAIN.get(status, f"error {status}\n")
            made = Refusal(status, text.encode(), plain=True, headers=headers)
        else:
            known, usual = _REASONS.get(status, ("", f"error {status}"))
            details = {} if retry_after is None else {"retryAfterSeconds": retry_after}
            made = refusal(status, reason or known, message or usual, details=details, headers=headers)
        self._add(conditions, answer=made)

    def delay(self, delay: float, **conditions: Any) -> None:
        """Wait so many seconds before answering."""
        self._add(conditions, delay=delay)

    def truncate(self, after: int = 1_000, **conditions: Any) -> None:
        """Cut the body of a list after so many bytes, the status being 200 already, and close."""
        self._add({"verb": "list", **conditions}, truncate=after)

    def expire_tokens(self, **conditions: Any) -> None:
        """Answer the next continue tokens with 410 and an inconsistent token."""
        self._add({"verb": "list", "continued": True, **conditions}, expire=True)

    def reverse(self, **conditions: Any) -> None:
        """Give the items of a page in reverse order, as only an aggregated server may."""
        self._add({"verb": "list", **conditions}, reverse=True)

    def pause_page(self, page: int = 1, resource: str = "", **conditions: Any) -> Pause:
        """Hold the nth page of a list from now (probes do not count) until it is released."""
        pause = Pause()
        self._pauses.append(pause)
        self._add(
            {"verb": "list", "resource": resource, "skip": page - 1, "probes": False, **conditions},
            pause=pause,
        )
        return pause

    def release_pauses(self) -> None:
        """Let every held request go on."""
        for pause in self._pauses:
            pause.release()
        self._pauses.clear()

    def _add(self, conditions: dict[str, Any], **effect: Any) -> None:
        seconds = conditions.pop("seconds", None)
        if seconds is not None:
            conditions = {"times": None, **conditions, "until": self._simulator.clock() + seconds}
        self.rules.append(Rule(**conditions, **effect))

    # --- watches ----------------------------------------------------------------------------------

    def cut_watches(
        self,
        resource: str = "",
        *,
        group: str | None = None,
        mid_line: bool = False,
        after_bytes: int | None = None,
    ) -> int:
        """Close the connections of open watches without an end: at once, in the middle of their next
        event, or when so many more bytes are written. How many watches.
        """
        chosen = self._matching(group, resource)
        for watcher in chosen:
            watcher.mid_line = mid_line
            watcher.sever_after = after_bytes
            watcher.severed = not mid_line and after_bytes is None
            watcher.wake.set()
        return len(chosen)

    def end_watches(self, resource: str = "", *, group: str | None = None) -> int:
        """End open watches as the server does when it likes: a plain EOF."""
        chosen = self._matching(group, resource)
        for watcher in chosen:
            watcher.ending = True
            watcher.wake.set()
        return len(chosen)

    def fail_watches(self, status: int, resource: str = "", *, group: str | None = None) -> int:
        """End open watches with an ERROR event."""
        chosen = self._matching(group, resource)
        reason, message = _REASONS.get(status, ("", f"error {status}"))
        for watcher in chosen:
            watcher.error = msgspec.json.encode(status_object(status, reason, message))
            watcher.wake.set()
        return len(chosen)

    def stall_watches(self, resource: str = "", *, group: str | None = None) -> int:
        """Write nothing more to open watches, as over a half-open connection."""
        chosen = self._matching(group, resource)
        for watcher in chosen:
            watcher.stalled = True
        return len(chosen)

    def release_watches(self) -> None:
        """Let stalled watches go on."""
        for watcher in self.watchers:
            watcher.stalled = False
            watcher.wake.set()

    def spoil_watch_lists(self, how: str, *, group: str = "", resource: str) -> None:
        """What becomes of WatchLists of a resource from now on: refused by 422, failed in the stream by 500,
        ignored (objects, and then an ordinary bookmark), unmarked (objects, and silence), ended half-way,
        given in reverse, or mingled with the changes that `midway` makes when half the objects are told.
        """
        if how not in WATCH_LISTS:
            raise ValueError(f"no such way: {how}; there are {', '.join(WATCH_LISTS)}")
        self.watch_lists[(group, resource)] = how

    def drop_events(self, count: int = 1, *, group: str = "", resource: str) -> None:
        """Keep the next changes of a resource from all watchers, for ever; lists show them."""
        self._simulator.collection(group, resource).hide = count

    def _matching(self, group: str | None, resource: str) -> list[Watcher]:
        return [watcher for watcher in self.watchers if watcher.matches(group, resource)]

    # --- discovery --------------------------------------------------------------------------------

    def stale_group(self, group: str) -> None:
        """Discovery says that it could not refresh the group: Stale, or 503 for it alone."""
        self.stale_groups.add(group)

    def missing_group(self, group: str) -> None:
        """Discovery leaves the group out, and its paths are not found; its objects and definitions stay."""
        self.missing_groups.add(group)

    def restore_group(self, group: str) -> None:
        self.stale_groups.discard(group)
        self.missing_groups.discard(group)
