"""Kubeconfig files: which are read, how they merge, and what is refused."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncd.core.errors import ConfigError
from syncd.kube.auth import Basic, ClientCertificate, Credentials, Exec, Token, TokenFile
from syncd.kube.connection import Connection, Impersonation
from syncd.kube.kubeconfig import load_connection

CA = base64.b64encode(b"authority").decode()

BOMB = "a0: &a0 [s3cret]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
"""A hundred million values."""


def config(
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    name: str = "prod",
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}.example:6443", **(cluster or {})}}
        ],
        "users": [{"name": name, "user": {"token": f"{name}-token"} if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **(context or {})}}],
    }


GROUP = "client.authentication.k8s.io"


def plugin(**changes: Any) -> dict[str, Any]:
    """A user entry with an exec plugin; None takes a key away."""
    entry = {"apiVersion": f"{GROUP}/v1", "interactiveMode": "Never", "command": "aws", "args": ["s3cret"]}
    return {"exec": {key: value for key, value in {**entry, **changes}.items() if value is not None}}


def write(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def load(home: Path, document: object, context: str | None = None, **environ: str) -> Connection:
    path = write(home / "some" / "config", document)
    return load_connection(str(path), context, environ=environ, home=home)


def load_list(home: Path, *paths: Path, context: str | None = None) -> Connection:
    listed = ":".join(map(str, paths))
    return load_connection(None, context, environ={"KUBECONFIG": listed}, home=home)


# --- which files ------------------------------------------------------------------------------------


def test_an_explicit_path_wins_and_must_exist(home: Path, tmp_path: Path) -> None:
    write(home / ".kube" / "config", config(name="home"))
    listed = write(tmp_path / "listed", config(name="listed"))
    explicit = write(tmp_path / "explicit", config(name="explicit"))
    environ = {"KUBECONFIG": str(listed)}
    assert load_connection(str(explicit), None, environ=environ, home=home).name == "explicit"
    assert load_connection(None, None, environ=environ, home=home).name == "listed"
    assert load_connection(None, None, environ={"KUBECONFIG": ""}, home=home).name == "home"
    assert load_connection("~/.kube/config", None, environ={}, home=home).name == "home"
    with pytest.raises(ConfigError, match="nowhere: there is no such kubeconfig"):
        load_connection(str(tmp_path / "nowhere"), None, environ=environ, home=home)


def test_an_explicit_file_without_contexts_is_never_taken_for_a_pod(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"no context in it: is it a kubeconfig\?"):
        load(home, None, KUBERNETES_SERVICE_HOST="10.0.0.1", KUBERNETES_SERVICE_PORT="443")


def test_the_first_file_wins_whole_entries_and_missing_files_are_skipped(home: Path, tmp_path: Path) -> None:
    first = config(name="a")
    del first["current-context"]
    one = write(tmp_path / "one" / "config", first)
    second = config({"server": "https://other.example", "tls-server-name": "x"}, name="a")
    second["clusters"] += config({"certificate-authority": "ca.crt"}, name="b")["clusters"]
    second["contexts"].append({"name": "b", "context": {"cluster": "b", "user": "a"}})
    second["current-context"] = "b"
    two = write(tmp_path / "two" / "config", second)
    third = write(tmp_path / "three", config(name="c"))
    paths = (one, tmp_path / "missing", two, one, third)

    b = load_list(home, *paths)
    assert (b.name, b.server) == ("b", "https://b.example:6443")
    assert b.ca_file == tmp_path / "two" / "ca.crt", "relative to the file that says so"
    assert b.credentials == Credentials(Token("a-token"))
    assert b.origin == str(two)
    a = load_list(home, *paths, context="a")
    assert (a.server, a.tls_server_name) == ("https://a.example:6443", "")
    assert load_list(home, *paths, context="c").name == "c"


def test_in_a_pod_the_service_account_is_used(home: Path, tmp_path: Path) -> None:
    account = tmp_path / "account"
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        load_connection(None, None, environ=environ, home=home, service_account=account)
    account.mkdir()
    (account / "token").write_text("t")
    (account / "ca.crt").write_text("pem")
    (account / "namespace").write_text("shop\n")
    found = load_connection(None, None, environ=environ, home=home, service_account=account)
    assert found == Connection(
        "in-cluster",
        "https://[fd00::1]:443",
        ca_file=account / "ca.crt",
        credentials=Credentials(TokenFile(account / "token")),
        namespace="shop",
        origin=str(account),
    )
    with pytest.raises(ConfigError, match=f"{account}: in-cluster: a socks5 proxy"):
        load_connection(
            None,
            None,
            environ={**environ, "HTTPS_PROXY": "socks5://a:1"},
            home=home,
            service_account=account,
        )
    with pytest.raises(ConfigError, match="no context 'prod'"):
        load_connection(None, "prod", environ=environ, home=home, service_account=account)


def test_nothing_at_all_says_what_to_do(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"home/\.kube/config.*set `kubeconfig` or \$KUBECONFIG"):
        load_connection(None, None, environ={}, home=home)


# --- what an entry means ----------------------------------------------------------------------------


def test_a_whole_entry(home: Path) -> None:
    found = load(
        home,
        config(
            {
                "server": "https://gate.example/k8s/c-1/",
                "certificate-authority-data": CA,
                "certificate-authority": "ignored",
                "tls-server-name": "kube",
                "proxy-url": "http://user:hunter2@proxy:3128",
                "disable-compression": True,
                "extensions": [{"name": "x"}],
            },
            {
                "client-certificate-data": base64.b64encode(b"cert").decode(),
                "client-key": "keys/key.pem",
                "as": "root",
                "as-uid": "0",
                "as-groups": ["wheel"],
                "as-user-extra": {"scope": ["a"]},
            },
            {"namespace": "shop"},
        ),
    )
    assert found.server == "https://gate.example/k8s/c-1"
    assert (found.ca_data, found.ca_file) == (b"authority", None)
    assert (found.tls_server_name, found.namespace) == ("kube", "shop")
    assert found.disable_compression
    assert not found.insecure_skip_tls_verify
    assert found.credentials.certificate == ClientCertificate(b"cert", home / "some" / "keys" / "key.pem")
    assert found.impersonation == Impersonation("root", "0", ("wheel",), {"scope": ("a",)})
    assert "hunter2" in found.proxy_url
    assert "hunter2" not in repr(found)


def test_ways_to_log_in(home: Path) -> None:
    ways: list[tuple[dict[str, Any], object]] = [
        ({}, None),
        ({"token": "t"}, Token("t")),
        ({"token": "t", "exec": {"command": "ignored"}}, Token("t")),
        ({"tokenFile": "t", "token": "u"}, TokenFile(home / "some" / "t", "u")),
        ({"tokenFile": "/abs/t"}, TokenFile(Path("/abs/t"))),
        ({"username": "u", "password": "p"}, Basic("u", "p")),
    ]
    for user, login in ways:
        assert load(home, config(user=user)).credentials.login == login
    without = config()
    without["contexts"][0]["context"].pop("user")
    assert not load(home, without).credentials


@pytest.mark.parametrize(
    "login",
    [
        Token("s3cret"),
        TokenFile(Path("t"), "s3cret"),
        Basic("u", "s3cret"),
        Exec("v1", "c", ("s3cret",), (("a", "s3cret"),), cluster_config=b"s3cret"),
    ],
    ids=lambda login: type(login).__name__,
)
def test_a_repr_hides_secrets(login: Any) -> None:
    pair = ClientCertificate(b"s3cret", b"s3cret")
    connection = Connection("a", "https://a", ca_data=b"s3cret", credentials=Credentials(login, pair))
    assert "s3cret" not in repr(connection) + str(connection)


def test_a_server_without_a_scheme_is_https_where_tls_is_configured(home: Path) -> None:
    assert (
        load(home, config({"server": "a:6443", "certificate-authority-data": CA})).server == "https://a:6443"
    )
    assert load(home, config({"server": "localhost:8080"})).server == "http://localhost:8080"


def test_a_proxy_of_the_environment_where_the_entry_has_none(home: Path) -> None:
    environ = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "10.0.0.0/8"}
    assert load(home, config(), **environ).proxy_url == "http://proxy:3128"
    assert load(home, config({"proxy-url": "http://mine:1"}), **environ).proxy_url == "http://mine:1"
    assert load(home, config({"server": "https://10.1.2.3"}), **environ).proxy_url == ""


# --- exec plugins -----------------------------------------------------------------------------------


def login(home: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None, **rest: Any) -> Any:
    path = write(home / "some" / "config", config(cluster, user))
    return load_connection(str(path), None, environ={}, home=home, **rest).credentials.login


def test_a_whole_exec_entry(home: Path) -> None:
    entry = plugin(
        args=["eks", "get-token"],
        env=[{"name": "AWS_PROFILE", "value": "prod"}, {"name": "EMPTY"}],
        interactiveMode="IfAvailable",
        installHint="\x1b[31mInstall it\x1b[0m:\n\n  brew install aws",
        provideClusterInfo=True,
    )
    extensions = [{"name": "x"}, {"name": f"{GROUP}/exec", "extension": {"audience": ["a"]}}]
    assert login(home, entry, {"extensions": extensions}) == Exec(
        f"{GROUP}/v1",
        "aws",
        ("eks", "get-token"),
        (("AWS_PROFILE", "prod"), ("EMPTY", "")),
        "Install it: brew install aws",
        provide_cluster_info=True,
        cluster_config=b'{"audience":["a"]}',
    )
    assert login(home, plugin(), {"extensions": extensions}).cluster_config == b"", "not asked for"
    assert login(home, plugin(apiVersion=f"{GROUP}/v1beta1", interactiveMode=None)).command == "aws"


def test_where_an_exec_command_is(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(written: str) -> str:
        return str(login(home, plugin(command=written)).command)

    assert command("aws") == "aws", "to be looked up in $PATH"
    assert command("/opt/aws") == "/opt/aws"
    assert command("./aws") == str(home / "some" / "aws"), "beside the file, wherever we run"
    assert command("bin/aws") == str(home / "some" / "bin" / "aws")
    monkeypatch.chdir(home)
    write(home / "config", config(user=plugin(command="./aws")))
    relative = load_connection("config", None, environ={}, home=home).credentials.login
    assert isinstance(relative, Exec)
    assert relative.command == str(home / "aws")


def test_only_allowed_commands_are_run(home: Path) -> None:
    def command(written: str, *allowed: str) -> str:
        return str(login(home, plugin(command=written), exec_allowed=allowed).command)

    assert command("aws", "gke", "aws") == "aws"
    assert command("/opt/aws", "/opt/aws") == "/opt/aws"
    assert command("aws", "/opt/aws") == "/opt/aws", "and not one that comes earlier in $PATH"
    for written, *allowed in (
        ["aws"],
        ["aws", "/opt/xaws"],
        ["/tmp/aws", "aws"],
        ["./aws", "aws", "/opt/aws"],
    ):
        with pytest.raises(ConfigError, match="is not among the commands that may be run: "):
            command(written, *allowed)


def test_an_extension_that_is_no_json_is_refused(home: Path) -> None:
    path = write(home / "config", config(user=plugin(provideClusterInfo=True)))
    text = path.read_text().replace(
        "- cluster:\n",
        f"- cluster:\n    extensions:\n    - {{name: {GROUP}/exec, extension: &a {{s3cret: *a}}}}\n",
        1,
    )
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"extensions\[0\]: extension cannot be written as JSON"):
        load_connection(str(path), None, environ={}, home=home)


@pytest.mark.parametrize("other", [{"token": "t"}, {"username": "u"}, {"tokenFile": "t"}, "pair"])
def test_an_exec_plugin_stands_back_for_any_other_login(home: Path, other: Any) -> None:
    other = PAIR if other == "pair" else other
    found = load(home, config(user={**plugin(interactiveMode="Always"), **other})).credentials
    assert found
    assert not isinstance(found.login, Exec)


# --- credentials and plain http ---------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1:8001", "localhost:8001", "[::1]:8001", "127.9.9.9"])
def test_a_token_may_go_to_a_loopback_address_over_http(home: Path, host: str) -> None:
    assert load(home, config({"server": f"http://{host}"})).credentials.login == Token("prod-token")


@pytest.mark.parametrize(
    ("server", "user"),
    [
        ("http://10.0.0.1", {"token": "s3cret"}),
        ("http://localhost.example", {"token": "s3cret"}),
        ("http://10.0.0.1", {"tokenFile": "s3cret"}),
        ("http://127.0.0.1.example", {"token": "s3cret"}),
        ("http://127.0.0.1", {"username": "u", "password": "s3cret"}),
        ("http://10.0.0.1", plugin()),
        ("http://127.0.0.1", {"client-certificate": "s3cret", "client-key": "s3cret"}),
    ],
)
def test_no_other_credential_goes_over_http(home: Path, server: str, user: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="change server to https") as caught:
        load(home, config({"server": server}, user))
    assert "s3cret" not in str(caught.value)
    assert str(home / "some" / "config") in str(caught.value)
    assert load(home, config({"server": server}, {})).server == server


def test_a_token_for_a_loopback_address_does_not_pass_a_proxy(home: Path) -> None:
    with pytest.raises(ConfigError, match="change server to https"):
        load(home, config({"server": "http://127.0.0.1:8001", "proxy-url": "http://proxy:3128"}))


# --- refusals ---------------------------------------------------------------------------------------

PAIR = {"client-certificate": "c", "client-key": "k"}
REFUSED_USERS: dict[str, tuple[dict[str, Any], str]] = {
    "exec without a version": (plugin(apiVersion=None), "exec: apiVersion must be .*/v1 or .*/v1beta1"),
    "exec of a removed version": (plugin(apiVersion=f"{GROUP}/v1alpha1"), "exec: apiVersion must be"),
    "exec without a mode": (plugin(interactiveMode=None), "interactiveMode must be Never or IfAvailable"),
    "exec of an odd mode": (plugin(interactiveMode="s3cret"), "interactiveMode must be Never or IfAvailable"),
    "exec at a terminal": (plugin(interactiveMode="Always"), "a daemon has no terminal"),
    "exec at a terminal, v1beta1": (
        plugin(apiVersion=f"{GROUP}/v1beta1", interactiveMode="Always"),
        "a daemon has no terminal",
    ),
    "exec of nothing": (plugin(command=""), "exec: command is missing"),
    "exec with odd args": (plugin(args="s3cret"), "args must be a list"),
    "exec with a nameless variable": (plugin(env=[{"value": "s3cret"}]), r"env\[0\]: name is missing"),
    "exec with an odd variable": (plugin(env=[{"name": "A", "value": 5}]), r"env\[0\]: value must be text"),
    "gcp": ({"auth-provider": {"name": "gcp"}}, "gke-gcloud-auth-plugin"),
    "azure": ({"auth-provider": {"name": "azure"}}, "kubelogin"),
    "oidc": ({"auth-provider": {"name": "oidc", "config": {"x": "s3cret"}}}, "exec plugin"),
    "other provider": ({"auth-provider": {"name": "acme"}}, "'acme' is not supported"),
    "key alone": ({"client-key-data": CA}, "client-certificate is missing"),
    "certificate alone": ({"client-certificate": "x"}, "client-key is missing"),
    "two ways": ({"token": "s3cret", "username": "u", "password": "s3cret"}, "keep one way"),
    "two ways by file": ({"tokenFile": "x", "username": "u"}, "keep one way"),
    "a number": ({"token": 12345}, "token must be text"),
    "not a header": ({"token": "s3cret\ns3cret"}, "token must be printable"),
    "colon": ({"username": "a:b", "password": "s3cret"}, "colon"),
    "not base64": (
        {"client-certificate-data": "s3cret!", "client-key": "k"},
        "certificate-data is not base64",
    ),
    "groups without a user": ({**PAIR, "as-groups": ["s3cret"]}, "as-groups.* need a user"),
    "groups no list": ({**PAIR, "as": "a", "as-groups": "s3cret"}, "as-groups must be a list"),
    "extra keys": ({**PAIR, "as": "a", "as-user-extra": {1: ["a"]}}, "whose keys are texts"),
    "extra values": ({**PAIR, "as": "a", "as-user-extra": {"a": "b"}}, "a must be a list"),
    "control character": ({**PAIR, "as": "a\r\nX: y"}, "control character"),
}


@pytest.mark.parametrize(("user", "text"), REFUSED_USERS.values(), ids=REFUSED_USERS.keys())
def test_a_user_entry_is_refused(home: Path, user: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        load(home, config(user=user))
    message = str(caught.value)
    assert message.startswith(f"{home / 'some' / 'config'}: user 'prod'")
    assert "s3cret" not in message
    assert caught.value.__cause__ is None


REFUSED_CLUSTERS: dict[str, tuple[dict[str, Any], str]] = {
    "no server": ({"server": ""}, "server is missing"),
    "not a URL": ({"server": "https://[::1"}, "server"),
    "a password for a port": ({"server": "https://u:s3cret"}, "not a URL"),
    "scheme": ({"server": "ftp://a"}, "https://host:port"),
    "userinfo": ({"server": "https://u:s3cret@a"}, "user or a password"),
    "query": ({"server": "https://a/?s3cret"}, "query"),
    "insecure with an authority": (
        {"insecure-skip-tls-verify": True, "certificate-authority": "x"},
        "contradicts",
    ),
    "flag": ({"insecure-skip-tls-verify": "yes"}, "must be true or false"),
    "not base64": ({"certificate-authority-data": "%%"}, "certificate-authority-data is not base64"),
    "socks": ({"proxy-url": "socks5://u:s3cret@a:1"}, "socks5 proxy is not supported yet"),
    "proxy scheme": ({"proxy-url": "s3cret"}, "proxy-url.* must be a URL"),
    "tls name": ({"tls-server-name": "kübe"}, "xn--"),
}


@pytest.mark.parametrize(("cluster", "text"), REFUSED_CLUSTERS.values(), ids=REFUSED_CLUSTERS.keys())
def test_a_cluster_entry_is_refused(home: Path, cluster: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        load(home, config(cluster))
    message = str(caught.value)
    assert str(home / "some" / "config") in message
    assert "cluster 'prod'" in message
    assert "s3cret" not in message


def test_what_a_context_needs(home: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"no context 'x', which the configuration's `context` names; known: prod"
    ):
        load(home, config(), "x")
    with pytest.raises(ConfigError, match=r"no cluster 'gone', which context 'prod' names; known: prod"):
        load(home, config(context={"cluster": "gone"}))
    with pytest.raises(ConfigError, match="no user 'gone', which context 'prod' names"):
        load(home, config(context={"user": "gone"}))
    with pytest.raises(ConfigError, match="context 'prod': cluster is missing"):
        load(home, config(context={"cluster": None}))
    with pytest.raises(ConfigError, match=r"no current-context: .* one of: prod"):
        load(home, config() | {"current-context": ""})


def test_an_unselected_entry_may_be_odd(home: Path) -> None:
    document = config()
    document["users"].append({"name": "odd", "user": {"exec": {"command": "x"}, "token": 5}})
    document["clusters"].append({"name": "odd", "cluster": None})
    assert load(home, document).name == "prod"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("token: [s3cret", r"config, line \d+, column \d+: this is not YAML"),
        ("a: *s3cret", r"config, line \d+, column \d+: this is not YAML"),
        ("a: 2020-99-99\n#s3cret", "config: this is not YAML"),
        ("[" * 50_000, "config: this is not a kubeconfig: it is nested past 100 levels"),
        ("- " * 50_000, "config: this is not a kubeconfig: it is nested past 100 levels"),
        (BOMB, "config: this is not a kubeconfig: it has too many values"),
        ("- s3cret", "top must be a mapping"),
        ("users: s3cret", "users must be a list"),
        ("users: [s3cret]", "users must be a list of mappings"),
        ("users: [{user: {token: s3cret}}]", r"users\[0\]: name is missing"),
        ("users: [{name: a, user: s3cret}]", "user must be a mapping"),
        ("users: [{name: a}, {name: a, user: {token: s3cret}}]", "'a' is there twice"),
        ("current-context: 5", "current-context must be text"),
    ],
)
def test_a_broken_file_is_named_and_not_quoted(home: Path, text: str, problem: str) -> None:
    path = home / "config"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem) as caught:
        load_connection(str(path), None, environ={}, home=home)
    assert str(path) in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_bytes_and_directories_are_no_kubeconfig(home: Path, tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00\xd8")
    for path in (binary, tmp_path):
        with pytest.raises(ConfigError, match=str(path)):
            load_connection(str(path), None, environ={}, home=home)
