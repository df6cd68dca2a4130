"""The credential of an exec plugin: asked for once however many want it, kept until it nears its end, asked
for again when a server refuses it (list-watch.md §10).

Decides when to run; `exec.py` knows the documents and `process.py` the child.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from syncd.core.errors import ConfigError, LoginFailed
from syncd.core.recovery import Timing, backoff
from syncd.kube.auth import ClientCertificate, Exec
from syncd.kube.exec import Issued, issued, missing
from syncd.kube.process import run

Headers = list[tuple[str, str]]

_EARLY = 30.0  # seconds before its end that a credential is replaced …
_EARLY_SHARE = 0.1  # … but at most this share of what was left of it when it came
_SHORTEST = 5.0  # seconds a credential is used at least: a clock that is wrong must not run it every time
_PATIENCE = 30.0  # seconds before one that was fetched after a 401, and refused as well, is fetched again


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """What one request shows: its headers. A client certificate speaks through the connection."""

    headers: Headers = field(repr=False)


def bearer(token: str) -> Proof:
    """The proof that is a token."""
    return Proof([("Authorization", f"Bearer {token}")])


@dataclass(frozen=True, slots=True)
class _Kept:
    """A credential in use; times in seconds since 1970, None for never.

    `born` is monotonic; `after_refusal`: the one before it was refused.
    """

    proof: Proof
    renew_at: float | None
    expires_at: float | None
    born: float
    after_refusal: bool


class ExecLogin:
    """Runs one cluster's plugin.

    A credential that is still good but nears its end is replaced in the background, so that requests do not
    wait for it. After a failure the command rests as long as a connection would (0.8 s doubling to 30 s),
    whoever asks: a hundred streams that back off each by itself are still one plugin.

    Args:
        request: makes KUBERNETES_EXEC_INFO for a run.
        present: called with each run's certificate, None for none, before its proof is used.
        on_problem: told when a credential could not be replaced early.
        timeout: seconds a run may take.
        wall, monotonic: seconds.
    """

    def __init__(
        self,
        plugin: Exec,
        *,
        request: Callable[[], str],
        present: Callable[[ClientCertificate | None], Awaitable[None]],
        on_problem: Callable[[str], None],
        timeout: float,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plugin = plugin
        self._request = request
        self._present = present
        self._on_problem = on_problem
        self._timeout = timeout
        self._wall = wall
        self._monotonic = monotonic
        self._kept: _Kept | None = None
        self._refused = False
        self._failures = 0
        self._failure = ""
        self._rest_until = float("-inf")
        self._run: asyncio.Task[Proof | LoginFailed] | None = None
        self._waiting = 0
        self._tasks: set[asyncio.Task[Proof | LoginFailed]] = set()
        self._closed = False

    async def proof(self) -> Proof:
        """The current credential. Where the last one who waits for a run is cancelled, so is the run.

        Raises:
            LoginFailed: there is none.
        """
        kept, now = self._kept, self._wall()
        if kept is not None and (kept.renew_at is None or now < kept.renew_at):
            return kept.proof
        if kept is not None and kept.expires_at is not None and now < kept.expires_at:
            if self._run is None and not self._resting():
                self._start().add_done_callback(self._tell)
            return kept.proof
        if self._closed:
            raise LoginFailed("the client is closed")
        if self._run is None and self._resting():
            raise LoginFailed(self._failure)
        return await self._join(self._run or self._start())

    def rejected(self, proof: Proof) -> None:
        """A server said 401: the proof is dropped, unless it has been, or the last drop was in vain."""
        kept = self._kept
        if kept is None or kept.proof is not proof:
            return
        if not kept.after_refusal or self._monotonic() - kept.born >= _PATIENCE:
            self._kept = None
            self._refused = True

    async def aclose(self) -> None:
        """Kills what runs and waits for it. Nothing is run afterwards."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _resting(self) -> bool:
        return self._closed or self._monotonic() < self._rest_until

    def _start(self) -> asyncio.Task[Proof | LoginFailed]:
        task = self._run = asyncio.create_task(self._renew())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Proof | LoginFailed]) -> None:
        self._tasks.discard(task)
        if self._run is task:
            self._run = None

    def _tell(self, task: asyncio.Task[Proof | LoginFailed]) -> None:
        if not task.cancelled() and isinstance(outcome := task.result(), LoginFailed):
            self._on_problem(f"the credential could not be replaced early: {outcome}")

    async def _join(self, task: asyncio.Task[Proof | LoginFailed]) -> Proof:
        self._waiting += 1
        try:
            await asyncio.wait((task,))  # unlike `await task`, it leaves the task alone when cancelled
        finally:
            self._waiting -= 1
            if not self._waiting and not task.done():
                task.cancel()
                self._run = None  # who comes now begins a run of his own
        if task.cancelled():
            raise LoginFailed(f"the command {self._plugin.command!r} was interrupted: the client is closing")
        outcome = task.result()
        if isinstance(outcome, LoginFailed):
            raise LoginFailed(str(outcome)) from outcome.__cause__  # an error of his own for each who waits
        return outcome

    async def _renew(self) -> Proof | LoginFailed:
        """One run and its consequences. A failure is a value: perhaps nobody waits for it."""
        try:
            proof = await self._fetch()
        except LoginFailed as error:
            delay = backoff(self._failures, lambda: 0.0, Timing())
            self._failures += 1
            self._failure = str(error)
            self._rest_until = self._monotonic() + delay
            return error
        self._failures = 0
        return proof

    async def _fetch(self) -> Proof:
        credential = await self._ask()
        try:
            await self._present(credential.certificate)
        except ConfigError as exc:
            raise LoginFailed(f"the credential of {self._plugin.command!r} cannot be used: {exc}") from None
        proof = bearer(credential.token) if credential.token else Proof([])
        self._keep(proof, credential.expires)
        return proof

    async def _ask(self) -> Issued:
        plugin = self._plugin
        path = shutil.which(plugin.command, path=os.environ.get("PATH"))
        if path is None:
            raise LoginFailed(missing(plugin))
        environ = {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": self._request()}
        try:
            ended = await run((path, *plugin.args), environ, timeout=self._timeout)
        except OSError as exc:
            raise LoginFailed(f"the command {plugin.command!r} cannot be run: {exc.strerror}") from None
        except ValueError:  # a NUL, or half of a character; the text would quote it
            raise LoginFailed(
                f"the command {plugin.command!r} cannot be run: its args or env hold a character that no "
                "command can be given"
            ) from None
        return issued(plugin, ended)

    def _keep(self, proof: Proof, expires: float | None) -> None:
        now = self._wall()
        left = None if expires is None else max(expires - now, _SHORTEST)
        self._kept = _Kept(
            proof,
            renew_at=None if left is None else now + left - min(_EARLY, left * _EARLY_SHARE),
            expires_at=None if left is None else now + left,
            born=self._monotonic(),
            after_refusal=self._refused,
        )
        self._refused = False
