"""Whether a type is gone for good. An error, a stale document or a missing permission never says so."""

from __future__ import annotations

import msgspec

from syncd.core.errors import UNDECODABLE, SyncdError
from syncd.core.frames import parse_page
from syncd.core.ports import ApiServer, Discovery

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


class _ServiceSpec(msgspec.Struct):
    group: str = ""
    version: str = ""
    service: msgspec.Raw = msgspec.Raw()  # a union of Raw and None would take nothing but null


class _Service(msgspec.Struct):
    spec: _ServiceSpec


async def type_removed(api: ApiServer, type_: tuple[str, str], discovery: Discovery) -> bool:
    """Absent from a current discovery document, and its CRD and any APIService of its group gone, by
    lists that answered 200 (mirror.md §7). An APIService without a server is one that kube-apiserver itself
    answers for, and stays as long as the group has any type in that version.

    A server that has just started fills its discovery group by group, and calls what it has so far current:
    a version that has an APIService and is not in there at all is still to come.

    Args:
        type_: (group, plural), known to be absent from `discovery.resources`.
    """
    group, plural = type_
    if not discovery.complete or any(stale == group for stale, _ in discovery.stale):
        return False
    name = f"{plural}.{group}" if group else plural
    try:
        definitions = parse_page(
            await api.get(_DEFINITIONS, {"fieldSelector": f"metadata.name={name}", "limit": "1"})
        )
        services = parse_page(await api.get(_SERVICES))
        served = (msgspec.json.decode(raw, type=_Service).spec for raw in services.items)
        of_group = [spec for spec in served if spec.group == group]
    except (SyncdError, *UNDECODABLE):
        return False
    discovered = {resource.version for resource in discovery.resources if resource.group == group}
    # A page without items that has a successor says nothing yet.
    return (
        not definitions.items
        and definitions.continue_token is None
        and not any(_is_set(spec.service) or spec.version not in discovered for spec in of_group)
    )


def _is_set(raw: msgspec.Raw) -> bool:
    return bytes(raw) not in (b"", b"null")
