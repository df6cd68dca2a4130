"""`syncd check`: what would fail is found before it does."""

from __future__ import annotations

import asyncio
import json
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from syncd.app import database_check
from syncd.app.check import Verdict, check_all, verdict
from syncd.app.cluster_check import AT_A_TIME
from syncd.app.finding import Kind, Severity, error, ok, warning
from syncd.simulator.server import SimulatorServer, write_kubeconfig
from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload
from tests.fakes.finding import about, one
from tests.fakes.front import Cluster


async def test_all_is_well(tmp_path: Path) -> None:
    async with Cluster(tmp_path, ["pods", "nodes"]) as cluster:
        Workload(cluster.simulator, seed=1).fill(300)
        plain = await cluster.run("check")
        machine = await cluster.run("check", "-o", "json")
        findings, result = await check_all(cluster.config)
        asked = [request for request in cluster.simulator.requests if request.method != "GET"]
    assert (plain.code, machine.code, result) == (0, 0, Verdict.FINE)
    assert plain.out.endswith("0 errors, 0 warnings\n")
    assert machine.json["verdict"] == "fine"
    assert [each["check"] for each in machine.json["findings"]] == [each.check for each in findings]
    assert {each.severity for each in findings} == {Severity.OK}
    assert "v1.36.2" in one(findings, "reachable").message
    assert "2 resources in 2 streams" in one(findings, "permissions").message
    assert not cluster.database.exists(), "a check makes no file"
    assert {request.resource for request in asked} == {"selfsubjectaccessreviews"}


async def test_it_tells_the_rows_and_the_bytes_to_expect(tmp_path: Path) -> None:
    async with Cluster(tmp_path, ["pods"]) as cluster:
        Workload(cluster.simulator, seed=1).fill(300)
        before, _ = await check_all(cluster.config)
        cluster.simulator.requests.clear()
        synced = await cluster.sync()
        after, _ = await check_all(cluster.config)
        pods = len(cluster.simulator.objects("", "pods"))
        real = cluster.database.stat().st_size
    assert synced.code == 0
    assert f"{pods:,} objects" in one(before, "size").message
    room = one(before, "room")
    assert f"{pods:,} objects, about " in room.message
    told = database_check.DISK_PER_BYTE, database_check.DISK_PER_ROW
    assert told == (1.2, 700)
    expected = float(room.message.split("about ")[1].split(" MB")[0]) * 1e6
    assert 0.5 * real < expected < 2 * real
    assert one(after, "schema").message.endswith("as this version needs")


async def test_a_selector_makes_the_count_a_lower_bound(tmp_path: Path) -> None:
    entry = {"name": "pods", "label_selector": "app"}
    async with Cluster(tmp_path, [entry]) as cluster:
        for index in range(60):
            metadata = {"name": f"p{index:02}", "namespace": "default", "labels": {"app": "x"}}
            cluster.simulator.create("", "pods", {"metadata": metadata})
        findings, _ = await check_all(cluster.config)
    assert "at least 50 objects" in one(findings, "size").message


async def test_a_selector_that_the_server_refuses_would_fail(tmp_path: Path) -> None:
    async with Cluster(tmp_path, [{"name": "pods", "field_selector": "spec.nonsense=x"}, "nodes"]) as cluster:
        findings, result = await check_all(cluster.config)
    assert result is Verdict.FAILS
    found = one(findings, "list")
    assert "spec.nonsense" in found.message
    assert '"pods" (resources[0])' in found.next_step


