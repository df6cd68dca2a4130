"""A short watch beside a stream that asks how far it is: a quiet resource gets a bookmark only each minute,
but a watch that is about to end gets one (mirror.md §6). What it learns goes into the stream's inbox; it
writes nothing.
"""

from __future__ import annotations

import asyncio

import msgspec

from syncd.core.frames import EventType, Frame, LineSplitter, parse_frame
from syncd.core.listwatch import Watching
from syncd.core.ports import WatchRequest
from syncd.core.resource import compare_versions
from syncd.sync.environment import Environment
from syncd.sync.reflector import Reflector


async def side_watch(environment: Environment, reflector: Reflector, version: str) -> None:
    """Watches from the stream's position until the stream has passed the version, or will by itself, or a few
    seconds are over.

    Raises:
        SyncdError: of the API; the stream began a snapshot.
    """
    timing = environment.timing
    since, told = reflector.machine.position, list[str]()
    seconds = max(1, round(timing.side_watch))
    splitter = LineSplitter()
    try:
        async with (
            asyncio.timeout(seconds + timing.watch_margin),
            environment.api.watch(reflector.stream, WatchRequest(since, seconds)) as chunks,
        ):
            async for chunk in chunks:
                for frame in filter(None, map(parse_frame, splitter.feed(chunk))):
                    if frame.type is EventType.ERROR:
                        return
                    if frame.type is EventType.BOOKMARK:
                        _level(environment, reflector, (since, told), frame)
                    else:
                        head = reflector.settings.transform.head(msgspec.Raw(frame.raw))
                        told.append(head.resource_version)
                    # What is later the stream gets too, and passes by itself.
                    late = told and compare_versions(told[-1], version) == 1
                    if late or reflector.machine.passed(version):
                        return
    except TimeoutError:
        return


def _level(
    environment: Environment, reflector: Reflector, asked: tuple[str, list[str]], frame: Frame
) -> None:
    """A bookmark counts as the stream's own, if the stream has what the side watch was told, and no more: no
    event, or as many at one version, which the stream by itself could not know to be all.
    """
    since, told = asked
    state = reflector.machine.state
    if not isinstance(state, Watching) or state.closed != since:
        return
    if told == [state.received] * (0 if state.received == since else state.alike):
        now = environment.clock.monotonic()
        for change in reflector.machine.bookmark_received(frame.bookmark()[0]):
            reflector.inbox.put(change, now)
