"""SelfSubjectAccessReview: may the asker do this? Pure."""

from __future__ import annotations

from syncd.simulator import writing
from syncd.simulator.access import Account
from syncd.simulator.kind import Kind, Object
from syncd.simulator.refusal import path_not_found

_ATTRIBUTES = ("namespace", "verb", "group", "version", "resource", "subresource", "name")


def access_review(account: Account, kind: Kind, obj: Object, manager: str, now: str) -> Object:
    """The review, answered.

    Raises:
        Refusal: 404 for another sort of review.
    """
    if kind.name != "selfsubjectaccessreviews":
        raise path_not_found()
    given = (obj.get("spec") or {}).get("resourceAttributes") or {}
    asked = {name: given[name] for name in _ATTRIBUTES if given.get(name)}
    permission = account.permission(
        asked.get("verb", ""), asked.get("group", ""), asked.get("resource", ""), asked.get("namespace", "")
    )
    status: Object = {"allowed": permission is not None}
    if permission is not None and permission.reason:
        status["reason"] = permission.reason
    spec = {"resourceAttributes": asked}
    return {
        "kind": kind.kind,
        "apiVersion": kind.api_version,
        "metadata": {"managedFields": writing.managed_fields(kind, {"spec": spec}, manager, now)},
        "spec": spec,
        "status": status,
    }
