"""What was asked of the server: a log for tests to count in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Request:
    """One request; `status` is 0 until it is answered.

    Attributes:
        verb: get, list, watch, create, update, patch, delete, deletecollection; '' for a path that is
            not of a resource.
    """

    method: str
    path: str
    query: dict[str, str]
    verb: str = ""
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    token: str = ""
    status: int = 0

    @property
    def probes(self) -> bool:
        """A list of one object, which a client asks to learn the version."""
        return self.verb == "list" and self.query.get("limit") == "1" and "continue" not in self.query


_KEPT = 100_000


class RequestLog(list[Request]):
    """Requests in order of arrival, the last hundred thousand."""

    def arrived(self, request: Request) -> None:
        self.append(request)
        if len(self) > _KEPT:
            del self[: _KEPT // 10]

    def matching(
        self, verb: str = "", resource: str = "", *, group: str | None = None, status: int | None = None
    ) -> list[Request]:
        return [
            request
            for request in self
            if (not verb or request.verb == verb)
            and (not resource or request.resource == resource)
            and (group is None or request.group == group)
            and (status is None or request.status == status)
        ]

    def lists(self, resource: str = "", *, group: str | None = None) -> int:
        """Pages of lists, probes left out."""
        return sum(not request.probes for request in self.matching("list", resource, group=group))

    def probes(self, resource: str = "", *, group: str | None = None) -> int:
        return sum(request.probes for request in self.matching("list", resource, group=group))

    def watches(self, resource: str = "", *, group: str | None = None) -> int:
        return len(self.matching("watch", resource, group=group))
