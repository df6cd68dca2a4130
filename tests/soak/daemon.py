"""`syncd run` that says how many tasks it has: SIGUSR1 writes their number into $SYNCD_SOAK_TASKS."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from types import FrameType

from syncd.__main__ import main


def tell(_signal: int, _frame: FrameType | None) -> None:
    """Runs between two steps of the loop's thread."""
    try:
        count = len(asyncio.all_tasks())
    except RuntimeError:  # no loop yet
        count = 0
    path = Path(os.environ["SYNCD_SOAK_TASKS"])
    new = path.with_suffix(".new")
    new.write_text(str(count))
    new.replace(path)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, tell)
    main()
