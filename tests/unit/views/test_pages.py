"""docs/tables/ is what the catalogue says."""

from __future__ import annotations

from pathlib import Path

from syncd.core.relation import relation_name
from syncd.store.glossary import described
from syncd.views.catalogue import everything
from tests.tables import PAGES, pages

RESERVED = Path(__file__).parents[2] / "data" / "reserved"


def test_the_pages_are_what_the_catalogue_says() -> None:
    wanted = pages()
    assert {path.name for path in PAGES.glob("*.md")} == set(wanted), "run `make tables`"
    for name, text in wanted.items():
        assert (PAGES / name).read_text(encoding="utf-8") == text, f"{name}: run `make tables`"


def test_no_name_is_a_reserved_word_or_too_long() -> None:
    for dialect in ("sqlite", "postgresql"):
        views = everything(dialect, described(dialect)).views
        assert len({view.name for view in views}) == len(views)
        for database in ("postgresql", "sqlite", "mysql"):
            words = set((RESERVED / f"{database}.txt").read_text(encoding="utf-8").lower().split())
            assert not words & {view.name for view in views}
            for view in views:
                assert not words & {column.name for column in view.columns}, view.name
        assert all(relation_name(view.name) == view.name for view in views)


def test_every_column_says_what_it_is() -> None:
    for view in everything("sqlite", described("sqlite")).views:
        assert view.description.endswith("."), view.name
        for column in view.columns:
            assert len(column.description) > 5, f"{view.name}.{column.name}"
