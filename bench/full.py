"""`make bench-full`: sizes, rates and shapes beyond those of `make bench`. It takes about an hour.

Each figure has a floor, as there; where nothing outside syncd is a fair one, the floor is the smallest case
of the same measurement, so that the ratio says how it grows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg

from bench.daemon import PATIENCE, SYNCD, Daemon, lags, reconciled
from bench.figure import Figure, percentile, report, write
from bench.views import questions
from bench.world import Cluster, Helper, Place, Simulated, paged_list, places, ran, stream

SIZES = (2_000, 20_000, 100_000)
RATES = (100, 500, 2_000)
IDLE = 500
OBJECTS = ((1_000, 20_000), (10_000, 5_000), (100_000, 500), (1_000_000, 50))
CATCH_UP = 100_000


class Full:
    """All measurements, in order."""

    def __init__(self, pairs: int, where: dict[str, Place]) -> None:
        self.pairs = pairs
        self.places = where
        self.postgresql = where["postgresql"]
        self.figures: list[Figure] = []
        self.speed: dict[str, float] = {}

    def run(self, names: Sequence[str]) -> None:
        """Those whose name begins as one of the names, or all."""
        for measure in (
            self.sizes,
            self.churn,
            self.catch_up,
            self.reconciles,
            self.relist,
            self.idle,
            self.objects,
            self.sinks,
            self.views,
        ):
            if not names or measure.__name__ in names:
                measure()

    def sizes(self) -> None:
        for pods in SIZES:
            with self._cluster(pods) as cluster:
                for kind, place in sorted(self.places.items()):
                    spent = self._figure(f"first sync of {pods} pods, {kind}", "paged list by curl")
                    held = self._figure(f"memory of a first sync of {pods} pods, {kind}", "100 MB", "MB")
                    for _ in range(self.pairs):
                        floor, size = paged_list(cluster)
                        self.speed.setdefault("list_mb_s", size / floor / 1e6)
                        place.wipe()
                        config = place.configuration(cluster)
                        ran(*SYNCD, "migrate", "-c", config)
                        done = ran(*SYNCD, "sync", "-c", config)
                        spent.pair(done.seconds, floor)
                        held.pair(done.peak / 1e6, 100)

    def churn(self) -> None:
        """Lags have the slowest rate for a floor; so has CPU. Bytes are those of PostgreSQL's log."""
        middles = [self._figure(f"lag p50 at {rate} events/s", "at 100 events/s", "ms") for rate in RATES]
        highs = [self._figure(f"lag p99 at {rate} events/s", "at 100 events/s", "ms") for rate in RATES]
        cpus = [self._figure(f"CPU of 1,000 events at {rate}/s", "at 100 events/s", "s") for rate in RATES]
        logs = [self._figure(f"bytes logged at {rate} events/s", "bytes received", "MB") for rate in RATES]
        place = self.postgresql
        table = f"{place.schema}.syncd_objects"
        with self._cluster(20_000, paced=False) as cluster, Daemon(place, cluster) as daemon:
            daemon.wait()
            event = self._event_bytes(cluster)
            for _ in range(self.pairs):
                first: tuple[float, float, float] | None = None
                for number, rate in enumerate(RATES):
                    time.sleep(2)
                    used, logged = daemon.usage().cpu, _logged(place)
                    done = int(cluster.tell(f"pace {rate} 9"))
                    time.sleep(1)
                    cpu = (daemon.usage().cpu - used) / done * 1_000
                    late = lags(place, table, cluster.answers())
                    found = percentile(late, 50), percentile(late, 99), cpu
                    first = first or found
                    for figures, value, floor in zip((middles, highs, cpus), found, first, strict=True):
                        figures[number].pair(value, floor)
                    logs[number].pair((_logged(place) - logged) / 1e6, event * done / 1e6)

    def catch_up(self) -> None:
        figure = self._figure(f"catch-up of {CATCH_UP} missed events", "the raw stream by curl")
        with self._cluster(20_000) as cluster:
            with Daemon(self.postgresql, cluster) as daemon:
                daemon.wait()
            for _ in range(self.pairs):
                version = cluster.version()
                target = cluster.tell(f"touch {CATCH_UP}")
                floor, _ = stream(cluster, version, CATCH_UP)
                self.speed.setdefault("events_s", CATCH_UP / floor)
                with Daemon(self.postgresql, cluster) as daemon:
                    figure.pair(daemon.wait_version(target), floor)

    def reconciles(self) -> None:
        clean = self._figure("clean reconcile of 20000 pods", "paged list by curl")
        drift = self._figure("reconcile with 1 % drift", "paged list by curl")
        deep = self._figure("deep reconcile", "paged list by curl")
        place = self.postgresql
        with self._cluster(20_000) as cluster, Daemon(place, cluster) as daemon:
            daemon.wait()
            for _ in range(self.pairs):
                for figure, spoil, arguments in (
                    (clean, False, "{}"),
                    (drift, True, "{}"),
                    (deep, False, '{"deep": true}'),
                ):
                    if spoil:
                        _spoil(place)
                    floor, _ = paged_list(cluster)
                    begun = time.perf_counter()
                    reconciled(place, arguments, drift=spoil)
                    figure.pair(time.perf_counter() - begun, floor)

    def relist(self) -> None:
        figure = self._figure("relist of 20000 pods after 410, 1 % changed", "paged list by curl")
        with self._cluster(20_000) as cluster:
            with Daemon(self.postgresql, cluster) as daemon:
                daemon.wait()
            for _ in range(self.pairs):
                target = cluster.tell("touch 200")
                cluster.tell("compact")
                floor, _ = paged_list(cluster)
                with Daemon(self.postgresql, cluster) as daemon:
                    daemon.wait_version(target)
                    figure.pair(daemon.wait(), floor)

    def idle(self) -> None:
        """A minute of nothing."""
        memory = self._figure(f"memory of {IDLE} idle streams", "of 1", "MB")
        cpu = self._figure(f"CPU of {IDLE} idle streams, share of a core", "of 1", "%")
        wakes = self._figure(f"wake-ups a second of {IDLE} idle streams", "of 1", "")
        with self._cluster(100) as cluster:
            cluster.tell(f"spread {IDLE}")
            for _ in range(self.pairs):
                found = []
                for count in (1, IDLE):
                    self.postgresql.wipe()
                    names = [f"spread-{number:04}" for number in range(count)]
                    entry = {"name": "configmaps", "namespaces": names}
                    with Daemon(self.postgresql, cluster, [entry]) as daemon:
                        daemon.wait()
                        time.sleep(5)
                        before = daemon.usage()
                        time.sleep(60)
                        after = daemon.usage()
                    found.append((before, after))
                for figure, values in (
                    (memory, [after.memory / 1e6 for _, after in found]),
                    (cpu, [(after.cpu - before.cpu) / 60 * 100 for before, after in found]),
                    (wakes, [(after.wakes - before.wakes) / 60 for before, after in found]),
                ):
                    figure.pair(values[1], max(values[0], 1e-3))

    def objects(self) -> None:
        for size, count in OBJECTS:
            figure = self._figure(f"first sync of {count} objects of {size} bytes", "paged list by curl")
            with self._cluster(100) as cluster:
                cluster.tell(f"fill {count} {size}")
                for _ in range(self.pairs):
                    floor, _ = paged_list(cluster, "configmaps")
                    self.postgresql.wipe()
                    config = self.postgresql.configuration(cluster, resources=["configmaps"])
                    ran(*SYNCD, "migrate", "-c", config)
                    figure.pair(ran(*SYNCD, "sync", "-c", config).seconds, floor)

    def sinks(self) -> None:
        """Beside a webhook that fails for a minute, and while it makes up for that, answering slowly."""
        failing = self._figure("lag p99 at 200 events/s beside a webhook that fails", "without it", "ms")
        slow = self._figure("lag p99 at 200 events/s beside one that catches up slowly", "without it", "ms")
        place, receiver = self.postgresql, Helper("bench.receiver")
        entry = {"name": "slow", "webhook": {"url": receiver.url}, "parallel": 8, "begin": "oldest"}
        with self._cluster(5_000) as cluster, closing(receiver):
            for _ in range(self.pairs):
                with Daemon(place, cluster) as daemon:
                    daemon.wait()
                    place.rest()
                    without = self._late(cluster, 15)
                receiver.tell("fail")
                with Daemon(place, cluster, sinks=[entry]) as daemon:
                    daemon.wait()
                    place.rest()
                    failing.pair(self._late(cluster, 60), without)
                    receiver.tell("slow 0.01")
                    slow.pair(self._late(cluster, 15), without)
                    _delivered(place, receiver)

    def views(self) -> None:
        """Questions through `pods`, beside a table with plain and indexed columns; and what history costs."""
        place, figures = self.postgresql, dict[str, Figure]()
        history = self._figure("first sync with history", "without")
        with self._cluster(20_000) as cluster:
            for _ in range(self.pairs):
                spent = []
                for record in ("none", "changes"):
                    place.wipe()
                    config = place.configuration(cluster, resources=[{"name": "pods", "history": record}])
                    ran(*SYNCD, "migrate", "-c", config)
                    spent.append(ran(*SYNCD, "sync", "-c", config).seconds)
                history.pair(spent[1], spent[0])
                for name, through, bare in questions(place):
                    if name not in figures:
                        figures[name] = self._figure(name, "of indexed columns", "ms")
                    figures[name].pair(through, bare)

    def _late(self, cluster: Cluster, seconds: int) -> float:
        cluster.tell(f"pace 200 {seconds}")
        time.sleep(1)
        table = f"{self.postgresql.schema}.syncd_objects"
        return percentile(lags(self.postgresql, table, cluster.answers()), 99)

    def _event_bytes(self, cluster: Cluster) -> float:
        version = cluster.version()
        cluster.tell("touch 1000")
        seconds, size = stream(cluster, version, 1_000)
        self.speed.setdefault("events_s", 1_000 / seconds)
        return size / 1_000

    @contextmanager
    def _cluster(self, pods: int, *, paced: bool = True) -> Iterator[Cluster]:
        self.postgresql.wipe()
        with closing(Simulated(pods, self.places["sqlite"].directory, paced=paced)) as cluster:
            yield cluster

    def _figure(self, name: str, floor: str, unit: str = "s") -> Figure:
        print(f"… {name}", file=sys.stderr, flush=True)
        figure = Figure(name, floor, unit=unit)
        self.figures.append(figure)
        return figure


