"""`deploy/`: the unit, the image's steps, the manifests, the alerts and the dashboard, each held to what it
talks of. A tool that is not installed is named as the reason of a skip.
"""

from __future__ import annotations

import asyncio
import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from syncd.cli.main import app
from syncd.config import Config
from syncd.config.file import loads
from syncd.metrics import Metrics
from syncd.server import Probes, Readiness, application, serving

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BASE = DEPLOY / "kubernetes/base"
POSTGRESQL = DEPLOY / "kubernetes/overlays/postgresql"
NOBODY = 65534


def tool(name: str, package: str) -> str:
    """The path of a tool, or a skip that says how to get it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (package {package})")
    return found


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=300, check=False, **options
    )


# --- systemd ------------------------------------------------------------------------------------------


class Unit(configparser.RawConfigParser):
    """A unit file as far as it is one of keys and values; a repeated key keeps all its lines."""

    def __init__(self, path: Path) -> None:
        super().__init__(strict=False, interpolation=None, comment_prefixes=("#",), delimiters=("=",))
        self.optionxform = str  # type: ignore[assignment,method-assign]
        self.read(path)


@pytest.fixture
def unit() -> Unit:
    return Unit(DEPLOY / "systemd/syncd.service")


@pytest.fixture
def runnable_unit(tmp_path: Path) -> Path:
    """The unit with a program that is there: `verify` looks for it."""
    text = (DEPLOY / "systemd/syncd.service").read_text()
    assert "/opt/syncd/bin/syncd" in text
    path = tmp_path / "syncd.service"
    path.write_text(text.replace("/opt/syncd/bin/syncd", "/bin/true"))
    return path


def test_systemd_finds_no_fault_in_the_unit(runnable_unit: Path) -> None:
    done = run(tool("systemd-analyze", "systemd"), "verify", runnable_unit)
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_calls_the_unit_safe(runnable_unit: Path) -> None:
    done = run(
        tool("systemd-analyze", "systemd"),
        "security",
        "--offline=yes",
        "--threshold=20",  # of 100; OK, the green, ends at 40
        "--no-pager",
        runnable_unit,
    )
    assert done.returncode == 0, done.stdout[-300:] + done.stderr
    assert "OK" in done.stdout.splitlines()[-1]


def test_the_unit_runs_a_command_that_there_is(unit: Unit) -> None:
    program, command, *options = shlex.split(unit["Service"]["ExecStart"])
    assert program == "/opt/syncd/bin/syncd"
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert shown.exit_code == 0
    assert [option for option in options if option.startswith("-")] == ["--config"]
    assert "--config" in shown.output


def test_the_unit_waits_for_ready_and_for_the_watchdog(unit: Unit) -> None:
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert service["NotifyAccess"] == "main"
    assert service["WatchdogSec"] == "60s"
    assert service["Restart"] == "always"
    assert service["RestartPreventExitStatus"] == "2"


def test_the_account_is_the_units(unit: Unit) -> None:
    lines = (DEPLOY / "systemd/sysusers.conf").read_text().splitlines()
    [line] = [shlex.split(line) for line in lines if not line.startswith("#")]
    assert line[:2] == ["u", unit["Service"]["User"]]
    assert line[4] == f"/var/lib/{unit['Service']['StateDirectory']}"


def test_the_environment_file_is_one(unit: Unit) -> None:
    lines = (DEPLOY / "systemd/syncd.env").read_text().splitlines()
    assert "-/etc/syncd/syncd.env" in unit["Service"]["EnvironmentFile"]
    for line in filter(None, lines):
        assert line.startswith("# ") or re.fullmatch(r"#?[A-Z_]+=\S*", line), line


def test_the_install_steps_put_things_where_the_unit_looks(unit: Unit) -> None:
    page = (ROOT / "docs/install.md").read_text()
    [steps] = [
        block for block in re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S) if "systemctl" in block
    ]
    installed = [shlex.split(line)[2:] for line in steps.splitlines() if line.startswith("sudo install")]
    placed = {each[-1]: each[-2] for each in installed if "-d" not in each}
    service = unit["Service"]
    assert placed[service["EnvironmentFile"].removeprefix("-")] == "deploy/systemd/syncd.env"
    assert placed["/etc/systemd/system/syncd.service"] == "deploy/systemd/syncd.service"
    assert placed["/etc/sysusers.d/syncd.conf"] == "deploy/systemd/sysusers.conf"
    _, _, *options = shlex.split(service["ExecStart"])
    assert options == ["--config", "/etc/syncd/syncd.yaml"]
    [configuration] = [each for each in installed if each[-1] == "/etc/syncd/"]
    assert configuration[configuration.index("-g") + 1] == service["Group"]
    assert "syncd.yaml" in configuration
    assert Path(service["ExecStart"].split()[0]).parents[1] == Path("/opt/syncd")
    assert "sudo python3 -m venv /opt/syncd" in steps


# --- the image ----------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's, in order: (FROM, RUN …, the rest of it)."""
    text = (DEPLOY / "container/Dockerfile").read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    found = [line.strip() for line in lines.replace("\\\n", " ").splitlines() if line.strip()]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in found]


