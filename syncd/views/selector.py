"""Labels and label selectors as text, as Kubernetes writes them: `a=b,c in (x,y),!d`."""

from __future__ import annotations

from syncd.views.expression import ITEM, Call, Key, Over, Type, concat, document, entries, join


def labels_text(place: str) -> Over:
    """A map as `k=v,k=v`, NULL where it is empty.

    In the order of the whole texts, not of the keys (apimachinery's labels.Set): `a-b=1` is before `a=1`.
    """
    pair = concat(Key(), "=", ITEM)
    return join(entries(place), pair, order=pair)


def label_selector(place: str) -> Call:
    """A selector with matchLabels and matchExpressions, in the order of the keys, NULL where it selects by
    nothing.
    """
    return Call("selector", (document(place),), Type.TEXT)
