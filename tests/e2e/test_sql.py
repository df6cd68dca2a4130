"""`syncd sql` and `syncd tables`, typed in."""

from __future__ import annotations

import csv
import io
import json

from tests.e2e.world import World


async def test_the_mirror_is_asked_in_sql(world: World) -> None:
    world.workload.configmaps(5)
    world.write_config("configmaps")
    code, output = await world.syncd("sync")
    assert code == 0, output
    columns = "cluster, name, data_count, labels ->> 'tier' AS tier"
    query = f"SELECT {columns} FROM configmaps WHERE name LIKE 'config-%' ORDER BY name"
    code, output = await world.syncd("sql", query)
    assert code == 0, output
    head, *lines = output.splitlines()
    assert head.split() == ["cluster", "name", "data_count", "tier"]
    assert len(lines) == 5
    code, output = await world.syncd("sql", "-o", "json", query)
    assert [row["name"] for row in json.loads(output)] == [line.split()[1] for line in lines]
    code, output = await world.syncd("sql", "-o", "csv", query)
    assert [row["name"] for row in csv.DictReader(io.StringIO(output))] == [line.split()[1] for line in lines]
    code, output = await world.syncd("sql", "-o", "json", f"{query} LIMIT 0")
    assert (code, json.loads(output)) == (0, [])


async def test_what_is_wrong_with_a_query_is_2(world: World) -> None:
    world.write_config("configmaps")
    code, output = await world.syncd("migrate")
    assert code == 0, output
    for query in ("SELECT nosuch FROM pods", "DELETE FROM syncd_objects", "", "SELECT * FROM podz"):
        code, output = await world.syncd("sql", query)
        assert code == 2, output
        assert output.startswith("syncd: ")
        assert output.count("\n") == 1
    code, output = await world.syncd(
        "sql", "SELECT 1", SYNCD_DATABASE_URL="postgresql://nobody@127.0.0.1:9/none"
    )
    assert code == 1, output
    assert "Traceback" not in output


async def test_tables_are_listed_with_what_they_are(world: World) -> None:
    world.write_config("configmaps")
    await world.syncd("migrate")
    code, output = await world.syncd("tables", "-o", "json")
    assert code == 0, output
    listed = {row["relation"]: row for row in json.loads(output)}
    assert {"syncd_objects", "pods", "pods_core", "containers", "dictionary"} <= set(listed)
    assert all(row["description"] for row in listed.values())
    code, output = await world.syncd("tables", "pods", "-o", "json")
    assert [row["column_name"] for row in json.loads(output)][:4] == ["cluster", "namespace", "name", "uid"]
    code, output = await world.syncd("tables", "no'such")
    assert code == 3, output
    assert "no'such" in output
