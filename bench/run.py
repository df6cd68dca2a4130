"""`make bench`: what syncd costs, each figure a ratio to a floor measured in turns with it.

Three pairs of each, median and spread. The floor of a list is curl reading the same pages to nowhere, that
of a stream curl reading it. The simulated cluster, PostgreSQL and syncd run in processes of their own and
share this machine's cores. The simulated cluster sends as fast as a real kube-apiserver did and keeps a core
as busy (`bench/pace.py`); `--unpaced` lets it send what it has ready. One slower than a real server would
make every ratio look good: then the run fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from bench.daemon import SYNCD, Daemon, lags, reconciled
from bench.figure import Figure, percentile, report, write
from bench.world import Cluster, Place, Ran, paged_list, places, ran, stream

LEAST_LIST = 40e6  # bytes a second
LEAST_EVENTS = 2_000  # a second


class Bench:
    """All measurements, in order."""

    def __init__(self, pods: int, pairs: int, where: dict[str, Place], *, paced: bool = True) -> None:
        self.pods = pods
        self.pairs = pairs
        self.places = where
        self.paced = paced
        self.cluster = Cluster(pods, where["sqlite"].directory, paced=paced)
        self.figures: list[Figure] = []
        self.speed: dict[str, float] = {}

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
        if size / seconds < LEAST_LIST or LEAST_EVENTS * 2 / spent < LEAST_EVENTS:
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
            floor, _ = stream(self.cluster, version, self.pods)
            with Daemon(place, self.cluster) as daemon:
                figure.pair(daemon.wait_version(target), floor)

    def _lag(self) -> None:
        middle = self._figure("lag p50 at 200 events/s, postgresql", "watch, one upsert, commit", "ms")
        high = self._figure("lag p99 at 200 events/s, postgresql", "watch, one upsert, commit", "ms")
        place = self.places["postgresql"]
        for _ in range(self.pairs):
            bare = self._bare_lags(place)
            with Daemon(place, self.cluster) as daemon:
                daemon.wait_version(self.cluster.version())  # what the bare loop was told is behind it
                self._settle(place)
                since = time.time_ns()
                self.cluster.tell("pace 200 15")
                time.sleep(1)
                late = lags(place, f"{place.schema}.syncd_objects", since)
            middle.pair(percentile(late, 50), percentile(bare, 50))
            high.pair(percentile(late, 99), percentile(bare, 99))

    def _lag_reconciling(self) -> None:
        name = "lag p99 at 200 events/s during reconciles, postgresql"
        figure = self._figure(name, "the same before them", "ms")
        place = self.places["postgresql"]
        table = f"{place.schema}.syncd_objects"
        with Daemon(place, self.cluster) as daemon:
            daemon.wait()
            for _ in range(self.pairs):
                self._settle(place)
                since = time.time_ns()
                self.cluster.tell("pace 200 15")
                time.sleep(1)
                before = lags(place, table, since)
                since = time.time_ns()
                self.cluster.start("pace 200 15")
                until = time.perf_counter() + 13
                while time.perf_counter() < until:
                    reconciled(place)
                self.cluster.finish()
                time.sleep(1)
                figure.pair(percentile(lags(place, table, since), 99), percentile(before, 99))

    def _settle(self, place: Place) -> None:
        """What was measured before leaves nothing to do, and the server has planned what it is asked next."""
        place.rest()
        self.cluster.tell("pace 200 2")
        time.sleep(1)

    def _bare_lags(self, place: Place) -> list[float]:
        with psycopg.connect(place.url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS bare CASCADE")
        command = [
            sys.executable,
            "-m",
            "bench.bare",
            self.cluster.url,
            self.cluster.version(),
            place.url,
            "bare",
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        self._settle(place)
        since = time.time_ns()
        self.cluster.tell("pace 200 15")
        time.sleep(1)
        process.kill()
        process.wait()
        return lags(place, "bare.bare", since)

    def _memory(self) -> None:
        few = max(100, self.pods // 10)
        small = Cluster(few, self.places["sqlite"].directory, paced=self.paced)
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
    options = parser.parse_args()
    with places() as where:
        bench = Bench(options.pods, options.pairs, where, paced=not options.unpaced)
        try:
            bench.run()
        finally:
            bench.cluster.close()
        print(report(bench.figures, bench.speed, options.pairs))
        write(options.json, bench.figures, bench.speed)


if __name__ == "__main__":
    main()