def _logged(place: Place) -> int:
    """Bytes that PostgreSQL has written to its log."""
    with psycopg.connect(place.url, autocommit=True) as connection:
        found = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
    assert found is not None
    return int(found[0])


def _delivered(place: Place, receiver: Helper) -> None:
    """Waits until the sink's cursor is at the last change; each came, those of one object in order."""
    query = (
        f"SELECT count(*) FROM {place.schema}.syncd_changes WHERE sequence >"
        f" (SELECT sequence FROM {place.schema}.syncd_cursors WHERE name = 'sink:slow')"
    )
    with psycopg.connect(place.url, autocommit=True) as connection:
        until = time.perf_counter() + PATIENCE
        while connection.execute(query).fetchone() != (0,):
            if time.perf_counter() > until:
                raise SystemExit(f"the webhook was not given everything: {receiver.tell('report')}")
            time.sleep(0.2)
        made = connection.execute(f"SELECT count(*) FROM {place.schema}.syncd_changes").fetchone()
    seen, disordered = json.loads(receiver.tell("report"))
    if (seen,) != made or disordered:
        raise SystemExit(f"of {made} changes {seen} came, {disordered} after a later one of the same object")


def _spoil(place: Place) -> None:
    """Makes a hundredth of the rows wrong: a third missing, a third stale, a third ghosts."""
    table = f"{place.schema}.syncd_objects"
    number = "substr(md5(uid), 1, 2)"
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute(f"DELETE FROM {table} WHERE {number} = '00'")
        connection.execute(
            f"UPDATE {table} SET resource_version = '1', resource_version_number = 1 WHERE {number} = '01'"
        )
        connection.execute(
            f"UPDATE {table} SET object_key = object_key || '-ghost', name = name || '-ghost'"
            f" WHERE {number} = '02' AND substr(md5(uid), 3, 1) < '8'"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="only these: sizes churn catch_up reconciles relist idle objects sinks views"
    )
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("bench/full.json"))
    options = parser.parse_args()
    with places() as where:
        full = Full(options.pairs, where)
        full.run(options.names)
        speed = {"list_mb_s": 0.0, "events_s": 0.0} | full.speed
        print(report(full.figures, Simulated.name, speed, options.pairs))
        write(options.json, full.figures, speed)


if __name__ == "__main__":
    main()
