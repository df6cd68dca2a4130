"""Everything that a database shall have: the views by kind, those of what is inside objects, and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from syncd.core.relation import Described, Relations
from syncd.views import dictionary, freshness, owners, part, references
from syncd.views.kinds import CATALOGUE
from syncd.views.parts import PARTS
from syncd.views.rendering import RENDERERS, relations


def everything(dialect: str, tables: Sequence[Described] = ()) -> Relations:
    """The relations of a database of this dialect, `sqlite` or `postgresql`.

    Args:
        tables: what is said of the tables, for the dictionary and for comments.
    """
    kinds = relations(CATALOGUE, dialect)
    renderer = RENDERERS[dialect]()
    parts = tuple(part.relation(each, renderer) for each in PARTS)
    rest = (
        owners.relation(renderer),
        references.relation(renderer),
        freshness.relation(dialect),
        dictionary.relation(tables, dialect),
    )
    return replace(kinds, views=(*kinds.views, *parts, *rest), tables=tuple(tables))
