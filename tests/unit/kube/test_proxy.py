"""The environment's proxies, by the rules of Go."""

from __future__ import annotations

import pytest

from syncd.kube.proxy import environment_proxy

PROXY = {"HTTPS_PROXY": "http://secure:1", "HTTP_PROXY": "http://plain:2"}


@pytest.mark.parametrize(
    ("server", "environ", "expected"),
    [
        ("https://a", {}, ""),
        ("https://a", PROXY, "http://secure:1"),
        ("http://a", PROXY, "http://plain:2"),
        ("https://a", {"https_proxy": "lower:3"}, "http://lower:3"),
        ("https://a", {"ALL_PROXY": "http://all:4"}, ""),
        ("https://localhost", PROXY, ""),
        ("https://127.1.2.3:6443", PROXY, ""),
        ("https://[::1]:6443", PROXY, ""),
    ],
)
def test_which_variable(server: str, environ: dict[str, str], expected: str) -> None:
    assert environment_proxy(server, environ) == expected


@pytest.mark.parametrize(
    ("server", "entry", "direct"),
    [
        ("https://a.example", "*", True),
        ("https://a.example", "example", True),
        ("https://example", "example", True),
        ("https://example", ".example", False),
        ("https://a.example", " .EXAMPLE ", True),
        ("https://a.example", "*.example", True),
        ("https://an-example", "example", False),
        ("https://10.1.2.3", "x, 10.0.0.0/8", True),
        ("https://11.1.2.3", "10.0.0.0/8", False),
        ("https://a.example", "10.0.0.0/8", False),
        ("https://10.1.2.3", "nonsense/8", False),
        ("https://10.1.2.3", "10.1.2.3", True),
        ("https://10.1.2.3", "2.3", False),
        ("https://10.1.2.3:6443", "10.1.2.3:443", False),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://a", "a:443", True),
        ("https://[fd00::1]:6443", "fd00::1", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "[fd00::1]:1", False),
    ],
)
def test_what_no_proxy_excepts(server: str, entry: str, direct: bool) -> None:
    assert environment_proxy(server, {**PROXY, "no_proxy": entry}) == ("" if direct else "http://secure:1")
