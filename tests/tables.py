"""Writes `docs/tables/` from the catalogue of views: `python -m tests.tables`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from syncd.core.relation import Relation
from syncd.store.glossary import described
from syncd.views.catalogue import everything
from syncd.views.kinds import CATALOGUE
from syncd.views.parts import PARTS
from syncd.views.questions import questions

PAGES = Path(__file__).parents[1] / "docs" / "tables"
_HEAD = """\
# Views

A view a kind, under the name that kubectl gives the resource and under one with the API group, and views of
what is inside objects and between them. They are the same on SQLite and PostgreSQL: the types are
PostgreSQL's; on SQLite `timestamptz` is text in UTC, `boolean` 0 or 1, `jsonb` JSON text. Where an object has
no such field a column is NULL. `syncd tables` lists them, `syncd tables pods` the columns of one, and so does
the view `dictionary`. The tables under them are in [schema.md](../schema.md). These pages are made by
`make tables` from the catalogue that makes the views, and a test runs every query in them on both databases.

A custom resource's view comes with its definition: `syncd tables` has it, and this page does not.
"""


def pages() -> dict[str, str]:
    """Every page by its file's name."""
    made = everything("postgresql", described("postgresql")).views
    longs = {view.long_name for view in CATALOGUE}
    shown = [relation for relation in made if relation.name not in longs]
    found = {f"{relation.name}.md": _page(relation, made) for relation in shown}
    return found | {"README.md": _index(shown)}


def write() -> None:
    """Puts them there, and takes away what is none of them."""
    PAGES.mkdir(exist_ok=True)
    wanted = pages()
    for path in PAGES.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (PAGES / name).write_text(text, encoding="utf-8")


def _index(shown: Sequence[Relation]) -> str:
    parts = {part.name for part in PARTS}
    sections: dict[str, list[Relation]] = {"Objects, by kind": [], "Inside objects": [], "Across objects": []}
    for relation in shown:
        name = "Inside objects" if relation.name in parts else "Objects, by kind"
        sections[name if relation.subject or relation.name in parts else "Across objects"].append(relation)
    lines = [_HEAD]
    for title, relations in sections.items():
        lines += [f"## {title}", "", "| view | |", "|---|---|"]
        lines += [
            f"| [{relation.name}]({relation.name}.md) | {_cell(relation.description)} |"
            for relation in sorted(relations, key=lambda each: each.name)
        ]
        lines.append("")
    return "\n".join(lines)


def _page(relation: Relation, made: Sequence[Relation]) -> str:
    also = sorted(
        {view.long_name for view in CATALOGUE if view.short_name == relation.name}
        & {one.name for one in made}
    )
    lines = [f"# {relation.name}", "", _cell(relation.description)]
    if also:
        named = " and ".join(f"`{name}`" for name in also)
        lines[-1] += f" With the API group in its name: {named}."
    lines += ["", "| column | type | | from |", "|---|---|---|---|"]
    lines += [
        f"| `{column.name}` | {column.type} | {_cell(column.description)} | {_code(column.origin)} |"
        for column in relation.columns
    ]
    for question in questions(relation):
        lines += ["", f"## {question.title}", "", "```sql", question.query, "```"]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    write()
