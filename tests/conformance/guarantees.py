"""Writes `docs/guarantees.md` from the suite: `python -m tests.conformance.guarantees`."""

from __future__ import annotations

from tests.conformance.promises import ROOT, Promise, promises

PAGE = ROOT / "docs" / "guarantees.md"
_HEAD = """\
# Guarantees

What syncd promises, each with the test that shows it. This page is made from `tests/conformance` by
`make guarantees`; a test holds it to the suite. Each scenario runs on SQLite and on PostgreSQL in
`make test`, against a simulated API server that misbehaves on command. Those marked *any cluster* need
nothing but a healthy cluster, and run as they are against a real one:

```sh
make test-cluster KUBECONFIG=~/.kube/config CONTEXT=staging
```

That works in namespaces and types of its own, with names drawn at random, and takes them away again. It ends
with a list of what it could not run there, and why. The account makes namespaces and definitions of types;
where it may not, the scenarios that want them are in that list. A simulated cluster will do as well
(`syncd simulate --churn 0`).
"""
_CHAOS = """\
## Beside these

`tests/chaos` runs random faults on three sides at once, the API, the database and the process, from a seed:
whoever reads meanwhile never sees a version that is ahead of its rows, no object is lost, invented or
resurrected, at rest the table is the cluster, and the records of changes, replayed from nothing, give the
table. `make chaos SEEDS=200` runs two hundred seeds, `make chaos SEED=7` that one again; 1,500 were run
so far, and what they found is in the changelog. `make test-kills` kills ten times in the middle of
everything; `make soak` looks for what grows.
"""
_NOT_YET = """\
## Not offered yet

- Streams in shards (`shardSelector`, alpha in Kubernetes 1.36; scenario 54): what a server sends that takes
  no notice of the selector would have to be left out here.

## Not promised

- Two streams are not one moment: each resource and scope is level with its own version.
- What an API server never tells its watchers is found by the next list or reconcile, and not before.
- Where a selector scopes a stream, its tombstones cannot tell a deletion from a change that left the
  selection.
- Of what happened to an object while nobody could watch, beyond the server's history, the last state is seen.
"""


def page() -> str:
    """The page as it should be."""
    table = ["## The scenarios", "", "| | promise | shown by | against |", "|---|---|---|---|"]
    return "\n".join([_HEAD, *table, *map(_row, promises()), "", _CHAOS, _NOT_YET])


def _row(promise: Promise) -> str:
    where = f"the simulator; it needs {promise.needs}" if promise.needs else "*any cluster*"
    return f"| {promise.number:02} | {promise.text} | `{promise.file}` `{promise.test}` | {where} |"


if __name__ == "__main__":
    PAGE.write_text(page())
