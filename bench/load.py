"""The load of a real cluster, in a process of its own, told what to do by lines on its input.

It makes pods of the simulator's shapes in a namespace of its own, whose URL is its first line. They name a
scheduler that nobody is and no node, so that none of them ever runs; their status is written as a kubelet
would. `touch N` and `pace RATE SECONDS [OTHERS]` are those of `bench.server`. The namespace is deleted when
the input ends, or at SIGTERM; Ctrl-C is left to the process that reads our lines.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.access import AGENT, JSON, MERGE, Access
from bench.writes import save, schedule, target
from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload

CONNECTIONS = 16
TRIES = 40
LABELS = {
    "app.kubernetes.io/managed-by": AGENT,
    "pod-security.kubernetes.io/enforce": "privileged",  # whatever the cluster's default is, nothing runs
}
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"  # half the bytes to receive


class Client(threading.local):
    """A connection for each thread that asks."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.connection = access.open()

    def ask(self, method: str, url: str, body: Any = None, kind: str = JSON) -> bytes:
        """A whole answer of 2xx. Waits where the server cannot yet, gives up where it will not."""
        content, problem = b"" if body is None else json.dumps(body).encode(), ""
        for _ in range(TRIES):
            try:
                answer = self.access.ask(self.connection, method, url, content, kind=kind, accept=METADATA)
                found = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.connection.close()
                problem = str(error)
                time.sleep(0.5)
                continue
            if answer.status < 300 or (method == "POST" and answer.status == 409):  # made by a try before
                return found
            problem = f"{answer.status} {found[:500].decode(errors='replace')}"
            # A namespace's service account comes a moment after it.
            unready = answer.status == 403 and b"service account" in found
            if not unready and answer.status not in (429, 500, 503, 504):
                break
            time.sleep(float(answer.headers.get("Retry-After") or 0.5))
        raise SystemExit(f"{method} {url}: {problem}")


class Load:
    """The pods of one namespace, and what is done to them."""

    def __init__(self, kubeconfig: Path, context: str) -> None:
        self._reach = kubeconfig, context
        self._namespaces = f"{Access(*self._reach).url}/api/v1/namespaces"
        self.namespace = f"{AGENT}-{secrets.token_hex(4)}"
        self.url = f"{self._namespaces}/{self.namespace}"
        self._keys: list[str] = []

    def fill(self, pods: int) -> None:
        """Makes the namespace and so many pods in it."""
        simulator = Simulator(remember=False)
        Workload(simulator).pods(pods)
        records = list(simulator.collection("", "pods").current.records.values())
        self._keys = [record.name for record in records]
        with self._workers() as (pool, client):
            client.ask("POST", self._namespaces, {"metadata": {"name": self.namespace, "labels": LABELS}})

            def make(body: bytes) -> None:
                pod, status = written_by_us(json.loads(body))
                client.ask("POST", f"{self.url}/pods", pod)
                client.ask("PATCH", self._status(pod["metadata"]["name"]), {"status": status}, MERGE)

            for _ in pool.map(make, (record.body for record in records)):
                pass

    def touch(self, count: int) -> str:
        """Changes so many pods, as fast as it can; the newest version."""
        with self._workers() as (pool, client):
            found = pool.map(lambda number: self._write(client, number)[0], range(count))
            return str(max(int(version) for version in found))

    def pace(self, rate: float, seconds: float, others: float = 0.0) -> dict[str, int]:
        """Changes pods at a rate; when those that are measured were answered, by version."""
        writes = []
        with self._workers() as (pool, client):
            begun = time.perf_counter()
            for number, (due, measured) in enumerate(schedule(rate, seconds, others)):
                time.sleep(max(0.0, due - (time.perf_counter() - begun)))
                writes.append((pool.submit(self._write, client, number), measured))
            done = [(write.result(), measured) for write, measured in writes]
        return {version: answered for (version, answered), measured in done if measured}

    def delete(self) -> None:
        """Asks the cluster to delete the namespace, which it does in its own time."""
        said = f"… the cluster deletes namespace {self.namespace}"
        try:
            with self._workers() as (_, client):
                client.ask("DELETE", self.url)
        except SystemExit as error:
            said = str(error)
        print(said, file=sys.stderr, flush=True)

    def _write(self, client: Client, number: int) -> tuple[str, int]:
        """One change: its version, and when its answer was there."""
        change = {"status": {"message": f"touched {time.time_ns()}+{number}"}}
        found = client.ask("PATCH", self._status(target(self._keys, number)), change, MERGE)
        answered = time.time_ns()
        return found.partition(b'"resourceVersion":"')[2].partition(b'"')[0].decode(), answered

    def _status(self, name: str) -> str:
        return f"{self.url}/pods/{name}/status"

    @contextmanager
    def _workers(self) -> Iterator[tuple[ThreadPoolExecutor, Client]]:
        """Threads, and a client whose credential is of this moment."""
        client, pool = Client(Access(*self._reach)), ThreadPoolExecutor(CONNECTIONS)
        try:
            yield pool, client
        finally:
            pool.shutdown(cancel_futures=True)


def written_by_us(pod: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pod as one may create it on a real cluster, and its status.

    What a server, its admission or its garbage collector has a say in is left out: it would be refused, or
    the pod deleted for want of its owner.
    """
    metadata = {key: pod["metadata"][key] for key in ("name", "generateName", "labels", "annotations")}
    ruled = ("nodeName", "priority", "preemptionPolicy")
    spec = {key: value for key, value in pod["spec"].items() if key not in ruled}
    spec |= {"schedulerName": AGENT, "automountServiceAccountToken": False}
    status = {key: value for key, value in pod["status"].items() if key != "qosClass"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, status


def serve(load: Load, pods: int, answers: Path) -> None:
    """Makes the pods and follows the lines of the input to their end."""
    begun = time.perf_counter()
    load.fill(pods)
    seconds = time.perf_counter() - begun
    print(f"… {pods} pods in namespace {load.namespace} in {seconds:.0f} s", file=sys.stderr, flush=True)
    print(load.url, flush=True)
    while line := sys.stdin.readline():
        command, *arguments = line.split()
        match command:
            case "touch":
                print(load.touch(int(arguments[0])), flush=True)
            case "pace":
                found = load.pace(*(float(argument) for argument in arguments))
                save(answers, found)
                print(len(found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--context", default="")
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--answers", type=Path, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(os.EX_TEMPFAIL))
    load = Load(options.kubeconfig, options.context)
    try:
        serve(load, options.pods, options.answers)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        load.delete()


if __name__ == "__main__":
    main()
