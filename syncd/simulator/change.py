"""Writes over HTTP: from a verb, a path and a body to a change of the simulator. Synchronous."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from syncd.simulator import listing, refusal
from syncd.simulator.kind import Kind, Object
from syncd.simulator.requests import Request

if TYPE_CHECKING:
    from syncd.simulator.simulator import Simulator

_JSON = "application/json"
_PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")
_SERVER_OWNED = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


def decoded(body: bytes) -> Object:
    """The object in a request's body; {} for none.

    Raises:
        Refusal: 415 for protobuf, which is not spoken here; 400 for what is no JSON object.
    """
    if not body:
        return {}
    try:
        obj = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if body.startswith(b"k8s\0"):
            raise refusal.unsupported_media_type((_JSON,)) from error
        raise refusal.bad_request(f"the body of the request is not JSON: {error}") from error
    if not isinstance(obj, dict):
        raise refusal.bad_request("the body of the request is not an object")
    return obj


def write(
    simulator: Simulator, kind: Kind, request: Request, body: bytes, *, content_type: str, manager: str
) -> tuple[int, Object]:
    """Does what a create, update, patch or delete asks; the status, and the object or a Status.

    Raises:
        Refusal: 400, 404, 409 or 415.
    """
    storage, subresource = kind.storage, request.subresource
    if request.verb == "patch" and content_type.split(";")[0] not in _PATCHES:
        raise refusal.unsupported_media_type(_PATCHES)
    given = decoded(body)
    if request.verb == "delete":
        return 200, _delete(simulator, kind, request, given)
    if kind.revert is not None:
        given = kind.revert(given)
    if request.verb == "patch":
        where = (*storage, request.namespace, request.name)
        return 200, simulator.patch(*where, given, subresource=subresource)
    _place(simulator, kind, request, given.setdefault("metadata", {}))
    if request.verb == "create":
        return 201, simulator.create(*storage, _fresh(given), manager=manager)
    return 200, simulator.update(*storage, given, subresource=subresource)


def delete_collection(simulator: Simulator, kind: Kind, request: Request) -> None:
    """Deletes what the request's selectors choose, each at a version of its own."""
    scope = listing.scope(kind, request.namespace, request.query)
    records = simulator.state.collection(kind.storage).current.records
    for record in [record for record in records.values() if scope.contains(record)]:
        simulator.delete(*kind.storage, record.namespace, record.name)


def _delete(simulator: Simulator, kind: Kind, request: Request, options: Object) -> Object:
    where = (*kind.storage, request.namespace, request.name)
    last = simulator.delete(*where, preconditions=options.get("preconditions"))
    if kind.storage == ("", "pods"):  # these are deleted gracefully, so the object is the answer
        return last
    details: Object = {"name": request.name} | ({"group": kind.group} if kind.group else {})
    details |= {"kind": kind.name, "uid": last["metadata"]["uid"]}
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    return {**head, "status": "Success", "details": details}


def _place(simulator: Simulator, kind: Kind, request: Request, metadata: Object) -> None:
    """Name and namespace come from the path, and must agree with it."""
    if request.name and metadata.setdefault("name", request.name) != request.name:
        raise refusal.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({request.name})"
        )
    if not kind.namespaced:
        return
    if metadata.setdefault("namespace", request.namespace) != request.namespace:
        raise refusal.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    namespaces = simulator.collection("", "namespaces").current.records
    if request.verb == "create" and request.namespace not in namespaces:
        raise refusal.object_not_found(simulator.kind("", "namespaces"), request.namespace)


def _fresh(obj: Object) -> Object:
    """Without what only the server gives."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _SERVER_OWNED}
    return {**obj, "metadata": metadata}
