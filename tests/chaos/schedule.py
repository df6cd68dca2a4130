"""What happens in one seed: pure, the same for the same number. What a step means is the world's affair."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

TARGETS = ("configmaps", "pods", "widgets")
ON_SQLITE, ON_POSTGRESQL = "sqlite", "postgresql"
RECORDS = ("none", "changes", "versions")
STATUSES = (401, 403, 404, 410, 429, 500, 503, 504)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is done.

    Attributes:
        target: the resource it is about, '' for all.
        amount: of objects, requests or bytes, as the kind has it.
        status: of an answer.
        draw: the seed of what only the cluster's state can decide, such as which objects.
        pause: seconds until the next step.
    """

    kind: str
    target: str
    amount: int
    status: int
    draw: int
    pause: float

    def __str__(self) -> str:
        about = f" {self.target}" if self.target else ""
        chosen = f"amount={self.amount} status={self.status} draw={self.draw}"
        return f"{self.kind}{about} {chosen} {self.pause:.2f} s"


@dataclass(frozen=True, slots=True)
class Schedule:
    """One seed.

    Attributes:
        process: the daemon is a process of its own, which can be killed and stopped.
        initial: how streams begin, as the configuration spells it.
        page_size: of every stream.
        objects: of each resource at the start.
        history: events that the server remembers of each resource.
        queue: bytes that may wait for their commit.
        polls: the first resource is polled, not watched.
        record: of changes, as the configuration spells it.
    """

    seed: int
    dialect: str
    process: bool
    initial: str
    page_size: int
    objects: int
    history: int
    queue: int
    polls: bool
    record: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of step: how often it comes, where it can, and what its amount may be."""

    name: str
    weight: float
    amounts: tuple[int, int] = (1, 1)
    dialect: str = ""
    process: bool | None = None
    targeted: bool = True


KINDS = (
    # churn
    Kind("write", 30, (1, 25)),
    Kind("storm", 4, (100, 400)),
    Kind("odd", 4, (1, 4)),
    Kind("big", 2, (200_000, 1_000_000)),
    Kind("huge", 0.2, (3_000_000, 3_000_000)),
    Kind("wipe", 1.5),
    Kind("empty", 1.5),
    Kind("delete_together", 2, (2, 40)),
    # the API
    Kind("cut", 3),
    Kind("cut_mid_line", 2),
    Kind("cut_after", 3, (1, 4000)),
    Kind("end", 2),
    Kind("stall", 2),
    Kind("truncate", 2, (1, 4000)),
    Kind("answer", 5, (1, 4)),
    Kind("error_event", 3),
    Kind("drop", 3, (1, 5)),
    Kind("expire_tokens", 1.5, (1, 3)),
    Kind("reverse", 0.7, (1, 4)),
    Kind("away", 1, (20, 400), targeted=False),
    Kind("compact", 1.5, targeted=False),
    Kind("gap", 4, (1, 30)),
    Kind("slow", 2, (5, 60)),
    Kind("starve", 2, (100, 600)),
    Kind("spoil_watch_list", 1.5),
    Kind("rollback", 1.2, (1, 60), targeted=False),
    Kind("masked_rollback", 1.2, (1, 60), targeted=False),
    Kind("other_cluster", 0.8, targeted=False),
    Kind("crd_change", 1.5, targeted=False),
    Kind("crd_delete", 1, targeted=False),
    Kind("crd_create", 1.5, targeted=False),
    Kind("stale_group", 0.7, targeted=False),
    Kind("missing_group", 0.7, targeted=False),
    Kind("clear", 3, targeted=False),
    # the database
    Kind("end_sessions", 3, dialect=ON_POSTGRESQL, targeted=False),
    Kind("read_only", 2, (50, 400), dialect=ON_POSTGRESQL, targeted=False),
    Kind("refuse_sessions", 2, (50, 400), dialect=ON_POSTGRESQL, targeted=False),
    Kind("lock_table", 2, (50, 400), dialect=ON_POSTGRESQL, targeted=False),
    Kind("fail_statements", 3, (50, 400), dialect=ON_POSTGRESQL, targeted=False),
    Kind("restart_database", 0.15, dialect=ON_POSTGRESQL, targeted=False),
    Kind("lock_file", 3, (50, 600), dialect=ON_SQLITE, targeted=False),
    Kind("full", 2, (50, 400), targeted=False),
    Kind("refuse_rows", 1.5, (50, 400), targeted=False),
    # the process
    Kind("restart", 1.5, process=False, targeted=False),
    Kind("terminate", 1.5, process=True, targeted=False),
    Kind("reconfigure", 1, targeted=False),
    Kind("kill", 5, process=True, targeted=False),
    Kind("freeze", 1.5, process=True, targeted=False),
    Kind("rival", 0.7, process=True, targeted=False),
    Kind("reload", 1, targeted=False),
    # what syncd is asked to do
    Kind("reconcile", 3, targeted=False),
)
THEMES: tuple[tuple[str, ...], ...] = (
    (),
    ("crd_change", "crd_delete", "crd_create", "stale_group", "missing_group", "restart"),
    ("rollback", "masked_rollback", "other_cluster", "compact", "gap"),
    ("rollback", "masked_rollback", "crd_change", "crd_delete", "crd_create"),
    ("cut_after", "delete_together", "storm", "stall", "cut_mid_line"),
    ("truncate", "answer", "expire_tokens", "gap", "slow", "spoil_watch_list", "drop"),
    ("starve", "slow", "storm", "reconcile", "empty"),
    ("end_sessions", "read_only", "refuse_sessions", "lock_table", "fail_statements", "lock_file", "full"),
    ("refuse_rows", "gap", "reconcile", "empty", "restart", "fail_statements"),
    ("restart", "terminate", "kill", "freeze", "rival", "reload", "reconfigure", "wipe"),
)
"""What comes more often in a seed: faults that meet their like find more than an even mixture does."""
THEME = 5.0  # times as often
STARTS = frozenset({"kill", "freeze", "rival", "terminate", "reconfigure"})
MOST_STARTS = 2
"""Of a daemon that is a process, in one seed: each costs an interpreter's start."""


