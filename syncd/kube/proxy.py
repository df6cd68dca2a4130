"""Which proxy the environment names for a server, by the rules of Go, which kubectl follows.

Pure. httpx has rules of its own, without CIDR blocks in NO_PROXY: it is told the answer and never looks at
the environment itself.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from syncd.kube.connection import is_loopback, server_url


def environment_proxy(server: str, environ: Mapping[str, str]) -> str:
    """The URL of the proxy for `server`, '' for none. A loopback server never has one.

    Raises:
        ConfigError: `server` is not a URL.
    """
    url = server_url(server)
    host, port = url.host, url.port or (443 if url.scheme == "https" else 80)
    if is_loopback(host) or _excepted(host, port, _variable("NO_PROXY", environ)):
        return ""
    proxy = _variable("HTTPS_PROXY" if url.scheme == "https" else "HTTP_PROXY", environ)
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _variable(name: str, environ: Mapping[str, str]) -> str:
    return environ.get(name) or environ.get(name.lower()) or ""


def _excepted(host: str, port: int, no_proxy: str) -> bool:
    entries = (entry.strip().lower() for entry in no_proxy.split(","))
    return any(_covers(entry, host.lower(), port) for entry in entries if entry)


def _covers(entry: str, host: str, port: int) -> bool:
    """One entry: `*`, an address, a CIDR block, a domain (with its subdomains; with a leading dot only
    those), each but the block with an optional port.
    """
    if entry == "*":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, wanted = _split_port(entry)
    if wanted is not None and wanted != port:
        return False
    if address is not None:
        return name == str(address)
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, int | None]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        port = rest.removeprefix(":")
    elif entry.count(":") == 1:
        name, _, port = entry.partition(":")
    else:
        return entry, None
    return name, int(port) if port.isdigit() else None
