"""The control path: what can be done to a simulator in process can be done over HTTP.

`POST /_simulator/<method>` with the arguments as a JSON object; `GET /_simulator/state` and `/objects`
answer questions. It needs no token.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from syncd.simulator.faults import Pause
from syncd.simulator.refusal import Refusal
from syncd.simulator.requests import Request

if TYPE_CHECKING:
    from syncd.simulator.simulator import Simulator

_FAULTS = (
    "clear",
    "answer",
    "delay",
    "truncate",
    "expire_tokens",
    "reverse",
    "pause_page",
    "release_pauses",
    "cut_watches",
    "end_watches",
    "fail_watches",
    "stall_watches",
    "release_watches",
    "drop_events",
    "spoil_watch_lists",
    "stale_group",
    "missing_group",
    "restore_group",
)
_CLUSTER = (
    "advance",
    "compact",
    "rollback",
    "set_cluster_uid",
    "create",
    "update",
    "patch",
    "delete",
    "delete_many",
    "create_crd",
)
_SETTINGS = ("bookmark_interval", "compress", "watch_buffer", "crd_warmup")


def act(simulator: Simulator, request: Request, path: list[str], body: bytes) -> tuple[int, bytes]:
    """The status and the JSON of the answer; 400 and 404 say what was wrong."""
    try:
        arguments: dict[str, Any] = msgspec.json.decode(body) if body.strip() else {}
        status, answer = _do(simulator, request, "/".join(path), arguments)
    except Refusal as refused:
        return refused.status, refused.body
    except (msgspec.DecodeError, ValueError, TypeError, LookupError) as error:
        status, answer = 400, {"error": str(error)}
    return status, msgspec.json.encode(answer)


def _do(
    simulator: Simulator, request: Request, name: str, arguments: dict[str, Any]
) -> tuple[int, dict[str, Any]]:
    if request.method == "GET" and name == "state":
        return 200, _state(simulator)
    if request.method == "GET" and name == "objects":
        return 200, _objects(simulator, request.query)
    if request.method != "POST":
        return 404, {"error": f"no such question: {name}"}
    if name == "clear_requests":
        simulator.requests.clear()
        return 200, {}
    if name == "settings":
        for setting, value in arguments.items():
            if setting not in _SETTINGS:
                raise ValueError(f"no such setting: {setting}; there are {', '.join(_SETTINGS)}")
            setattr(simulator, setting, value)
        return 200, {}
    if name in _FAULTS:
        return 200, _result(getattr(simulator.faults, name), arguments)
    if name in _CLUSTER:
        return 200, _result(getattr(simulator, name), arguments)
    return 404, {"error": f"no such method: {name}"}


def _result(method: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    inspect.signature(method).bind(**arguments)
    result = method(**arguments)
    return {"result": None if isinstance(result, Pause) else result}


def _state(simulator: Simulator) -> dict[str, Any]:
    return {
        "resource_version": simulator.resource_version,
        "watches": len(simulator.faults.watchers),
        "requests": [
            {"method": r.method, "path": r.path, "query": r.query, "verb": r.verb, "status": r.status}
            for r in simulator.requests
        ],
        "objects": {"/".join(storage): len(found) for storage, found in simulator.state if len(found)},
    }


def _objects(simulator: Simulator, query: dict[str, str]) -> dict[str, Any]:
    """`?group=&resource=pods&rv=120`: the oracle; without a version, the present."""
    rv = query.get("rv") or simulator.resource_version
    found = simulator.state_at(query.get("group", ""), query["resource"], rv)
    return {
        key: {"uid": uid, "resourceVersion": str(version), "object": obj}
        for key, (uid, version, obj) in found.items()
    }
