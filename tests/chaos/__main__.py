"""`python -m tests.chaos --seeds 20`: so many seeds, a few at a time; 1 where one fails."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.seed import Outcome
from tests.chaos.workers import outcomes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seeds", type=int, help="how many (20)")
    parser.add_argument("--seed", type=int, help="this one alone, or the first of them")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    arguments = parser.parse_args()
    first = arguments.seed if arguments.seed is not None else 1
    count = arguments.seeds or (20 if arguments.seed is None else 1)
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        os.environ.setdefault("XDG_RUNTIME_DIR", directory)
        return _report(outcomes(range(first, first + count), arguments.jobs, Path(directory)), count)


def _report(made: Iterator[Outcome], count: int) -> int:
    kinds: Counter[str] = Counter()
    failed: list[int] = []
    seconds: list[float] = []
    began = time.monotonic()
    for outcome in made:
        print(outcome.text, flush=True)
        kinds.update(outcome.kinds)
        seconds.append(outcome.seconds)
        if not outcome.passed:
            failed.append(outcome.seed)
    total = sum(kinds.values()) or 1
    print("steps: " + ", ".join(f"{kind} {100 * n / total:.1f} %" for kind, n in kinds.most_common()))
    took = f"{time.monotonic() - began:.0f} s, the longest {max(seconds, default=0.0):.1f} s"
    print(f"{len(seconds) - len(failed)} of {count} passed in {took}; failed: {failed or 'none'}")
    return 0 if len(seconds) == count and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
