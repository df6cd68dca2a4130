"""`make bench`: what syncd costs, each figure a ratio to a floor measured in turns with it.

Three pairs of each, median and spread. The floor of a list is curl reading the same pages to nowhere, that
of a stream curl reading it. The simulated cluster, PostgreSQL and syncd run in processes of their own and
share this machine's cores. The simulated cluster sends as fast as a real kube-apiserver did and keeps a core
as busy (`bench/pace.py`); `--unpaced` lets it send what it has ready. One slower than a real server would
make every ratio look good: then the run fails.

`--kubeconfig` names a real cluster instead: pods are made in a namespace of it (`bench/load.py`), which is
then what is measured. It is as quick as it is.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench.daemon import SYNCD, Daemon, lags, reconciled
from bench.figure import Figure, percentile, report, write
from bench.world import Cluster, Gone, Place, Ran, Real, Simulated, paged_list, places, ran, stream

LEAST_LIST = 40e6  # bytes a second
LEAST_EVENTS = 2_000  # a second
LOADS = {
    "200 events/s": ("pace 200 15", (50, 99)),
    "10 events/s": ("pace 10 15", (50,)),
    "10 events/s beside 200 others": ("pace 10 30 200", (50, 99)),
}
"""What lag is measured under, and which of its percentiles."""


class Bench:
    """All measurements, in order.

    Args:
        make: a cluster of so many pods.
    """

    def __init__(
        self, pods: int, pairs: int, where: dict[str, Place], make: Callable[[int], Cluster]
    ) -> None:
        self.pods = pods
        self.pairs = pairs
        self.places = where
        self.make = make
        self.cluster = make(pods)
        self.figures: list[Figure] = []
        self.speed: dict[str, float] = {}
        self.notes: list[str] = []

    def run(self) -> None:
        """Everything."""
        self._check_speed()
        for kind in ("postgresql", "sqlite"):
            self._against_list(f"first sync into {kind}", kind, self._first_sync)
        self._against_list("clean reconcile, postgresql", "postgresql", self._reconcile)
        self._quiet_restart()
        self._catch_up()
        self._lag()
        self._lag_reconciling()
        self._memory()

    def _check_speed(self) -> None:
        seconds, size = paged_list(self.cluster)
        version = self.cluster.version()
        self.cluster.tell(f"touch {LEAST_EVENTS * 2}")
        spent, _ = stream(self.cluster, version, LEAST_EVENTS * 2)
        self.speed = {"list_mb_s": size / seconds / 1e6, "events_s": LEAST_EVENTS * 2 / spent}
        slow = size / seconds < LEAST_LIST or LEAST_EVENTS * 2 / spent < LEAST_EVENTS
        if slow and isinstance(self.cluster, Simulated):
            raise SystemExit(f"the simulator is too slow for honest ratios: {self.speed}")

    def _against_list(self, name: str, kind: str, measure: Callable[[Place], float]) -> None:
        figure = self._figure(name, "paged list by curl")
        for _ in range(self.pairs):
            floor, _ = paged_list(self.cluster)
            figure.pair(measure(self.places[kind]), floor)

    def _first_sync(self, place: Place) -> float:
        place.wipe()
        config = place.configuration(self.cluster)
        ran(*SYNCD, "migrate", "-c", config)
        return ran(*SYNCD, "sync", "-c", config).seconds

    def _reconcile(self, place: Place) -> float:
        with Daemon(place, self.cluster) as daemon:
            daemon.wait()
            begun = time.perf_counter()
            ran(*SYNCD, "reconcile", "-c", daemon.config)
            return time.perf_counter() - begun

    def _quiet_restart(self) -> None:
        figure = self._figure("quiet restart until live, postgresql", "python -c 'import syncd.cli.main'")
        place = self.places["postgresql"]
        with Daemon(place, self.cluster) as daemon:
            daemon.wait()
        for _ in range(self.pairs):
            floor = ran(sys.executable, "-c", "import syncd.cli.main").seconds
            with Daemon(place, self.cluster) as daemon:
                figure.pair(daemon.wait(), floor)

    def _catch_up(self) -> None:
        figure = self._figure(f"catch-up of {self.pods} missed events, postgresql", "the raw stream by curl")
        place = self.places["postgresql"]
        with Daemon(place, self.cluster) as daemon:
            daemon.wait()
        for _ in range(self.pairs):
            version = self.cluster.version()
            target = self.cluster.tell(f"touch {self.pods}")
            try:
                floor, _ = stream(self.cluster, version, self.pods)
            except Gone:
                self.figures.remove(figure)
                self.notes.append(
                    f"No {figure.name}: the server had forgotten the first when the last was made."
                )
                return
            with Daemon(place, self.cluster) as daemon:
                figure.pair(daemon.wait_version(target), floor)

    def _lag(self) -> None:
        figures = {
            (load, percent): self._figure(
                f"lag p{percent} at {load}, postgresql", "watch, one upsert, commit", "ms"
            )
            for load, (_, percents) in LOADS.items()
            for percent in percents
        }
        place = self.places["postgresql"]
        for _ in range(self.pairs):
            with self._bare(place):
                floors = self._lags(place, "bare.bare")
            with Daemon(place, self.cluster) as daemon:
                daemon.wait_version(self.cluster.tell("touch 1"))  # what the bare loop was told is behind it
                late = self._lags(place, f"{place.schema}.syncd_objects")
            for (load, percent), figure in figures.items():
                figure.pair(percentile(late[load], percent), percentile(floors[load], percent))

    def _lag_reconciling(self) -> None:
        name = "lag p99 at 200 events/s during reconciles, postgresql"
        figure = self._figure(name, "the same before them", "ms")
        place = self.places["postgresql"]
        table = f"{place.schema}.syncd_objects"
        with Daemon(place, self.cluster) as daemon:
            daemon.wait()
            for _ in range(self.pairs):
                self._settle(place)
                self.cluster.tell("pace 200 15")
                time.sleep(1)
                before = lags(place, table, self.cluster.answers())
                self.cluster.start("pace 200 15")
                until = time.perf_counter() + 13
                while time.perf_counter() < until:
                    reconciled(place)
                self.cluster.finish()
                time.sleep(1)
                during = lags(place, table, self.cluster.answers())
                figure.pair(percentile(during, 99), percentile(before, 99))

    def _lags(self, place: Place, table: str) -> dict[str, list[float]]:
        """Under each load."""
        found = {}
        for load, (command, _) in LOADS.items():
            self._settle(place)
            self.cluster.tell(command)
            time.sleep(1)
            found[load] = lags(place, table, self.cluster.answers())
        return found

    def _settle(self, place: Place) -> None:
        """What was measured before leaves nothing to do, and the server has planned what it is asked next."""
        place.rest()
        self.cluster.tell("pace 200 2")
        time.sleep(1)

    @contextmanager
    def _bare(self, place: Place) -> Iterator[None]:
        """The bare loop, on its watch."""
        with psycopg.connect(place.url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS bare CASCADE")
        cluster = self.cluster
        reach = (str(cluster.kubeconfig), cluster.context, cluster.url, cluster.version())
        command = [sys.executable, "-m", "bench.bare", *reach, place.url, "bare"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()
            process.wait()

    def _memory(self) -> None:
        few = max(100, self.pods // 10)
        small = self.make(few)
        figure = self._figure(f"peak memory of a first sync of {self.pods} pods", f"of {few} pods", "MB")
        place = self.places["postgresql"]
        try:
            for _ in range(self.pairs):
                peaks: list[Ran] = []
                for cluster in (small, self.cluster):
                    place.wipe()
                    peaks.append(ran(*SYNCD, "sync", "-c", place.configuration(cluster)))
                figure.pair(peaks[1].peak / 1e6, peaks[0].peak / 1e6)
        finally:
            small.close()

    def _figure(self, name: str, floor: str, unit: str = "s") -> Figure:
        print(f"… {name}", file=sys.stderr, flush=True)
        figure = Figure(name, floor, unit=unit)
        self.figures.append(figure)
        return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("bench/result.json"))
    parser.add_argument("--unpaced", action="store_true", help="let the simulator send at memory's speed")
    parser.add_argument("--kubeconfig", type=Path, help="measure this real cluster")
    parser.add_argument("--context", default="", help="of the kubeconfig, in place of its current one")
    options = parser.parse_args()
    with places() as where:
        directory = where["sqlite"].directory

        def make(pods: int) -> Cluster:
            if options.kubeconfig is None:
                return Simulated(pods, directory, paced=not options.unpaced)
            return Real(pods, directory, options.kubeconfig.expanduser().absolute(), options.context)

        bench = Bench(options.pods, options.pairs, where, make)
        try:
            bench.run()
        finally:
            bench.cluster.close()
        print(report(bench.figures, bench.cluster.name, bench.speed, options.pairs), *bench.notes, sep="\n\n")
        write(options.json, bench.figures, bench.speed)


if __name__ == "__main__":
    main()
