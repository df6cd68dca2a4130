"""One open watch as the rest of the room sees it: what it watches and what is to become of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Watcher:
    """Control of one open watch; its stream looks here whenever it is woken.

    Attributes:
        ending: deliver what there is, then a plain EOF.
        error: the Status of an ERROR event to end with.
        severed: close the connection at once, without an end.
        sever_after: bytes that may still be written before it is severed.
        mid_line: sever in the middle of the next event.
        stalled: write nothing, not even the end.
        gone: the client has left.
    """

    storage: tuple[str, str]
    ending: bool = False
    error: bytes | None = None
    severed: bool = False
    sever_after: int | None = None
    mid_line: bool = False
    stalled: bool = False
    gone: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def matches(self, group: str | None, resource: str) -> bool:
        return (group is None or self.storage[0] == group) and (not resource or self.storage[1] == resource)
