"""The configuration file: what it means, and what is said of its faults."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from syncd.config import MINIMAL, Config, find, json_schema, load
from syncd.config.file import loads
from syncd.core.errors import ConfigError
from syncd.core.selection import Selection

ROOT = Path(__file__).parents[2]
HOME = {"HOME": "/home/me"}


def read(text: str, environ: Mapping[str, str] = HOME, path: str = "/etc/syncd/syncd.yaml") -> Config:
    return loads(text, Path(path), environ)


def with_cluster(text: str = "", resources: str = "[pods]") -> str:
    return f"clusters: [{{name: prod}}]\nresources: {resources}\n{text}\n"


def refusal(text: str, environ: Mapping[str, str] = HOME) -> str:
    with pytest.raises(ConfigError) as error:
        read(text, environ)
    return str(error.value)


# --- what it means --------------------------------------------------------------------------------


def test_the_minimal_file_has_every_default() -> None:
    config = read(MINIMAL)
    assert config.database.url.get_secret_value() == "sqlite:////etc/syncd/syncd.db"
    assert config.database.schema_name == "public"
    assert config.server.address == ("127.0.0.1", 8090)
    assert config.deleted_objects.keep == timedelta(days=7)
    assert (config.limits.concurrent_snapshots, config.limits.deletion_share) == (4, 0.5)
    (cluster,) = config.clusters
    assert config.selections(cluster) == [Selection("pods")]
    schedule = config.schedule(cluster)
    assert (schedule.interval, schedule.spread, schedule.deep) == (timedelta(hours=1), 0.2, False)


def test_entries_become_selections_with_their_places() -> None:
    config = read(
        with_cluster(resources="[pods, {name: secrets, namespaces: [a, b], redact: none, page_size: 7}]")
    )
    plain, open_ = config.selections(config.clusters[0])
    assert plain.where == "resources[0]"
    assert open_ == Selection("secrets", ("a", "b"), page_size=7, redact=False)


def test_how_a_stream_begins_and_whether_it_is_polled() -> None:
    entries = (
        "[pods, {name: nodes, initial: list}, {name: cm, mode: poll, every: 90s}, {name: cs, mode: poll}]"
    )
    config = read(with_cluster("initial: auto", resources=entries))
    found = [(each.initial, each.poll) for each in config.selections(config.clusters[0])]
    assert found == [("auto", None), ("list", None), ("auto", 90.0), ("auto", 300.0)]
    assert "`mode: poll` alone" in refusal(with_cluster(resources="[{name: pods, every: 5m}]"))
    polled = "[{name: pods, mode: poll, initial: watchlist}]"
    assert "always lists" in refusal(with_cluster(resources=polled))


def test_a_cluster_may_have_its_own() -> None:
    config = read(
        "clusters: [{name: a, resources: [nodes], exclude: [], reconcile: {every: 5m}}, {name: b}]\n"
        "resources: [pods]\nexclude: [leases]\nreconcile: {enabled: false}"
    )
    own, common = config.clusters
    assert [entry.name for entry in config.selections(own)] == ["nodes"]
    assert config.selections(own)[0].where == "clusters[0].resources[0]"
    assert (config.excluded(own), config.excluded(common)) == ((), ("leases",))
    assert config.schedule(own).interval == timedelta(minutes=5)
    assert config.schedule(common).interval is None


def test_a_section_that_is_all_comments_is_absent() -> None:
    assert read(with_cluster("exclude:\nserver:\n")).server.address == ("127.0.0.1", 8090)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("90s", timedelta(seconds=90)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        ("2w", timedelta(days=14)),
    ],
)
def test_durations(given: str, meant: timedelta) -> None:
    text = with_cluster(f"reconcile: {{every: {given}}}")
    if meant < timedelta(seconds=1):
        assert "must be at least 1s" in refusal(text)
    else:
        assert read(text).reconcile.every == meant


@pytest.mark.parametrize("given", ["5", "1.5", "''", "1x", "-1h", "1h 30m", "٣h", "99999999999999999w", "[]"])
def test_what_is_no_duration(given: str) -> None:
    assert "line 3: reconcile.every" in refusal(with_cluster(f"reconcile: {{every: {given}}}"))


@pytest.mark.parametrize(("given", "meant"), [("20%", 0.2), ("0.3", 0.3), ("0", 0.0), ("100%", 1.0)])
def test_shares(given: str, meant: float) -> None:
    assert read(with_cluster(f"limits: {{deletion_share: {given}}}")).limits.deletion_share == meant


@pytest.mark.parametrize("given", ["120%", "-1", "2", "true", "half", ".nan"])
def test_what_is_no_share(given: str) -> None:
    assert "like 20%" in refusal(with_cluster(f"limits: {{deletion_share: {given}}}"))


@pytest.mark.parametrize(("given", "meant"), [("64MiB", 2**26), ("2000000", 2_000_000), ("5MB", 5_000_000)])
def test_sizes(given: str, meant: int) -> None:
    assert read(with_cluster(f"limits: {{queue_bytes: {given}}}")).limits.queue_bytes == meant


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]:80", ("::1", 80)),
        (":80", ("0.0.0.0", 80)),
        ("localhost:0", ("localhost", 0)),
        ("", None),
    ],
)
def test_addresses(given: str, meant: tuple[str, int] | None) -> None:
    assert read(with_cluster(f'server: {{listen: "{given}"}}')).server.address == meant
    assert read(with_cluster("server: {listen: null}")).server.address is None


@pytest.mark.parametrize("given", ["'8090'", "8090", "localhost", "'::1:80'", "'h:99999'", "'h:x'"])
def test_what_is_no_address(given: str) -> None:
    assert "line 3: server.listen" in refusal(with_cluster(f"server: {{listen: {given}}}"))


# --- paths and references -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("sqlite:///x.db", "sqlite:////etc/syncd/x.db"),
        ("sqlite:////var/x.db", "sqlite:////var/x.db"),
        ("sqlite:///~/x.db?timeout=5", "sqlite:////home/me/x.db?timeout=5"),
        ("sqlite+aiosqlite:///x.db", "sqlite:////etc/syncd/x.db"),
        ("postgres://u@h/d", "postgresql://u@h/d"),
        ("postgresql+psycopg://u@h/d", "postgresql://u@h/d"),
        ("postgresql:///d?host=/run/pg", "postgresql:///d?host=/run/pg"),
    ],
)
def test_database_urls(given: str, meant: str) -> None:
    assert read(with_cluster(f'database: {{url: "{given}"}}')).database.url.get_secret_value() == meant


@pytest.mark.parametrize("given", ["mysql://u:hunter2@h/d", "hunter2", "sqlite://", "sqlite:///:memory:"])
def test_what_is_no_database_url_is_refused_without_repeating_it(given: str) -> None:
    message = refusal(with_cluster(f'database: {{url: "{given}"}}'))
    assert "database.url must" in message
    assert "hunter2" not in message


def test_the_environment_overrides_the_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    text = with_cluster('database: {url: "mysql://", schema: k8s}')
    config = read(text, {"SYNCD_DATABASE_URL": "sqlite:///here.db"})
    assert config.database.url.get_secret_value() == f"sqlite:///{tmp_path}/here.db"
    assert config.database.schema_name == "k8s"
    assert "SYNCD_DATABASE_URL must be" in refusal(with_cluster(), {"SYNCD_DATABASE_URL": "nonsense"})


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hunter2@h/d",
        "postgresql://u:hunt/er@hunter2@h/d",
        "postgresql://h/d?user=u&password=hunter2",
    ],
)
def test_a_password_is_shown_nowhere(url: str) -> None:
    config = read(with_cluster(f'database: {{url: "{url}"}}'))
    for shown in (repr(config), str(config), config.database.shown, config.model_dump_json()):
        assert "hunter2" not in shown
    assert config.database.url.get_secret_value() == url
    assert "postgresql://" in config.database.shown


def test_kubeconfigs_are_relative_to_the_file() -> None:
    config = read("clusters: [{name: a, kubeconfig: k/c}, {name: b, kubeconfig: ~/k}]\nresources: [pods]")
    assert [cluster.kubeconfig for cluster in config.clusters] == [
        Path("/etc/syncd/k/c"),
        Path("/home/me/k"),
    ]


def test_what_a_log_in_may_run() -> None:
    clusters = "clusters: [{name: a}, {name: b, exec_allowed: []}, {name: c, exec_allowed: [./bin/x]}]"
    config = read(f"{clusters}\nexec_allowed: [aws, /opt/gke, ~/bin/kubelogin]\nresources: [pods]")
    said = [config.commands(cluster) for cluster in config.clusters]
    assert said == [("aws", "/opt/gke", "/home/me/bin/kubelogin"), (), ("/etc/syncd/bin/x",)]
    anything = read(MINIMAL)
    assert anything.commands(anything.clusters[0]) is None


def test_references(tmp_path: Path) -> None:
    (tmp_path / "name").write_text("from-file\n")
    text = (
        'clusters: [{name: "${file:name}", labels: {a: "${A}-${B}", b: "$${A} $A ${EMPTY}"}}]\n'
        "resources: [pods]"
    )
    environ = {"A": "1", "B": "2", "EMPTY": ""}
    (cluster,) = read(text, environ, str(tmp_path / "syncd.yaml")).clusters
    assert cluster.name == "from-file"
    assert cluster.labels == {"a": "1-2", "b": "${A} $A "}


def test_a_reference_may_stand_for_a_number() -> None:
    config = read(with_cluster(resources="[{name: pods, page_size: '${N}'}]"), {"N": "9"})
    assert config.resources[0].page_size == 9


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("${NOPE}", "needs the environment variable NOPE, which is not set"),
        ("${a b}", "names no variable"),
        ("${}", "names no variable"),
        ("${A", "without its }"),
        ("${file:nope}", "needs /etc/syncd/nope, which cannot be read: No such file"),
    ],
)
def test_a_reference_that_leads_nowhere(reference: str, said: str) -> None:
    message = refusal(with_cluster(resources=f'["{reference}"]'))
    assert message.startswith("/etc/syncd/syncd.yaml: line 2: resources[0] ")
    assert said in message


def test_a_value_from_outside_is_not_repeated() -> None:
    message = refusal('clusters: [{name: "${TOKEN}"}]\nresources: [pods]', {"TOKEN": "hunter2 hunter2"})
    assert "clusters[0].name" in message
    assert "hunter2" not in message


# --- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cluster: []", "did you mean `clusters`?"),
        ("clusters: [{nme: a}]", "clusters[0].nme is no key of syncd's; did you mean `name`?"),
        ("database: {shema: a}", "did you mean `schema`?"),
        ("log: {qqqqqq: a}", "here it knows format, level"),
        ("resources: [{name: pods, namespace: [a]}]", "did you mean `namespaces`?"),
        ("clusters: [{name: a, labels: {on: off}}]", "must be text, not a boolean; put it in quotes"),
        ("clusters: [{name: 'a b'}]", "clusters[0].name ('a b') does not match"),
        ("clusters: []", "clusters must not be empty"),
        ("clusters: [{name: a}, {name: a}]", "clusters has the name a twice"),
        ("clusters: [{name: a}]", "nothing is selected for a"),
        ("resources: [{namespaces: [a]}]", "resources[0].name is missing"),
        ("resources: pods", "resources must be a list"),
        ("resources: [{name: pods, namespaces: a}]", "namespaces must be a list"),
        ("resources: [5]", "must be a name or a mapping of keys, not a number"),
        ("resources: [pods, {name: Pods, namespaces: [a]}]", 'entries 0 and 1 (counted from 0) both select'),
        ("resources: [{name: pods, page_size: 10001}]", "page_size must be at most 10000"),
        ("resources: [{name: pods, redact: all}]", "must be one of"),
        ("resources: [{name: '*', redact: none}]", "resources[0] `redact: none` must name secrets"),
        ("reconcile: {every: 1h, cron: '* * * * *'}", "not both"),
        ("reconcile: {cron: '* * * * *', jitter: 5%}", "`jitter` with `every` alone"),
        ("reconcile: {cron: '* * *'}", "five fields"),
        ("exec_allowed: aws", "exec_allowed must be a list"),
        ("exec_allowed: [' ']", "exec_allowed[0] must name a command"),
        ("database: {schema: pg_x}", "must not begin with pg_"),
        ("log: {level: off}", "log.level"),
        ("log: {}\nlog: {}", "line 2: log is given twice"),
        ("", "is empty"),
        ("- a", "must be a mapping"),
        ("a: [", "line 1: is not YAML"),
        ("a: !!python/object:os.system x", "is not YAML"),
        ("a: 2026-13-45", "put it in quotes"),
        ("a: \x00", "is not YAML"),
        ("a: &a [*a]", "an alias that holds itself"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("clusters: ~\n1: 2", "clusters is missing"),
        ("servr:", "servr is no key of syncd's; did you mean `server`?"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_fault(text: str, said: str) -> None:
    message = refusal(text)
    assert message.startswith("/etc/syncd/syncd.yaml: ")
    assert said in message


def test_a_few_lines_of_aliases_are_not_a_flood() -> None:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert "too many values" in refusal("\n".join(lines))


def test_anchors_and_merges_work() -> None:
    config = read(
        "clusters: [{name: a, reconcile: &r {every: 5m}}, {name: b, reconcile: {<<: *r, compare: content}}]\n"
        "resources: [pods]"
    )
    assert config.schedule(config.clusters[1]).deep
    assert config.schedule(config.clusters[1]).every == timedelta(minutes=5)


def test_all_faults_are_said_at_once_in_the_order_of_the_file() -> None:
    message = refusal('clusters:\n- name: "a b"\n  contxt: x\nresources:\n- ${NOPE}\nlog: {format: x}')
    assert [line.split(" ")[3] for line in message.splitlines()[1:]] == ["2:", "3:", "5:", "6:"]
    assert message.splitlines()[0] == "/etc/syncd/syncd.yaml: 4 problems"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, {})
    (tmp_path / "x.yaml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load(tmp_path / "x.yaml", {})


def test_the_usual_places(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path / "home")}
    with pytest.raises(ConfigError, match=r"(?s)write ./syncd.yaml.*clusters:"):
        find(None, home, tmp_path)
    theirs = tmp_path / "home/.config/syncd/syncd.yaml"
    theirs.parent.mkdir(parents=True)
    theirs.write_text(MINIMAL)
    assert find(None, home, tmp_path) == theirs
    here = tmp_path / "syncd.yaml"
    here.write_text(MINIMAL)
    assert find(None, home, tmp_path) == here
    named = tmp_path / "named.yaml"
    with pytest.raises(ConfigError, match=r"named by \$SYNCD_CONFIG"):
        find(None, {**home, "SYNCD_CONFIG": str(named)}, tmp_path)
    named.write_text(MINIMAL)
    assert find(None, {**home, "SYNCD_CONFIG": "named.yaml"}, tmp_path) == named
    assert find(Path("syncd.yaml"), {"SYNCD_CONFIG": str(named)}, tmp_path) == here
    with pytest.raises(ConfigError, match="is no file"):
        find(tmp_path, home, tmp_path)
    with pytest.raises(ConfigError, match="file name too long"):
        find(tmp_path / ("x" * 300), home, tmp_path)
    with pytest.raises(ConfigError, match="no such file"):
        find(Path("nope.yaml"), home, tmp_path)


# --- any text at all ------------------------------------------------------------------------------


def models(model: type[BaseModel] = Config) -> Iterator[tuple[type[BaseModel], str, Any]]:
    """Every (model, key, annotation) of the configuration."""
    for name, field in model.model_fields.items():
        yield model, field.alias or name, field.annotation
        yield from _inner(field.annotation)


def _inner(annotation: Any) -> Iterator[tuple[type[BaseModel], str, Any]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from models(annotation)
    for part in get_args(annotation):
        yield from _inner(part)


_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.dates(),
    st.sampled_from(["*", "pods", "1h", "20%", "${HOME}", "${X}", "$${", "sqlite:///x", "0 3 * * *", "x:1"]),
)  # fmt: skip
_KEYS = st.sampled_from([*sorted({key for _, key, _ in models()}), "x", "<<"])
_DATA = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.dictionaries(_KEYS, _DATA).map(yaml.safe_dump)))
def test_any_text_is_a_configuration_or_an_error_of_ours(text: str) -> None:
    try:
        said = read(text).clusters[0].name
    except ConfigError as error:
        said = str(error)
    assert said.encode()


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="&*!|>%@`{}[]:,#-?'\"\\<=.0123456789eExX_~nul\n \t", max_size=60))
def test_no_line_noise_gets_through_the_parser(text: str) -> None:
    with pytest.raises(ConfigError):
        read(text)


# --- the schema, the documentation and the examples -----------------------------------------------


def test_every_enumerated_value_survives_yaml_unquoted() -> None:
    words = [word for _, _, kind in models() if get_origin(kind) is Literal for word in get_args(kind)]
    assert {"none", "console", "content", "debug"} <= set(words)
    assert yaml.safe_load("\n".join(f"- {word}" for word in words)) == words


def test_every_key_is_documented_in_its_section() -> None:
    sections = dict(
        part.split("\n", 1) for part in (ROOT / "docs/configuration.md").read_text().split("\n## ")[1:]
    )
    titles = {
        "ResourceEntry": "resources",
        "Cluster": "clusters",
        "DeletedObjects": "deleted_objects",
        "Sink": "sinks",
        "Webhook": "sinks",
    }
    for model, key, _ in models():
        if model is Config:
            assert key in sections
        else:
            section = sections[titles.get(model.__name__, model.__name__.lower())]
            assert f"| `{key}` |" in section, f"{model.__name__}.{key}"


def _examples() -> list[str]:
    blocks = (ROOT / "docs/configuration.md").read_text().split("```yaml\n")[1:]
    return [block.split("```")[0] for block in blocks]


@pytest.mark.parametrize("text", _examples())
def test_every_block_of_the_documentation_loads(text: str, tmp_path: Path) -> None:
    (tmp_path / "db-password").write_text("hunter2\n")
    assert read(text.replace("/run/secrets/", f"{tmp_path}/")).clusters


@pytest.mark.parametrize("path", sorted((ROOT / "config").glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_loads(path: Path) -> None:
    config = load(path, HOME)
    assert all(config.selections(cluster) for cluster in config.clusters)


def test_the_schema_knows_every_key() -> None:
    schema = json.dumps(json_schema())
    assert all(f'"{key}"' in schema for _, key, _ in models())
    assert "**" not in schema
