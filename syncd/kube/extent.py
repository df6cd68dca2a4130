"""How large a YAML document is, told before it is loaded: a small file can stand for more than any stack or
memory holds. Reads events, which takes neither.
"""

from __future__ import annotations

from collections.abc import Iterable

import yaml

DEEPEST = 100
"""Collections inside one another. The C loader recurses on the machine's stack: some ten thousand end the
process.
"""
MOST = 1_000_000
"""Values, each alias being all that it stands for. A kubeconfig of ten thousand clusters has a tenth."""


def excess(events: Iterable[yaml.Event]) -> str:
    """What is too much of a document, '' where nothing is.

    Raises:
        yaml.YAMLError: of the parser behind the events.
    """
    weights: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = [(None, 0)]
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append((event.anchor, 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            _add(open_, weights, *open_.pop())
        elif isinstance(event, yaml.ScalarEvent):
            _add(open_, weights, event.anchor, 1)
        elif isinstance(event, yaml.AliasEvent):
            _add(open_, weights, None, weights.get(event.anchor or "", 1))
        if len(open_) > DEEPEST:
            return f"it is nested past {DEEPEST} levels"
        if open_[-1][1] > MOST:
            return "it has too many values (aliases multiply them)"
    return ""


def _add(
    open_: list[tuple[str | None, int]], weights: dict[str, int], anchor: str | None, weight: int
) -> None:
    """One more value of so many in the innermost collection that is open."""
    if anchor is not None:
        weights[anchor] = weight
    around, known = open_[-1]
    open_[-1] = (around, known + weight)
