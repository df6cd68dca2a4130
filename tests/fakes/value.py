"""Makers of wire values: objects, pages and watch lines, as a server would send them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from syncd.core.document import Item, Transform
from syncd.core.resource import Resource

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
EVENTS = Resource("", "v1", "events", "Event", namespaced=True)
WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)

Json = dict[str, Any]


def compact(value: Any) -> bytes:
    """JSON as Go writes it: no spaces, UTF-8 as it is."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def pod(name: str, version: int | str, *, uid: str = "", namespace: str = "default", **spec: Any) -> Json:
    """A pod without kind, as an item of a list is; its uid is `u-<name>` unless given."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"u-{name}",
        "resourceVersion": str(version),
    }
    return {"metadata": metadata, "spec": spec}


def line(kind: str, value: Json) -> bytes:
    """One watch event with its newline."""
    return compact({"type": kind, "object": value}) + b"\n"


def added(name: str, version: int | str, **about: Any) -> bytes:
    return line("ADDED", pod(name, version, **about))


def modified(name: str, version: int | str, **about: Any) -> bytes:
    return line("MODIFIED", pod(name, version, **about))


def deleted(name: str, version: int | str, **about: Any) -> bytes:
    return line("DELETED", pod(name, version, **about))


def bookmark(version: int | str, *, ends_initial: bool = False) -> bytes:
    metadata: Json = {"resourceVersion": str(version), "creationTimestamp": None}
    if ends_initial:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return line("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {}})


def status(code: int, reason: str, **metadata: Any) -> Json:
    return {"kind": "Status", "metadata": metadata, "message": reason, "reason": reason, "code": code}


def failed(code: int, reason: str) -> bytes:
    """An ERROR event."""
    return line("ERROR", status(code, reason))


def page(
    version: int | str, items: Iterable[Json] | None, token: str = "", *, metadata_last: bool = False
) -> bytes:
    """A list's body; custom resources have their metadata after the items."""
    metadata: Json = {"resourceVersion": str(version)}
    if token:
        metadata["continue"] = token
    listed = None if items is None else list(items)
    if metadata_last:
        return compact({"apiVersion": "v1", "items": listed, "kind": "PodList", "metadata": metadata})
    return compact({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": listed})


def item(name: str, version: int | str, **about: Any) -> Item:
    """The item of a pod."""
    return Transform(PODS)(compact(pod(name, version, **about)))
