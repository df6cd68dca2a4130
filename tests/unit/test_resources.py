"""`syncd resources`: what is served, what of it is mirrored, and why."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.front import Cluster


async def test_it_lists_what_is_mirrored_by_which_entry_and_what_is_not_and_why(tmp_path: Path) -> None:
    pods = {"name": "po", "namespaces": ["a", "b"], "label_selector": "x=y"}
    entries = [pods, "*.apps", "*"]
    async with Cluster(tmp_path, entries, exclude=["leases"]) as cluster:
        table = await cluster.run("resources")
        answer = await cluster.run("resources", "-o", "json")
    assert (table.code, answer.code) == (0, 0)
    (found,) = answer.json["clusters"]
    assert (found["cluster"], found["error"], found["problems"]) == ("c", "", [])
    by_name = {".".join(filter(None, (each["name"], each["group"]))): each for each in found["resources"]}
    assert [each["namespace"] for each in by_name["pods"]["streams"]] == ["a", "b"]
    assert {each["label_selector"] for each in by_name["pods"]["streams"]} == {"x=y"}
    assert by_name["pods"]["streams"][0]["where"] == "resources[0]"
    assert by_name["deployments.apps"]["streams"][0]["entry"] == "*.apps"
    assert by_name["nodes"]["reason"] == "selected"
    assert by_name["leases.coordination.k8s.io"]["detail"] == 'excluded by "leases"'
    assert by_name["componentstatuses"]["detail"] == "offers no watch; name it to have it polled"
    assert by_name["events.events.k8s.io"]["reason"] == "other_door"
    assert by_name["horizontalpodautoscalers.autoscaling"]["versions"] == ["v2", "v1"]
    lines = {line.split()[0]: line for line in table.out.splitlines()[2:]}
    assert lines["pods"].endswith("a [x=y], b [x=y]")
    assert lines["nodes"].endswith("cluster")
    assert lines["events.events.k8s.io"].endswith("another door to the objects of events, which is mirrored")


async def test_it_says_what_is_polled_and_how_often(tmp_path: Path) -> None:
    entries = ["nodes", {"name": "pods", "mode": "poll", "every": "90s"}, "componentstatuses"]
    async with Cluster(tmp_path, entries) as cluster:
        table = await cluster.run("resources")
        answer = await cluster.run("resources", "-o", "json")
    streams = {each["name"]: each["streams"] for each in answer.json["clusters"][0]["resources"]}
    assert [streams[name][0]["poll_seconds"] for name in ("nodes", "pods", "componentstatuses")] == [
        None,
        90.0,
        300.0,
    ]
    lines = {line.split()[0]: line for line in table.out.splitlines()[2:]}
    assert lines["nodes"].endswith("cluster")
    assert lines["pods"].endswith("all namespaces (polled every 1m30s)")
    assert lines["componentstatuses"].endswith("cluster (polled every 5m: offers no watch)")


async def test_what_no_entry_means_is_counted_and_listed_when_asked_for(tmp_path: Path) -> None:
    async with Cluster(tmp_path, ["all"]) as cluster:
        short = await cluster.run("resources")
        long = await cluster.run("resources", "--all")
    assert "that no entry means" in short.out
    assert "configmaps" not in short.out
    assert any(
        line.startswith("configmaps") and "no entry means it" in line for line in long.out.splitlines()
    )
    assert "pods" in short.out


async def test_an_entry_that_means_nothing_is_a_finding(tmp_path: Path) -> None:
    async with Cluster(tmp_path, ["pods", "deploymets.apps"]) as cluster:
        output = await cluster.run("resources")
    assert output.code == 3
    assert "deployments.apps" in output.err


async def test_a_cluster_that_does_not_answer_leaves_the_others(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        away = tmp_path / "away"
        away.write_text(cluster.kubeconfig.read_text().replace(cluster.url, "http://127.0.0.1:9"))
        clusters = [
            {"name": "c", "kubeconfig": str(cluster.kubeconfig)},
            {"name": "away", "kubeconfig": str(away)},
        ]
        cluster.configure(clusters=clusters)
        output = await cluster.run("resources", "-o", "json")
        chosen = await cluster.run("resources", "--cluster", "c")
        unknown = await cluster.run("resources", "--cluster", "d")
    assert output.code == 1
    here, there = output.json["clusters"]
    assert here["resources"]
    assert "127.0.0.1" in output.err or "away" in output.err
    assert there["error"]
    assert chosen.code == 0
    assert unknown.code == 2
    assert "there are c, away" in unknown.err
