"""Faults in a row: what a reflector has to remember between two of them."""

from __future__ import annotations

from syncd.core import recovery
from syncd.core.errors import (
    Expired,
    Forbidden,
    NotAllowed,
    NotFound,
    ProtocolError,
    SyncdError,
    TooManyRequests,
)
from syncd.core.recovery import Action, Reaction, Trouble
from syncd.core.resource import Stream
from syncd.sync.environment import Environment


class Setbacks:
    """Counts one stream's faults, says them, and asks `recovery.react` what to do."""

    def __init__(self, environment: Environment, stream: Stream) -> None:
        self._environment = environment
        self._stream = stream
        self._count = self._refused = self._throttled = 0
        self._since: float | None = None
        self._version = ""
        self._expired_at: float | None = None

    def clear(self) -> None:
        """The stream delivered."""
        self._count = self._refused = self._throttled = 0
        self.listed()

    def listed(self) -> None:
        """A snapshot came to an end. Faults still count until a watch delivers: one that is refused after
        each snapshot must not list in a loop.
        """
        self._since, self._version = None, ""

    def react(self, error: SyncdError, *, listing: bool, version: str) -> Reaction:
        """One more fault; what to do about it.

        Args:
            listing: a snapshot was under way.
            version: that a watch was to start from, '' in a snapshot.
        """
        environment = self._environment
        now = environment.clock.monotonic()
        self._since = now if self._since is None else self._since
        trouble = Trouble(
            attempt=self._count,
            refused=self._refused,
            throttled=self._throttled,
            listing=listing,
            expired_before=None if self._expired_at is None else now - self._expired_at,
            failing_for=now - self._since,
            same_version=bool(version) and version == self._version,
        )
        reaction = recovery.react(error, trouble, environment.random, environment.timing)
        self._count += 1
        refused = isinstance(error, Forbidden | NotFound | NotAllowed)
        self._refused = self._refused + 1 if refused else 0
        self._throttled = self._throttled + 1 if isinstance(error, TooManyRequests) else 0
        if isinstance(error, ProtocolError):
            self._version = version
        if isinstance(error, Expired):
            self._expired_at = now
        if isinstance(error, NotFound):
            environment.missed(self._stream)
        environment.metrics.retry(self._stream, reaction.kind)
        say = environment.log.info if reaction.delay < 2.0 else environment.log.warning
        say(
            "stream interrupted",
            stream=str(self._stream),
            error=str(error),
            then=reaction.action.value,
            seconds=round(reaction.delay, 1),
        )
        return reaction

    def negligible(self, error: SyncdError, reaction: Reaction) -> bool:
        """A first cut, resumed within a second, is no state to speak of."""
        return self._count == 1 and reaction.action is Action.RETRY and reaction.kind == "cut"
