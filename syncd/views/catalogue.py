"""Everything that a database shall have: the views by kind, those of what is inside objects, and the rest."""

from __future__ import annotations

from dataclasses import replace

from syncd.core.relation import Relations
from syncd.views import freshness, part
from syncd.views.kinds import CATALOGUE
from syncd.views.parts import PARTS
from syncd.views.rendering import RENDERERS, relations


def everything(dialect: str) -> Relations:
    """The relations of a database of this dialect, `sqlite` or `postgresql`."""
    kinds = relations(CATALOGUE, dialect)
    renderer = RENDERERS[dialect]()
    parts = tuple(part.relation(each, renderer) for each in PARTS)
    return replace(kinds, views=(*kinds.views, *parts, freshness.relation(dialect)))
