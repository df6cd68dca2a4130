"""Labels and label selectors as text, as Kubernetes writes them: sorted by key, `a=b,c in (x,y),!d`."""

from __future__ import annotations

from syncd.views.expression import ITEM, Call, Key, Over, Type, concat, document, entries, join


def labels_text(place: str) -> Over:
    """A map as `k=v,k=v`, NULL where it is empty."""
    return join(entries(place), concat(Key(), "=", ITEM))


def label_selector(place: str) -> Call:
    """A selector with matchLabels and matchExpressions, NULL where it selects by nothing."""
    return Call("selector", (document(place),), Type.TEXT)
