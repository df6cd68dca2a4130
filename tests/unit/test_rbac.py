"""`syncd rbac`: the account it prints is enough, and no more than enough."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncd.app.rbac import Account, documents, render
from syncd.core.access import SUPPORTING, Need
from syncd.simulator.simulator import Simulator
from syncd.simulator.workload import Workload
from tests.fakes.front import Cluster

KUBECTL = shutil.which("kubectl") or ""
TOKEN = "the-account"
ENTRIES = [
    "all",
    "nodes",
    "*.rbac.authorization.k8s.io",
    "crd",
    {"name": "configmaps", "namespaces": ["kube-system", "default"]},
]


def grant(simulator: Simulator, printed: Iterable[Any], *, without: tuple[str, str] = ("", "")) -> None:
    """Gives a token what the roles say, less one (verb, resource). Object names are not told apart there."""
    simulator.access.know(TOKEN)
    for document in printed:
        for rule in document.get("rules") or ():
            for resource in rule["resources"]:
                verbs = tuple(verb for verb in rule["verbs"] if (verb, resource) != without)
                if verbs:
                    simulator.access.grant(
                        TOKEN,
                        verbs=verbs,
                        groups=tuple(rule["apiGroups"]),
                        resources=(resource,),
                        namespaces=tuple(filter(None, [document["metadata"].get("namespace", "")])),
                    )


async def test_what_it_prints_is_enough_for_a_green_check_and_a_full_mirror(tmp_path: Path) -> None:
    async with Cluster(tmp_path, ENTRIES) as cluster:
        simulator = cluster.simulator
        Workload(simulator, seed=1).fill(60)
        printed = await cluster.run("rbac")
        assert (printed.code, printed.err) == (0, "")
        grant(simulator, yaml.safe_load_all(printed.out))
        cluster.log_in(TOKEN)
        simulator.requests.clear()
        checked = await cluster.run("check", "-o", "json")
        synced = await cluster.sync()
        refused = simulator.requests.matching(status=403)
        pods = set(simulator.objects("", "pods"))
    assert checked.code == 0, checked.out
    assert {each["severity"] for each in checked.json["findings"]} == {"ok"}
    assert synced.code == 0, synced.err
    assert refused == []
    with closing(sqlite3.connect(cluster.database)) as database:
        states = dict(database.execute("SELECT state, count(*) FROM syncd_streams GROUP BY state"))
        mirrored = {
            key for (key,) in database.execute("SELECT object_key FROM syncd_objects WHERE kind = 'Pod'")
        }
    assert set(states) == {"live"}
    assert mirrored == pods


@pytest.mark.parametrize(
    ("without", "said"),
    [
        (("watch", "pods"), "may not watch pods in all namespaces"),
        (("list", "deployments"), "may not list deployments.apps in all namespaces"),
        (("watch", "nodes"), "may not watch nodes"),
        (("list", "configmaps"), "may not list configmaps in namespace default"),
    ],
)
async def test_with_one_verb_less_check_names_it_and_the_others_live_on(
    tmp_path: Path, without: tuple[str, str], said: str
) -> None:
    async with Cluster(tmp_path, ["pods", "deploy", "nodes", ENTRIES[-1]]) as cluster:
        printed = await cluster.run("rbac")
        grant(cluster.simulator, yaml.safe_load_all(printed.out), without=without)
        cluster.log_in(TOKEN)
        checked = await cluster.run("check", "-o", "json")
        synced = await cluster.sync()
    errors = [each for each in checked.json["findings"] if each["severity"] == "error"]
    assert checked.code == 3
    assert said in [each["message"] for each in errors]
    assert {each["next_step"] for each in errors} == {"syncd rbac | kubectl apply -f -"}
    # configmaps are granted in two namespaces, and each lacks it
    assert len(errors) == (2 if without[1] == "configmaps" else 1)
    assert synced.code == 3
    with closing(sqlite3.connect(cluster.database)) as database:
        states = dict(database.execute("SELECT resource || namespace, state FROM syncd_streams"))
    parked = {name for name, state in states.items() if state != "live"}
    assert {name.removesuffix("default").removesuffix("kube-system") for name in parked} == {without[1]}
    assert len(states) == 5


@pytest.mark.parametrize("need", SUPPORTING, ids=lambda need: str(need.resource))
async def test_without_what_only_supports_check_warns(tmp_path: Path, need: Need) -> None:
    async with Cluster(tmp_path, ["pods"]) as cluster:
        printed = await cluster.run("rbac")
        grant(cluster.simulator, yaml.safe_load_all(printed.out), without=(need.verbs[0], need.resource))
        cluster.log_in(TOKEN)
        checked = await cluster.run("check", "-o", "json")
    assert checked.code == 0
    (found,) = [each for each in checked.json["findings"] if each["severity"] != "ok"]
    assert found["severity"] == "warning"
    assert need.resource in found["message"] or "kube-system" in found["message"]


async def test_roles_are_in_the_namespaces_that_are_named(tmp_path: Path) -> None:
    one = {"name": "secrets", "namespaces": ["shop"], "field_selector": "metadata.name=tls"}
    async with Cluster(tmp_path, [{"name": "po", "namespaces": ["shop", "web"]}, one]) as cluster:
        printed = await cluster.run("rbac", "--namespace", "ops", "--service-account", "mirror")
        again = await cluster.run("rbac", "--namespace", "ops", "--service-account", "mirror", "-o", "json")
    found = list(yaml.safe_load_all(printed.out))
    assert json.loads(again.out)["items"] == found
    kinds = [(each["kind"], each["metadata"].get("namespace", "")) for each in found]
    assert kinds == [
        ("Namespace", ""),
        ("ServiceAccount", "ops"),
        ("ClusterRole", ""),
        ("ClusterRoleBinding", ""),
        ("Role", "shop"),
        ("RoleBinding", "shop"),
        ("Role", "web"),
        ("RoleBinding", "web"),
    ]
    cluster_role, shop = found[2], found[4]
    assert {verb for rule in cluster_role["rules"] for verb in rule["resources"]} == {
        "namespaces",
        "customresourcedefinitions",
        "apiservices",
    }
    assert {"resourceNames": ["kube-system"], "verbs": ["get"]}.items() <= cluster_role["rules"][0].items()
    assert shop["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["tls"], "verbs": ["list", "watch"]},
    ]
    assert found[5]["roleRef"]["name"] == shop["metadata"]["name"] == "ops:mirror"
    assert found[5]["subjects"] == [{"kind": "ServiceAccount", "name": "mirror", "namespace": "ops"}]


async def test_offline_says_what_it_can_and_names_what_it_cannot(tmp_path: Path) -> None:
    entries = ["po", "Deployment", "*.batch", {"name": "certificates.cert-manager.io", "namespaces": ["web"]}]
    async with Cluster(tmp_path, entries) as cluster:
        said = await cluster.run("rbac", "--offline")
        cluster.configure(resources=["all", "wd", "*.apps", "*"], exclude=["deploy", "gizmos"])
        unclear = await cluster.run("rbac", "--offline")
        assert len(cluster.simulator.requests) == 0
    granted = {
        (document["metadata"].get("namespace", ""), group, resource)
        for document in yaml.safe_load_all(said.out)
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if rule["verbs"] == ["list", "watch"]
    }
    assert granted == {
        ("", "", "pods"),
        ("", "apps", "deployments"),
        ("", "batch", "*"),
        ("web", "cert-manager.io", "certificates"),
        ("", "apiextensions.k8s.io", "customresourcedefinitions"),
    }
    assert unclear.code == 2
    assert unclear.out == ""
    for name in ('"all"', '"wd"', '"*.apps"', '"*"', '"gizmos"'):
        assert name in unclear.err


async def test_a_wildcard_without_a_cluster_points_to_offline(tmp_path: Path) -> None:
    async with Cluster(tmp_path, ["*"]) as cluster:
        cluster.simulator.access.know("somebody-else")
        output = await cluster.run("rbac")
    assert output.code == 1
    assert "--offline" in output.err


async def test_each_of_several_clusters_has_its_set(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        place = str(cluster.kubeconfig)
        clusters = [
            {"name": "a", "kubeconfig": place},
            {"name": "b", "kubeconfig": place, "resources": ["nodes"]},
        ]
        cluster.configure(clusters=clusters)
        both = await cluster.run("rbac")
        one = await cluster.run("rbac", "--cluster", "b")
        wrong = await cluster.run("rbac", "--namespace", "No Name")
    assert "choose one with --cluster" in both.err
    kinds = [document["kind"] for document in yaml.safe_load_all(both.out)]
    assert kinds == ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"] * 2
    assert one.err == ""
    assert "nodes" in one.out
    assert "pods" not in one.out
    assert wrong.code == 2


def test_the_order_is_fixed_and_every_rule_says_what_it_is_for() -> None:
    needs = [Need(("list", "watch"), "apps", name, purpose="mirrored", entry="*.apps") for name in "zyx"]
    needs += SUPPORTING
    text = render(needs, Account(), ["for a test"])
    assert text == render(needs[::-1], Account(), ["for a test"])
    rules = [rule for document in yaml.safe_load_all(text) for rule in document.get("rules", ())]
    assert [rule["apiGroups"] for rule in rules] == [
        [""],
        ["apiextensions.k8s.io"],
        ["apiregistration.k8s.io"],
        ["apps"],
    ]
    assert rules[-1]["resources"] == ["x", "y", "z"]
    lines = text.splitlines()
    assert all(
        lines[i - 1].startswith("# ") for i, line in enumerate(lines) if line.startswith("- apiGroups")
    )
    assert '# mirrored: "*.apps"' in lines
    assert "system:discovery" in text


def test_a_namespace_of_kubernetes_own_is_never_made() -> None:
    for namespace in ("default", "kube-system"):
        assert [each["kind"] for each in documents([], Account(namespace))] == ["ServiceAccount"]
    made = documents([], Account(), create_namespace=False)
    assert [each["kind"] for each in made] == ["ServiceAccount"]


@pytest.mark.kubectl
@pytest.mark.skipif(not KUBECTL, reason="kubectl is not on the PATH")
@pytest.mark.parametrize("how", [("create", "--dry-run=client"), ("apply",)], ids=["create", "apply"])
async def test_kubectl_takes_it(tmp_path: Path, how: tuple[str, ...]) -> None:
    async with Cluster(tmp_path, ENTRIES) as cluster:
        printed = await cluster.run("rbac")
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            f"--kubeconfig={cluster.kubeconfig}",
            f"--cache-dir={tmp_path / 'cache'}",
            *how,
            *("--validate=false", "-f", "-", "-o", "name"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(printed.out.encode())
    assert process.returncode == 0, err.decode()
    assert out.decode().split() == [
        "namespace/syncd",
        "serviceaccount/syncd",
        "clusterrole.rbac.authorization.k8s.io/syncd",
        "clusterrolebinding.rbac.authorization.k8s.io/syncd",
        *["role.rbac.authorization.k8s.io/syncd", "rolebinding.rbac.authorization.k8s.io/syncd"] * 2,
    ]
