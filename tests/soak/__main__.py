"""`python -m tests.soak --minutes 30`: prints what grew; 1 where it may not."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import psutil

from tests.chaos.postgresql import Server
from tests.soak.site import Site, site
from tests.soak.slope import Sample, faults, slopes, table

EVERY = 2.0  # seconds between two samples


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--pods", type=int, default=2_000)
    parser.add_argument("--rate", type=float, default=50.0, help="changes a second")
    parser.add_argument("--samples", type=Path, help="a file to write them to, as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        os.environ.setdefault("XDG_RUNTIME_DIR", directory)
        server = (
            Server(Path(tempfile.mkdtemp(prefix="soak-pg-"))) if arguments.database == "postgresql" else None
        )
        try:
            there = site(Path(directory), server, pods=arguments.pods, rate=arguments.rate)
            samples = asyncio.run(soak(there, arguments.minutes * 60))
            if arguments.samples is not None:
                arguments.samples.write_text(json.dumps([asdict(sample) for sample in samples]))
            return _report(there, samples)
        finally:
            if server is not None:
                server.close()


async def soak(there: Site, seconds: float) -> list[Sample]:
    """The samples of a soak that came to its end.

    Raises:
        AssertionError: the daemon ended, or its table is not the cluster.
    """
    samples: list[Sample] = []
    try:
        async with there.running() as process:
            begun = time.monotonic()
            while (at := time.monotonic() - begun) < seconds:
                samples.append(await there.sample(process, at))
                await asyncio.sleep(min(EVERY, seconds / 100))
    except (AssertionError, psutil.Error):
        print(there.log[-4_000:])
        raise
    return samples


def _report(there: Site, samples: list[Sample]) -> int:
    found = slopes(samples)
    print(
        f"{len(samples)} samples in {samples[-1].at / 60:.1f} minutes on {there.place.dialect}; "
        f"version {there.simulator.resource_version}"
    )
    print("done: " + ", ".join(f"{name} {count}" for name, count in sorted(there.done.items())))
    print(table(found))
    wrong = faults(found)
    print("\n".join(wrong) or "nothing grows that may not")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