def schedule(seed: int) -> Schedule:
    """The schedule of a seed."""
    rand = random.Random(seed)
    dialect = rand.choice((ON_SQLITE, ON_POSTGRESQL))
    process = rand.random() < 0.2
    return Schedule(
        seed=seed,
        dialect=dialect,
        process=process,
        initial=rand.choice(("list", "auto", "watchlist")),
        page_size=rand.choice((7, 20, 50, 500)),
        objects=rand.choice((0, 20, 60, 150)),
        history=rand.choice((30, 300, 100_000, 100_000)),
        queue=rand.choice((1 << 20, 32 << 20)),
        polls=rand.random() < 0.1,
        record=rand.choice(RECORDS),
        steps=tuple(_steps(rand, dialect, process)),
    )


def _steps(rand: random.Random, dialect: str, process: bool) -> Iterator[Step]:
    possible = [k for k in KINDS if k.dialect in ("", dialect) and k.process in (None, process)]
    theme = rand.choice(THEMES)
    weights = [kind.weight * (THEME if kind.name in theme else 1.0) for kind in possible]
    starts = 0
    for _ in range(rand.randint(12, 20) if process else rand.randint(15, 40)):
        [kind] = rand.choices(possible, weights)
        if process and kind.name in STARTS:
            starts += 1
            if starts > MOST_STARTS:
                continue
        yield Step(
            kind=kind.name,
            target=rand.choice(TARGETS) if kind.targeted else "",
            amount=rand.randint(*kind.amounts),
            status=rand.choice(STATUSES),
            draw=rand.randrange(1 << 30),
            pause=rand.choice((0.0, 0.0, 0.01, 0.05, 0.15)),
        )
