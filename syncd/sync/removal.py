"""Whether a type is gone for good. An error, a stale document or a missing permission never says so."""

from __future__ import annotations

import msgspec

from syncd.core.errors import UNDECODABLE, SyncdError
from syncd.core.frames import parse_page
from syncd.core.ports import ApiServer, Discovery

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_MANAGED = "kube-aggregator.kubernetes.io/automanaged"  # "onstart" of what is built in


class _ServiceSpec(msgspec.Struct):
    group: str = ""
    version: str = ""
    service: msgspec.Raw = msgspec.Raw()  # a union of Raw and None would take nothing but null


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Service(msgspec.Struct):
    spec: _ServiceSpec
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)

    @property
    def of_definitions(self) -> bool:
        """Whether it was made for custom types, and goes with the last of them."""
        return (self.metadata.labels or {}).get(_MANAGED) == "true"


async def type_removed(api: ApiServer, type_: tuple[str, str], discovery: Discovery) -> bool:
    """Absent from a current discovery document, and its CRD and any APIService of its group gone, by
    lists that answered 200 (mirror.md §7). An APIService without a server is one that kube-apiserver itself
    answers for, and stays as long as the group has any type in that version.

    A server that has just started fills its discovery group by group, and calls what it has so far current:
    a version that has an APIService and is not in there at all is still to come. Of custom types the
    definitions say it better.

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
        served = (msgspec.json.decode(raw, type=_Service) for raw in services.items)
        of_group = [service for service in served if service.spec.group == group]
    except (SyncdError, *UNDECODABLE):
        return False
    known = {resource.version for resource in discovery.resources if resource.group == group}
    # A page without items that has a successor says nothing yet.
    return (
        not definitions.items
        and definitions.continue_token is None
        and not any(_is_set(service.spec.service) for service in of_group)
        and all(service.of_definitions or service.spec.version in known for service in of_group)
    )


def _is_set(raw: msgspec.Raw) -> bool:
    return bytes(raw) not in (b"", b"null")