def build_stage() -> list[tuple[str, str]]:
    found = instructions()
    first, second = (i for i, (name, _) in enumerate(found) if name == "FROM")
    return found[first + 1 : second]


@pytest.fixture
def empty_directory() -> Iterator[Path]:
    """Outside pytest's own, which only its user may enter."""
    path = Path(tempfile.mkdtemp(prefix="syncd-image-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


class Ordinary:
    """Runs commands as an ordinary user, in a directory that is that user's."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._identity: dict[str, Any] = {}
        self.python = sys.executable
        if os.geteuid() == 0:
            self._identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            self.python = self._interpreter()

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        return run(
            *command, cwd=self.directory, env=environ | {"HOME": str(self.directory)}, **self._identity
        )

    def own(self) -> None:
        """Gives the user all that is in the directory."""
        if self._identity:
            for path in (self.directory, *self.directory.rglob("*")):
                os.chown(path, NOBODY, NOBODY)

    def _interpreter(self) -> str:
        """One that the user may start: root's own may lie where nobody else looks."""
        places = (self.python, *filter(None, [shutil.which("python3", path="/usr/local/bin:/usr/bin")]))
        suits = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"
        for python in places:
            try:
                done = subprocess.run([python, "-c", suits], check=False, cwd="/", **self._identity)
            except PermissionError:
                continue
            if done.returncode == 0:
                return python
        pytest.skip("no Python from 3.11 on that an ordinary user may start")


@pytest.mark.timeout(600)
def test_the_images_install_steps_work_for_an_ordinary_user(empty_directory: Path) -> None:
    """There is no engine here to build it: its steps are taken one by one, in an empty directory."""
    user = Ordinary(empty_directory)
    user.own()
    home = empty_directory / "opt"
    reaching = [user.python, "-m", "pip", "download", "--no-deps", "--retries=0", "--timeout=10", "-d", "x"]
    for name, rest in build_stage():
        if name == "COPY":
            *sources, target = rest.split()
            for source in sources:
                copy(ROOT / source, empty_directory / target)
            user.own()
        elif name == "RUN":
            command = rest.replace("/opt/syncd", str(home)).replace("python -m", f"{user.python} -m")
            if " install " in command:
                reaching[0] = f"{home}/bin/python"
                if user.run(*reaching, "hatchling").returncode != 0:
                    pytest.skip("pip reaches no index, and the image is installed from one")
            done = user.run("sh", "-ec", command)
            assert done.returncode == 0, f"{command}\n{done.stderr[-2000:]}"
    (empty_directory / "syncd.yaml").write_text("{clusters: [{name: c}], resources: [pods]}")
    # Away from the sources: what runs is what was installed, its migrations included.
    for name in ("syncd", "migrations"):
        shutil.rmtree(empty_directory / name)
    version = user.run(f"{home}/bin/syncd", "--version")
    assert version.stdout.startswith("syncd "), version.stderr
    migrated = user.run(f"{home}/bin/syncd", "migrate", "-c", "syncd.yaml")
    assert "schema at" in migrated.stdout, migrated.stderr
    assert (empty_directory / "syncd.db").stat().st_uid == (NOBODY if os.geteuid() == 0 else os.geteuid())
    assert user.run(f"{home}/bin/python", "-m", "pip", "check").returncode == 0


def copy(source: Path, target: Path) -> None:
    """As COPY does: a file into the directory, a directory's content into it."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def test_the_image_asks_for_a_python_that_syncd_supports() -> None:
    [default] = [rest for name, rest in instructions() if name == "ARG"]
    major, minor = default.removeprefix("PYTHON=").split(".")
    assert (int(major), int(minor)) >= (3, 11)
    assert all(rest.startswith("python:${PYTHON}-slim") for name, rest in instructions() if name == "FROM")


def test_what_the_image_copies_is_not_ignored() -> None:
    ignored = (DEPLOY / "container/Dockerfile.dockerignore").read_text().split()
    copied = [source for name, rest in build_stage() if name == "COPY" for source in rest.split()[:-1]]
    assert ignored[0] == "*"
    assert {f"!{source}" for source in copied} == {line for line in ignored if line.startswith("!")}
    assert all((ROOT / source).exists() for source in copied)


def test_the_image_runs_as_a_user_without_privileges_on_one_volume() -> None:
    last = dict(instructions())
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last["USER"])
    assert last["VOLUME"] == "/var/lib/syncd"
    assert json.loads(last["ENTRYPOINT"]) == ["syncd"]
    assert json.loads(last["CMD"]) == ["run"]


@pytest.mark.parametrize(("alive", "code"), [(True, 0), (False, 1)])
async def test_the_images_health_is_livez(alive: bool, code: int) -> None:
    [check] = [rest for name, rest in instructions() if name == "HEALTHCHECK"]
    python, *arguments = json.loads(check[check.index("[") :])
    assert python == "python"
    probes = Probes(lambda: alive, lambda strict: Readiness(False), dict, lambda: (b"", "text/plain"))
    async with serving(("127.0.0.1", 0), probes) as (_, port):
        assert await healthy(arguments, port) == code
    assert await healthy(arguments, port) != 0


async def healthy(arguments: list[str], port: int) -> int:
    command = [argument.replace("8090", str(port)) for argument in arguments]
    child = await asyncio.create_subprocess_exec(sys.executable, *command, stderr=asyncio.subprocess.DEVNULL)
    return await child.wait()


# --- Kubernetes ---------------------------------------------------------------------------------------


def manifests() -> list[dict[str, Any]]:
    """Those of the base as they are written, before kustomize."""
    found: list[dict[str, Any]] = []
    for name in yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]:
        found += yaml.safe_load_all((BASE / name).read_text())
    return found


def rendered(directory: Path) -> list[dict[str, Any]]:
    done = run(tool("kubectl", "kubectl"), "kustomize", directory)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def only(found: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    [one] = [each for each in found if each["kind"] == kind]
    return one


def validate(found: list[dict[str, Any]]) -> None:
    for each in found:
        assert kubernetes_validate.validate(each, "1.37", strict=True) == "1.37"


def base_config() -> Config:
    return loads((BASE / "syncd.yaml").read_text(), Path("/etc/syncd/syncd.yaml"), {"HOME": "/var/lib/syncd"})


def test_the_manifests_are_kubernetes() -> None:
    found = manifests()
    validate(found)
    assert {"Deployment", "Service", "NetworkPolicy", "PersistentVolumeClaim"} <= {
        one["kind"] for one in found
    }


def test_the_validation_refuses_a_key_that_there_is_not() -> None:
    broken = only(manifests(), "Deployment")
    broken["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenesProbe"):
        validate([broken])


def test_the_account_is_what_syncd_rbac_says_of_the_configuration() -> None:
    command = ("rbac", "--offline", "--no-create-namespace", "-c", BASE / "syncd.yaml")
    said = run(sys.executable, "-m", "syncd", *command)
    assert (BASE / "rbac.yaml").read_text() == said.stdout, said.stderr


@pytest.mark.kubectl
@pytest.mark.parametrize("directory", [BASE, POSTGRESQL], ids=["base", "postgresql"])
def test_what_kustomize_makes_is_kubernetes(directory: Path) -> None:
    found = rendered(directory)
    validate(found)
    cluster_wide = {"Namespace", "ClusterRole", "ClusterRoleBinding"}
    assert {one["metadata"].get("namespace") for one in found if one["kind"] not in cluster_wide} == {"syncd"}
    pod = only(found, "Deployment")["spec"]["template"]["spec"]
    configured = only(found, "ConfigMap")
    assert configured["metadata"]["name"] in [
        volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume
    ]
    assert configured["data"]["syncd.yaml"] == (BASE / "syncd.yaml").read_text()


@pytest.mark.kubectl
def test_the_overlay_takes_the_url_from_a_secret_and_needs_no_volume() -> None:
    found = rendered(POSTGRESQL)
    pod = only(found, "Deployment")["spec"]["template"]["spec"]
    [variable] = pod["containers"][0]["env"]
    assert variable["name"] == "SYNCD_DATABASE_URL"
    assert variable["valueFrom"] == {"secretKeyRef": {"name": "syncd-database", "key": "url"}}
    assert not [one for one in found if one["kind"] in ("PersistentVolumeClaim", "Secret")]
    assert not [volume for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
    ports = [
        port["port"] for rule in only(found, "NetworkPolicy")["spec"]["egress"] for port in rule["ports"]
    ]
    assert ports == [53, 53, 443, 6443, 5432]


def test_the_pod_is_restricted() -> None:
    """What the `restricted` level of Pod Security asks for, and a root that is read-only."""
    pod = only(manifests(), "Deployment")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    user = dict(instructions())["USER"].split(":")
    assert [pod["securityContext"][key] for key in ("runAsUser", "runAsGroup")] == [
        int(each) for each in user
    ]
    # A Service named syncd would set SYNCD_PORT and others beside the variables that syncd reads.
    assert pod["enableServiceLinks"] is False


def test_the_pods_parts_fit_each_other() -> None:
    found, config = manifests(), base_config()
    deployment = only(found, "Deployment")["spec"]
    pod = deployment["template"]["spec"]
    [container] = pod["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert set(mounts.values()) == {volume["name"] for volume in pod["volumes"]}
    assert container["args"] == ["run", "--config", "/etc/syncd/syncd.yaml"]
    assert mounts["/etc/syncd"] == "config"
    assert config.database.url.get_secret_value() == "sqlite:////var/lib/syncd/syncd.db"
    assert mounts[dict(instructions())["VOLUME"]] == "data"
    assert config.server.address == ("0.0.0.0", container["ports"][0]["containerPort"])
    # One daemon owns the database, in any order of things.
    assert deployment["replicas"] == 1
    assert deployment["strategy"] == {"type": "Recreate"}
    labels = deployment["template"]["metadata"]["labels"]
    for selector in (
        deployment["selector"]["matchLabels"],
        only(found, "Service")["spec"]["selector"],
        only(found, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()


def test_the_probes_are_paths_that_are_served() -> None:
    [container] = only(manifests(), "Deployment")["spec"]["template"]["spec"]["containers"]
    probes = Probes(lambda: True, lambda strict: Readiness(True), dict, lambda: (b"", ""))
    served = {getattr(route, "path", "") for route in application(probes).routes}
    asked = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {probe["path"] for probe in asked.values()} <= served
    assert asked["liveness"]["path"] == "/livez"
    assert asked["readiness"]["path"] == "/readyz"
    # As long as the unit's TimeoutStartSec: until the database has answered, nothing is served.
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 15 * 60


# --- Prometheus and Grafana ---------------------------------------------------------------------------


class Exposed:
    """The names and labels that `/metrics` knows, as queries may use them."""

    TARGET = frozenset({"job", "instance"})

    def __init__(self) -> None:
        metrics = Metrics()
        self.labels: dict[str, frozenset[str]] = {"up": self.TARGET}
        of_process = {
            f"process_{name}" for name in ("resident_memory_bytes", "cpu_seconds_total", "open_fds")
        }
        if sys.platform == "linux":  # elsewhere the library exposes none
            assert of_process <= set(re.findall(r"^process_\w+", metrics.render()[0].decode(), re.MULTILINE))
        self.labels |= dict.fromkeys(of_process, self.TARGET)
        for each in metrics.declared:
            own = self.TARGET | set(each.labels)
            if each.type == "histogram":
                suffixes = {"_bucket": own | {"le"}, "_sum": own, "_count": own}
                self.labels |= {each.name + suffix: found for suffix, found in suffixes.items()}
            else:
                self.labels[each.name] = own

    def check(self, query: str, shown: str = "") -> set[str]:
        """The metrics of a query; fails where a metric or a label is not there."""
        used = re.findall(r"\b((?:syncd_|process_)\w+|up)\b(?:\{([^}]*)\})?", query)
        assert used, f"no metric in {query}"
        known: set[str] = set()
        for name, matchers in used:
            assert name in self.labels, f"{name} in {query}"
            asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
            assert asked <= self.labels[name], f"{asked - self.labels[name]} of {name} in {query}"
            known |= self.labels[name]
        groups = re.findall(r"\bby \(([^)]*)\)", query)
        for label in (label.strip() for group in groups for label in group.split(",")):
            assert label in known, f"{label} in {query}"
        left = {label.strip() for group in groups for label in group.split(",")} if groups else known
        for label in re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", shown):
            assert label in left, f"{label} in {shown}, of {query}"
        return {name for name, _ in used}


@pytest.fixture(scope="module")
def exposed() -> Exposed:
    return Exposed()


RULES = DEPLOY / "prometheus/rules.yaml"


def alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


@pytest.mark.parametrize("name", alerts())
def test_an_alert_asks_for_metrics_that_there_are(name: str, exposed: Exposed) -> None:
    rule = alerts()[name]
    annotations = rule["annotations"]
    exposed.check(rule["expr"], " ".join(annotations.values()).replace("$value", ""))
    assert set(annotations) == {"summary", "description", "runbook"}
    assert "\n" not in annotations["runbook"]
    assert rule["labels"]["severity"] in ("warning", "critical")


def test_what_must_not_happen_unseen_has_an_alert() -> None:
    assert set(alerts()) == {
        "SyncdDown",
        "SyncdDatabaseAway",
        "SyncdStreamStale",
        "SyncdStreamLags",
        "SyncdRelistStorm",
        "SyncdNotAllMirrored",
        "SyncdDriftFound",
        "SyncdQuarantineNotEmpty",
        "SyncdConfigInvalid",
    }


def test_prometheus_takes_the_rules_and_they_fire() -> None:
    promtool = tool("promtool", "prometheus")
    checked = run(promtool, "check", "rules", RULES)
    assert checked.returncode == 0, checked.stderr
    tested = run(promtool, "test", "rules", RULES.with_name("rules_test.yaml"))
    assert tested.returncode == 0, tested.stderr


def panels() -> list[dict[str, Any]]:
    dashboard = json.loads((DEPLOY / "grafana/syncd.json").read_text())
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_asks_for_metrics_that_there_are(panel: dict[str, Any], exposed: Exposed) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        exposed.check(target["expr"], target["legendFormat"])


def test_the_dashboard_shows_every_metric(exposed: Exposed) -> None:
    used = {
        name
        for panel in panels()
        for target in panel["targets"]
        for name in exposed.check(target["expr"], target["legendFormat"])
    }
    stems = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    assert {each.name for each in Metrics().declared} - stems == set()


def test_the_dashboards_variables_are_labels(exposed: Exposed) -> None:
    dashboard = json.loads((DEPLOY / "grafana/syncd.json").read_text())
    queries = [each for each in dashboard["templating"]["list"] if each["type"] == "query"]
    assert {each["name"] for each in queries} == {"job", "cluster", "resource"}
    for each in queries:
        match = re.fullmatch(r"label_values\((.+), (\w+)\)", each["definition"])
        assert match is not None
        [metric] = exposed.check(match[1])
        assert match[2] in exposed.labels[metric]
    placed = [tuple(panel["gridPos"][key] for key in "xy") for panel in dashboard["panels"]]
    assert len(set(placed)) == len(placed)


def test_prometheus_can_read_every_query_of_the_dashboard(tmp_path: Path) -> None:
    promtool = tool("promtool", "prometheus")
    queries = [target["expr"] for panel in panels() for target in panel["targets"]]
    rules = [
        {"record": f"panel:{i}", "expr": query.replace("$__rate_interval", "5m")}
        for i, query in enumerate(queries)
    ]
    path = tmp_path / "dashboard.yaml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = run(promtool, "check", "rules", path)
    assert checked.returncode == 0, checked.stderr


# --- what is said of the project ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SECURITY.md", "CONTRIBUTING.md"])
def test_what_a_page_names_is_there(name: str) -> None:
    page = (ROOT / name).read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z][a-z-]+)", page, re.MULTILINE)) <= targets
    tops = {path.name for path in ROOT.iterdir()}
    paths = [word for span in re.findall(r"`([^`\n]+)`", page) for word in span.split()]
    named = {word for word in paths if word.split("/")[0] in tops and not word.startswith(".")}
    assert {word for word in named if not (ROOT / word).exists()} == set()
    for command in re.findall(r"`syncd ([a-z]+)", page):
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0, command


def test_a_contributor_reads_of_every_target_and_room() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {target for target in targets if f"| `make {target}` |" not in page} == {"help"}
    rooms = {path.name for path in (ROOT / "syncd").iterdir() if not path.name.startswith("__")}
    assert {room for room in rooms if f"`syncd/{room}`" not in page} == set()