async def test_a_refused_login_would_fail(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.simulator.access.know("another")
        output = await cluster.run("check", "-o", "json")
    assert output.code == 3
    (found,) = [each for each in output.json["findings"] if each["severity"] == "error"]
    assert found["check"] == "login"
    assert "401" in found["message"]


async def test_a_cluster_that_does_not_answer_is_not_checked_and_the_other_is(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        away = tmp_path / "away"
        write_kubeconfig(away, f"http://127.0.0.1:{port}")
        clusters = [
            {"name": "away", "kubeconfig": str(away)},
            {"name": "c", "kubeconfig": str(cluster.kubeconfig)},
        ]
        cluster.configure(clusters=clusters)
        output = await cluster.run("check", "-o", "json")
        findings, _ = await check_all(cluster.config)
    assert output.code == 1
    assert output.json["verdict"] == "unchecked"
    reachable = one(findings, "reachable", "away")
    assert reachable.kind is Kind.UNCHECKED
    assert reachable.message.startswith(f"http://127.0.0.1:{port}: ")
    assert one(findings, "room").message.startswith("at least ")
    assert one(findings, "permissions", "c").severity is Severity.OK


async def test_a_kubeconfig_that_is_not_there_is_the_configurations_fault(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.configure(clusters=[{"name": "c", "kubeconfig": str(tmp_path / "nowhere")}])
        output = await cluster.run("check", "-o", "json")
        cluster.file.write_text("clusters: {}")
        broken = await cluster.run("check", "-o", "json")
    assert output.code == 2
    (fault,) = [each for each in output.json["findings"] if each["severity"] == "error"]
    assert "nowhere" in fault["message"]
    assert not [each for each in output.json["findings"] if each["check"] == "room"], "nothing was counted"
    assert broken.code == 2
    assert broken.out == ""


async def test_an_account_that_may_not_ask_what_is_served_would_fail(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.simulator.faults.answer(403, path="/api", times=100)
        cluster.simulator.faults.answer(403, path="/apis", times=100)
        findings, result = await check_all(cluster.config)
    assert result is Verdict.FAILS
    assert "system:discovery" in one(findings, "login").next_step


async def test_what_the_entries_do_not_get_is_a_warning_and_nothing_at_all_an_error(tmp_path: Path) -> None:
    async with Cluster(tmp_path, ["pods", "gizmos"]) as cluster:
        some, fine = await check_all(cluster.config)
        cluster.configure(resources=["gizmos"])
        none, fails = await check_all(cluster.config)
    assert (fine, fails) == (Verdict.FINE, Verdict.FAILS)
    assert one(some, "selection").severity is Severity.WARNING
    assert [each.severity for each in about(none, "selection")] == [Severity.WARNING, Severity.ERROR]


async def test_what_has_no_versions_can_be_polled_and_is_no_fault(tmp_path: Path) -> None:
    async with Cluster(tmp_path, ["pods", "componentstatuses"]) as cluster:
        findings, result = await check_all(cluster.config)
        synced = await cluster.sync()
    assert (result, synced.code) == (Verdict.FINE, 0)
    assert "2 resources in 2 streams" in one(findings, "permissions").message


async def test_a_list_that_is_none_is_named_once(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.simulator.faults.answer(500, verb="list", resource="pods", times=100)
        findings, result = await check_all(cluster.config)
    assert result is Verdict.FAILS
    assert one(findings, "list").message.startswith("pods: 500")


async def test_what_cannot_be_told_of_discovery_is_named(tmp_path: Path) -> None:
    async with Cluster(tmp_path, ["*"]) as cluster:
        cluster.simulator.faults.stale_group("apps")
        findings, _ = await check_all(cluster.config)
    found = one(findings, "selection")
    assert found.message.endswith("part of the discovery is stale or could not be had: apps/v1")
    assert "kubectl get apiservices" in found.next_step


async def test_one_next_step_for_many_findings_is_printed_once(tmp_path: Path) -> None:
    async with Cluster(tmp_path, ["pods", "nodes"]) as cluster:
        cluster.simulator.access.know("poor")
        cluster.log_in("poor")
        checked = await cluster.run("check")
    lines = checked.out.splitlines()
    assert checked.code == 3
    assert sum("ERROR" in line for line in lines) == 4
    assert sum("-> syncd rbac | kubectl apply -f -" in line for line in lines) == 1


async def test_reviews_that_are_refused_leave_it_open(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.simulator.faults.answer(500, verb="create", resource="selfsubjectaccessreviews", times=100)
        findings, result = await check_all(cluster.config)
    assert result is Verdict.UNCHECKED
    assert (
        "cannot tell whether it may list pods in all namespaces" in about(findings, "permissions")[0].message
    )


async def test_questions_are_asked_a_few_at_a_time(tmp_path: Path) -> None:
    async with Cluster(tmp_path, ["*"]) as cluster:
        simulator = cluster.simulator
        simulator.faults.delay(0.02, verb="create", times=1000)
        checking = asyncio.create_task(check_all(cluster.config))
        most = 0
        while not checking.done():
            most = max(
                most, sum(request.verb == "create" and not request.status for request in simulator.requests)
            )
            await asyncio.sleep(0.002)
        _, result = checking.result()
    assert result is Verdict.FINE
    assert 1 < most <= AT_A_TIME


# --- certificates -----------------------------------------------------------------------------------


class Tls:
    """An authority's files for a server and a client."""

    def __init__(self, directory: Path, ends: datetime) -> None:
        self._directory = directory
        self.authority = trustme.CA()
        server = self.authority.issue_cert("127.0.0.1", not_after=ends)
        client = self.authority.issue_cert("syncd@example.com", not_after=ends + timedelta(days=1))
        self.ca = directory / "ca.pem"
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.server = self._write("server", server)
        self.client = self._write("client", client)

    def _write(self, name: str, leaf: trustme.LeafCert) -> tuple[Path, Path]:
        certificate, key = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        leaf.cert_chain_pems[0].write_to_path(str(certificate))
        leaf.private_key_pem.write_to_path(str(key))
        return certificate, key


async def test_certificates_are_told_before_they_expire(tmp_path: Path) -> None:
    ends = datetime.now(UTC) + timedelta(days=100)
    tls, cluster = Tls(tmp_path, ends), Cluster(tmp_path)
    async with SimulatorServer(Simulator(), certificate=tls.server[0], key=tls.server[1]) as served:
        write_kubeconfig(cluster.kubeconfig, served.url, ca=tls.ca)
        document = json.loads(cluster.kubeconfig.read_text())
        certificate, key = map(str, tls.client)
        document["users"][0]["user"] = {"client-certificate": certificate, "client-key": key}
        cluster.kubeconfig.write_text(json.dumps(document))
        cluster.configure()
        now, fine = await check_all(cluster.config)
        soon, still = await check_all(cluster.config, ends - timedelta(days=5, minutes=1))
        late, fails = await check_all(cluster.config, ends + timedelta(minutes=1))
    assert (fine, still, fails) == (Verdict.FINE, Verdict.FINE, Verdict.FAILS)
    assert [each.severity for each in about(now, "certificate")] == [Severity.OK] * 2
    assert [each.severity for each in about(soon, "certificate")] == [Severity.WARNING] * 2
    first, second = about(late, "certificate")
    assert (first.severity, second.severity) == (Severity.WARNING, Severity.ERROR)
    assert "the server's certificate expired on" in second.message
    assert "client certificate expires" in first.message


async def test_a_certificate_of_another_authority_would_fail(tmp_path: Path) -> None:
    tls, cluster = Tls(tmp_path, datetime.now(UTC) + timedelta(days=100)), Cluster(tmp_path)
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    async with SimulatorServer(Simulator(), certificate=tls.server[0], key=tls.server[1]) as served:
        write_kubeconfig(cluster.kubeconfig, served.url, ca=other)
        cluster.configure()
        findings, result = await check_all(cluster.config)
    assert result is Verdict.FAILS
    assert "certificate-authority" in one(findings, "certificate").next_step


# --- the verdict ------------------------------------------------------------------------------------


def test_the_verdict_weighs_the_configuration_first() -> None:
    fails, unchecked = error("c", "x", "", ""), error("c", "x", "", "", Kind.UNCHECKED)
    config = error("c", "x", "", "", Kind.CONFIG)
    assert verdict([ok("c", "x", ""), warning("c", "x", "", "")]) is Verdict.FINE
    assert verdict([unchecked]) is Verdict.UNCHECKED
    assert verdict([unchecked, fails]) is Verdict.FAILS
    assert verdict([unchecked, fails, config]) is Verdict.CONFIG
