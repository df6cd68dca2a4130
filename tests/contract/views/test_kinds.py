"""Every kind's view on both dialects: typed columns, what kubectl prints, and the same rows everywhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncd.views.kinds import CATALOGUE
from syncd.views.postgresql import PostgresqlRenderer
from syncd.views.rendering import kubectl
from syncd.views.view import View
from tests.contract.mirror_case import Place
from tests.contract.views.case import Row, mirrored, plain, rows

DATA = Path(__file__).parents[2] / "data" / "views.yaml"
CASES: dict[str, list[dict[str, Any]]] = yaml.safe_load(DATA.read_text(encoding="utf-8"))
TWICE = {view.resource for view in CATALOGUE if view.resource == "events"}


def named(view: View) -> str:
    """How the table of cases names a view."""
    return "events.events.k8s.io" if view.groups == ("events.k8s.io",) else view.resource


def objects() -> list[tuple[View, dict[str, Any]]]:
    """The object of every case, whole: the name is `web` for the first of a kind, `web-1` for the next."""
    found = []
    for view in CATALOGUE:
        for number, case in enumerate(CASES[named(view)]):
            metadata = {
                "name": _name(number),
                "uid": f"{named(view)}-{number}",
                "resourceVersion": str(number + 1),
                "creationTimestamp": "2026-01-02T03:04:05Z",
                **({"namespace": "shop"} if view.namespaced else {}),
                **case["object"].get("metadata", {}),
            }
            found.append((view, {"kind": view.kind, **case["object"], "metadata": metadata}))
    return found


def _name(number: int) -> str:
    return "web" if number == 0 else f"web-{number:02}"


def test_the_table_names_every_kind() -> None:
    assert set(CASES) == {named(view) for view in CATALOGUE}
    assert all(CASES.values())


async def test_columns_and_cells_of_every_kind(place: Place) -> None:
    async with mirrored(place, objects()):
        for view in CATALOGUE:
            ordered = f"SELECT * FROM {view.long_name} ORDER BY name"
            found = [plain(view, row) for row in rows(place, ordered)]
            printed = rows(place, f"{kubectl(view, place.dialect)} ORDER BY o.name")
            assert len(found) == len(printed) == len(CASES[named(view)])
            for number, case in enumerate(CASES[named(view)]):
                where = f"{named(view)} {number} {case.get('about', '')}"
                expected = case.get("columns", {})
                assert {key: found[number][key] for key in expected} == expected, where
                cells = _expected_cells(view, number, case["cells"])
                assert {key: printed[number][key] for key in cells} == cells, where
                _check_relative(view, case["cells"], printed[number], where)


def _expected_cells(view: View, number: int, given: dict[str, str]) -> dict[str, str]:
    """A case names every cell that does not depend on the time in its kind's first case."""
    default = {"Name": _name(number), **({"Namespace": "shop"} if view.namespaced else {})}
    if view.resource == "events":
        given = {**given, "Name": _name(number)}
    if number == 0:
        told = {cell.heading for cell in view.cells if not cell.relative}
        assert told <= {*default, *given}, f"{named(view)}: {told - {*default, *given}} is not in the table"
    return {**default, **given}


def _check_relative(view: View, given: dict[str, str], printed: Row, where: str) -> None:
    for cell in view.cells:
        if cell.relative and cell.heading not in given:
            assert printed[cell.heading] is not None, f"{where}: {cell.heading}"
        assert printed[cell.heading] is not None, f"{where}: {cell.heading}"


@pytest.mark.postgres
async def test_both_dialects_give_the_same_rows(sqlite_place: Place, postgres_place: Place) -> None:
    varying = {"first_seen_at", "committed_at", "stream_id"}
    async with mirrored(sqlite_place, objects()), mirrored(postgres_place, objects()):
        for view in CATALOGUE:
            for name in (view.long_name, view.short_name):
                query = f"SELECT * FROM {name} ORDER BY uid"
                kept, served = (
                    [
                        {key: value for key, value in plain(view, row).items() if key not in varying}
                        for row in rows(place, query)
                    ]
                    for place in (sqlite_place, postgres_place)
                )
                assert kept
                assert kept == served, name


async def test_the_names_that_events_have(place: Place) -> None:
    async with mirrored(place, [pair for pair in objects() if pair[0].resource == "events"]):
        counted = {
            name: rows(place, f"SELECT count(*) AS n FROM {name}")[0]["n"]
            for name in ("events", "events_core", "events_events_k8s_io")
        }
        core, group = len(CASES["events"]), len(CASES["events.events.k8s.io"])
        assert counted == {"events": core + group, "events_core": core, "events_events_k8s_io": group}


@pytest.mark.postgres
async def test_what_is_stored_of_a_pod_is_what_the_catalogue_says(postgres_place: Place) -> None:
    pods = CATALOGUE[0]
    renderer = PostgresqlRenderer({column.name: column.value for column in pods.columns}, plain=True)
    quick = ("ready_containers", "status", "restarts", "last_restart_at", "node", "phase")
    values = {column.name: renderer.render(column.value) for column in pods.columns if column.name in quick}
    asked = ", ".join(f"{value} AS {name}" for name, value in values.items())
    async with mirrored(postgres_place, [pair for pair in objects() if pair[0] is pods]):
        said = rows(postgres_place, f"SELECT {asked} FROM syncd_objects o ORDER BY name")
        stored = rows(postgres_place, f"SELECT {', '.join(values)} FROM pods ORDER BY name")
    assert len(said) == len(CASES["pods"])
    assert said == stored
    assert len(Counter(row["status"] for row in said)) > 10
