"""What objects of every kind say of themselves in `status.conditions`."""

from __future__ import annotations

from syncd.views.expression import Listing, Path, Type
from syncd.views.part import Part, Rows
from syncd.views.view import at, number, text


def _said(key: str, kind: Type = Type.TEXT) -> Path:
    return Path((key,), kind, loose=True)


CONDITIONS = Part(
    "conditions",
    "Conditions of the objects of every kind that has them, custom resources too.",
    (
        text("type", _said("type"), "What is said: Ready, Available, Progressing, …"),
        text("status", _said("status"), "True, False or Unknown."),
        text("reason", _said("reason"), "Why, in a word."),
        text("message", _said("message"), "The same for people."),
        at("last_transition_at", _said("lastTransitionTime", Type.TIME), "When the status last changed."),
        number(
            "observed_generation",
            _said("observedGeneration", Type.INTEGER),
            "The generation of the object that it is said of.",
        ),
    ),
    (Rows((), (Listing(Path(("status", "conditions"), Type.JSON, loose=True)),)),),
    spanning=True,
)
