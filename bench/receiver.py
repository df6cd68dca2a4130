"""A webhook's receiver in a process of its own, told how to behave by lines on its input.

`fail` answers 503, `slow SECONDS` answers 204 after so long. `report` answers how many changes it has
acknowledged, and how many of them came after a later change of the same object.
"""

from __future__ import annotations

import asyncio
import json
import sys

import httptools


class Ledger:
    """What was acknowledged."""

    def __init__(self) -> None:
        self.delay: float | None = 0.0  # seconds; None fails
        self.seen: set[str] = set()
        self.last: dict[str, int] = {}
        self.disordered = 0

    def take(self, body: bytes) -> None:
        event = json.loads(body)
        sequence = int(event["data"]["sequence"])
        if event["id"] in self.seen:  # sent again: at least once
            return
        self.seen.add(event["id"])
        self.disordered += sequence < self.last.get(event["subject"], 0)
        self.last[event["subject"]] = max(sequence, self.last.get(event["subject"], 0))


class Receiver(asyncio.Protocol):
    """One connection, kept open."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._parser = httptools.HttpRequestParser(self)
        self._body = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body = bytes(self._body)
        self._body.clear()
        if self._ledger.delay is None:
            self._transport.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        else:
            asyncio.get_running_loop().call_later(self._ledger.delay, self._acknowledge, body)

    def _acknowledge(self, body: bytes) -> None:
        if not self._transport.is_closing():
            self._ledger.take(body)
            self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


async def main() -> None:
    ledger = Ledger()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Receiver(ledger), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command, *arguments = line.split()
        match command:
            case "fail":
                ledger.delay = None
            case "slow":
                ledger.delay = float(arguments[0])
        print(json.dumps([len(ledger.seen), ledger.disordered]), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
