"""The simulated cluster of a benchmark, in a process of its own, told what to do by lines on its input.

`touch N` changes N pods as fast as it can; `pace RATE SECONDS [OTHERS]` changes distinct pods at a rate and
saves when the server had done with each, others in between not; `compact` forgets the history; `fill COUNT
BYTES` makes config maps of a size and `spread N` namespaces with one each. Each answers a line when it is
done.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from pathlib import Path

from bench.pace import App, Paced
from bench.writes import save, schedule, target
from syncd.simulator.server import SimulatorServer, write_kubeconfig
from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload


def touch(simulator: Simulator, count: int) -> None:
    keys = list(simulator.collection("", "pods").current.keys)
    began = simulator.resource_version  # a patch that changes nothing is no event
    for number in range(count):
        namespace, _, name = keys[number % len(keys)].partition("/")
        message = f"touched {began}+{number}"
        simulator.patch("", "pods", namespace, name, {"status": {"message": message}})


def fill(simulator: Simulator, count: int, size: int, namespace: str = "filled") -> None:
    simulator.create("", "namespaces", {"metadata": {"name": namespace}})
    for number in range(count):
        metadata = {"name": f"c{number:06}", "namespace": namespace}
        simulator.create("", "configmaps", {"metadata": metadata, "data": {"text": "x" * size}})


def spread(simulator: Simulator, count: int) -> None:
    for number in range(count):
        fill(simulator, 1, 100, f"spread-{number:04}")


async def pace(simulator: Simulator, rate: float, seconds: float, others: float = 0.0) -> dict[str, int]:
    keys = list(simulator.collection("", "pods").current.keys)
    answers = {}
    begun = time.perf_counter()
    for number, (due, measured) in enumerate(schedule(rate, seconds, others)):
        await asyncio.sleep(max(0.0, due - (time.perf_counter() - begun)))
        namespace, _, name = target(keys, number).partition("/")
        change = {"status": {"message": f"touched {time.time_ns()}+{number}"}}
        simulator.patch("", "pods", namespace, name, change)
        if measured:
            answers[str(simulator.resource_version)] = time.time_ns()
    return answers


def _as_it_is(app: App) -> App:
    return app


async def serve(pods: int, kubeconfig: Path, answers: Path, *, paced: bool) -> None:
    simulator = Simulator(remember=False, bookmark_interval=60)
    Workload(simulator).pods(pods)
    gc.collect()
    gc.disable()  # it looked at 20,000 pods every six seconds: 25 ms of silence that were nobody's lag
    async with SimulatorServer(simulator, around=Paced if paced else _as_it_is) as server:
        write_kubeconfig(kubeconfig, server.url)
        print(f"{server.url}/api/v1", flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command, *arguments = line.split()
            match command:
                case "touch":
                    touch(simulator, int(arguments[0]))
                case "pace":
                    found = await pace(simulator, *(float(argument) for argument in arguments))
                    save(answers, found)
                    print(len(found), flush=True)
                    continue
                case "fill":
                    fill(simulator, int(arguments[0]), int(arguments[1]))
                case "spread":
                    spread(simulator, int(arguments[0]))
                case "compact":
                    simulator.compact()
            print(simulator.resource_version, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--unpaced", action="store_true")
    options = parser.parse_args()
    asyncio.run(serve(options.pods, options.kubeconfig, options.answers, paced=not options.unpaced))
