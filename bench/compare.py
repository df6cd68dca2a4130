"""`make bench-compare A=… B=…`: two results of `make bench` or `make bench-full`, figure by figure."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bench.figure import compared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("a", type=Path)
    parser.add_argument("b", type=Path)
    options = parser.parse_args()
    print(compared(json.loads(options.a.read_text()), json.loads(options.b.read_text())))


if __name__ == "__main__":
    main()
