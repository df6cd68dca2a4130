"""How quick the simulated API server is: lists to nowhere, watch events to several readers, memory.

The server runs in a process of its own; the readers throw away what they get.

    python bench/simulator.py --pods 100000 --watchers 4
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import time
import urllib.request
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

import psutil

from syncd.simulator.server import SimulatorServer
from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload

READ = 1 << 20


async def serve(pods: int, updates: int, pipe: Connection) -> None:
    simulator = Simulator(remember=False)
    workload = Workload(simulator)
    begun = time.perf_counter()
    workload.pods(pods)
    filled = time.perf_counter() - begun
    async with SimulatorServer(simulator) as server:
        pipe.send((server.url, filled))
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, pipe.recv):
            records = list(simulator.collection("", "pods").current.records.values())[:2_000]
            for done in range(updates):
                key = records[done % len(records)].key
                workload.touch(simulator.collection("", "pods").current.records[key])
                if done % 20 == 0:
                    await asyncio.sleep(0)


def server(pods: int, updates: int, pipe: Connection) -> None:
    asyncio.run(serve(pods, updates, pipe))


def drain(url: str, target: str, *, lines: int = 0) -> tuple[int, float]:
    """Bytes and seconds of one answer, read to its end or to so many lines."""
    address = urlsplit(url)
    begun, size, seen = time.perf_counter(), 0, 0
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n".encode())
        while data := connection.recv(READ):
            size += len(data)
            if lines:
                seen += data.count(b"}\n")
                if seen >= lines:
                    break
    return size, time.perf_counter() - begun


def version(url: str) -> str:
    with urllib.request.urlopen(f"{url}/api/v1/pods?limit=1") as answer:
        return str(json.load(answer)["metadata"]["resourceVersion"])


def paged(url: str) -> tuple[int, float]:
    begun, size, token = time.perf_counter(), 0, ""
    while True:
        more = f"&continue={token}" if token else ""
        with urllib.request.urlopen(f"{url}/api/v1/pods?limit=500{more}") as answer:
            body = answer.read()
        size += len(body)
        # The token is in the first bytes: decoding the page would measure the reader.
        head = body[:400].partition(b'"continue":"')[2]
        token = head.partition(b'"')[0].decode()
        if not token:
            return size, time.perf_counter() - begun


def watch(url: str, rv: str, events: int, results: multiprocessing.Queue[tuple[int, float]]) -> None:
    target = f"/api/v1/pods?watch=1&resourceVersion={rv}&timeoutSeconds=300"
    results.put(drain(url, target, lines=events))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--watchers", type=int, default=1)
    given = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=server, args=(given.pods, given.events, theirs), daemon=True)
    process.start()
    url, filled = ours.recv()
    memory = psutil.Process(process.pid).memory_info
    print(f"{given.pods} pods made in {filled:.1f} s; {memory().rss / 1e6:.0f} MB")
    for name, (size, seconds) in (
        ("pages of 500", paged(url)),
        ("one list", drain(url, "/api/v1/pods")),
    ):
        print(f"{name}: {size / 1e6:.0f} MB in {seconds:.2f} s, {size / 1e6 / seconds:.0f} MB/s")
    print(f"memory after the lists: {memory().rss / 1e6:.0f} MB")
    results: multiprocessing.Queue[tuple[int, float]] = multiprocessing.Queue()
    arguments = (url, version(url), given.events, results)
    readers = [multiprocessing.Process(target=watch, args=arguments) for _ in range(given.watchers)]
    for reader in readers:
        reader.start()
    time.sleep(1)
    begun = time.perf_counter()
    ours.send(True)
    sizes = [results.get()[0] for _ in readers]
    seconds = time.perf_counter() - begun
    print(
        f"{given.events} updates to {given.watchers} watchers in {seconds:.2f} s: "
        f"{given.events / seconds:.0f} events/s each, {sum(sizes) / 1e6 / seconds:.0f} MB/s in all"
    )
    print(f"memory after the watches: {memory().rss / 1e6:.0f} MB")
    ours.send(False)
    process.join(10)


if __name__ == "__main__":
    main()
