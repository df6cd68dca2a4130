"""The HTTP face of a simulator, an ASGI application: from a path to an answer.

Leaving an answer unfinished is how a connection is cut: the server then closes it without an end.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from syncd.simulator import change, control, discovery, listing, openapi, refusal, review, watch
from syncd.simulator.kind import Kind, Object, View
from syncd.simulator.refusal import Refusal
from syncd.simulator.requests import Request
from syncd.simulator.watcher import Watcher

if TYPE_CHECKING:
    from syncd.simulator.faults import Rule
    from syncd.simulator.simulator import Simulator

ASGIScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_CHUNK = 512 * 1024  # bytes of a list in one write
_COMPRESSED = 128 * 1024  # bytes above which an answer is compressed for who accepts it
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer; `body` in parts that are written one by one."""

    status: int
    body: list[bytes]
    content_type: str = _JSON
    headers: Mapping[str, str] | None = None


class Api:
    """Serves one simulator."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(self._simulator, scope, receive, send)
        await exchange.run()


class _Exchange:
    """One request and its answer."""

    def __init__(self, simulator: Simulator, scope: ASGIScope, receive: Receive, send: Send) -> None:
        self._simulator = simulator
        self._receive = receive
        self._send = send
        self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self._server = ":".join(map(str, scope.get("server") or ("127.0.0.1", 0)))
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        self.request = Request(scope["method"], scope["path"], query)
        self.request.token = self._headers.get("authorization", "").removeprefix("Bearer ")
        self._segments = [part for part in scope["path"].split("/") if part]
        self._kind: Kind | None = None
        self._reversed = False

    async def run(self) -> None:
        if self._segments[:1] == ["_simulator"]:
            await self._control()
            return
        self._resolve()
        self._simulator.requests.arrived(self.request)
        rules = self._simulator.faults.taken_by(self.request)
        truncate = None
        try:
            for rule in rules:
                truncate = rule.truncate if rule.truncate is not None else truncate
                await self._suffer(rule)
            answer = await self._answer()
        except Refusal as refused:
            answer = Answer(refused.status, [refused.body], refused.content_type, refused.headers)
            truncate = None
        if answer is not None:
            await self._respond(answer, truncate)

    # --- what is asked ----------------------------------------------------------------------------

    def _resolve(self) -> None:
        """Fill the request's group, resource, namespace, name and verb from its path."""
        request, parts = self.request, self._segments
        if parts[:1] == ["api"] and len(parts) > 2:
            request.group, version, rest = "", parts[1], parts[2:]
        elif parts[:1] == ["apis"] and len(parts) > 3:
            request.group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            request.namespace, rest = rest[1], rest[2:]
        request.resource = rest[0]
        request.name = rest[1] if len(rest) > 1 else ""
        request.subresource = "/".join(rest[2:])
        request.verb = self._verb()
        try:
            self._kind = self._simulator.kind(request.group, request.resource, version)
        except LookupError:
            return
        if self._kind.group in self._simulator.faults.missing_groups or (
            request.namespace and not self._kind.namespaced
        ):
            self._kind = None

    def _verb(self) -> str:
        request = self.request
        match request.method:
            case "GET" | "HEAD":
                watching = "watch" in request.query and listing.truth(request.query["watch"])
                if request.name:
                    return "get"
                return "watch" if watching else "list"
            case "POST":
                return "create"
            case "PUT":
                return "update"
            case "PATCH":
                return "patch"
            case "DELETE":
                return "delete" if request.name else "deletecollection"
        return request.method.lower()

    async def _suffer(self, rule: Rule) -> None:
        if rule.pause is not None:
            rule.pause.reached.set()
            await rule.pause.released.wait()
        self._reversed |= rule.reverse
        if rule.delay:
            await asyncio.sleep(rule.delay)
        if rule.answer is not None:
            raise rule.answer
        if rule.expire:
            raise listing.expired_token(self.request.query["continue"])

    async def _answer(self) -> Answer | None:
        """The answer, None where it was given already."""
        account = self._simulator.access.account(self.request.token)
        path = self.request.path
        if path in ("/healthz", "/livez", "/readyz"):
            return Answer(200, [b"ok"], "text/plain; charset=utf-8")
        if account is None:
            raise refusal.unauthorized()
        if not self.request.verb:
            return self._discovery()
        kind, request = self._kind, self.request
        if kind is not None and kind.group == "authorization.k8s.io":
            obj = change.decoded(await self._body())
            reviewed = review.access_review(account, kind, obj, self._manager, self._simulator.timestamp)
            return Answer(201, [refusal.encoded(reviewed)])
        if account.permission(request.verb, request.group, request.resource, request.namespace) is None:
            where = (request.group, request.resource)
            raise refusal.forbidden(account.user, request.verb, where, request.namespace, request.name)
        if kind is None:
            raise refusal.path_not_found()
        if request.verb not in kind.verbs:
            raise refusal.method_not_allowed()
        if self._simulator.custom.warming(kind):
            raise refusal.initializing()
        if request.verb == "watch":
            await self._watch(kind)
            return None
        if request.verb == "list":
            return self._list(kind)
        return await self._object(kind)

    # --- reading ----------------------------------------------------------------------------------

    def _view(self, kind: Kind) -> View:
        accept = self._headers.get("accept", "").split(",")[0]
        return View(kind, partial="as=PartialObjectMetadata" in accept and "g=meta.k8s.io" in accept)

    def _list(self, kind: Kind) -> Answer:
        options = listing.ListOptions.parse(self.request.query)
        scope = listing.scope(kind, self.request.namespace, self.request.query)
        collection = self._simulator.state.collection(kind.storage)
        page = listing.page(kind, collection, scope, options, self._simulator.resource_version)
        view = self._view(kind)
        head, tail = view.frame(page.version, page.token, page.remaining)
        # Items are joined as they are written: a list of 100,000 pods is never in memory a second time.
        parts: list[bytes] = [head]
        records = page.records[::-1] if self._reversed else page.records
        for index, record in enumerate(records):
            if index:
                parts.append(b",")
            parts.append(view.item(record.body))
        return Answer(200, [*parts, tail + b"\n"])

    async def _watch(self, kind: Kind) -> None:
        options = listing.ListOptions.parse(self.request.query)
        spoilt = self._simulator.faults.watch_lists.get(kind.storage)
        watch.validate(options, watch_list=spoilt != "refuse")
        scope = listing.scope(kind, self.request.namespace, self.request.query)
        watcher = Watcher(kind.storage)
        stream = watch.WatchStream(self._simulator, self._view(kind), scope, options, watcher)
        await self._start(200, _JSON, {})
        leaving = asyncio.ensure_future(self._left(watcher))
        try:
            if await stream.run(self._write):
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            leaving.cancel()

    async def _left(self, watcher: Watcher) -> None:
        """Waits until the client is gone and tells the watch."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        watcher.gone = True
        watcher.wake.set()

    # --- one object -------------------------------------------------------------------------------

    async def _object(self, kind: Kind) -> Answer:
        request, simulator = self.request, self._simulator
        if request.subresource not in ("", "status"):
            raise refusal.path_not_found()
        if request.verb == "get":
            key = f"{request.namespace}/{request.name}" if kind.namespaced else request.name
            record = simulator.state.collection(kind.storage).current.records.get(key)
            if record is None:
                raise refusal.object_not_found(kind, request.name)
            return Answer(200, [self._view(kind).object(record.body), b"\n"])
        if request.verb == "deletecollection":
            answer = self._list(kind)
            change.delete_collection(simulator, kind, request)
            return answer
        content_type = self._headers.get("content-type", "")
        status, made = change.write(
            simulator, kind, request, await self._body(), content_type=content_type, manager=self._manager
        )
        if made["kind"] == "Status":
            return Answer(status, [refusal.encoded(made)])
        return Answer(status, [self._view(kind).object(kind.encode(made)), b"\n"])

    @property
    def _manager(self) -> str:
        agent = self._headers.get("user-agent", "")
        return self.request.query.get("fieldManager") or agent.split("/")[0].split(" ")[0] or "unknown"

    # --- discovery --------------------------------------------------------------------------------

    def _discovery(self) -> Answer:
        faults, parts = self._simulator.faults, self._segments
        kinds = [kind for kind in self._simulator.kinds if kind.group not in faults.missing_groups]
        if self.request.method not in ("GET", "HEAD"):
            raise refusal.path_not_found()
        found: Object | None = None
        match parts:
            case ["version"]:
                return Answer(200, [discovery.VERSION])
            case ["api"] | ["apis"]:
                if discovery.wants_aggregated(self._headers.get("accept", "")):
                    body = discovery.aggregated(kinds, faults.stale_groups, core=parts == ["api"])
                    return self._cacheable(body)
                found = discovery.versions(self._server) if parts == ["api"] else discovery.groups(kinds)
            case ["openapi", "v3"]:
                found = openapi.index(kinds)
            case ["openapi", "v3", *root]:
                found = openapi.document(kinds, "/".join(root))
            case ["apis", name]:
                found = discovery.group(kinds, name)
            case ["api", version]:
                found = discovery.resource_list(kinds, "", version)
            case ["apis", name, version]:
                if name in faults.stale_groups:
                    raise Refusal(503, b"service unavailable\n", plain=True)
                found = discovery.resource_list(kinds, name, version)
        if found is None:
            raise refusal.path_not_found()
        return Answer(200, [refusal.encoded(found)])

    def _cacheable(self, body: bytes) -> Answer:
        tag = discovery.etag(body)
        headers = {"Cache-Control": "public", "Etag": tag, "Vary": "Accept"}
        if self._headers.get("if-none-match") == tag:
            return Answer(304, [], "", headers)
        return Answer(200, [body], discovery.AGGREGATED, headers)

    # --- the wire ---------------------------------------------------------------------------------

    async def _control(self) -> None:
        body = await self._body()
        status, answer = control.act(self._simulator, self.request, self._segments[1:], body)
        await self._respond(Answer(status, [answer]), None)

    async def _body(self) -> bytes:
        parts: list[bytes] = []
        while True:
            message = await self._receive()
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                return b"".join(parts)

    async def _start(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
        self.request.status = status
        given = {"Cache-Control": "no-cache, private", **headers}
        if content_type:
            given["Content-Type"] = content_type
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def _write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    def _compresses(self) -> bool:
        return self._simulator.compress and "gzip" in self._headers.get("accept-encoding", "")

    async def _respond(self, answer: Answer, truncate: int | None) -> None:
        """Writes an answer; truncated, it leaves it unfinished, so that the connection is closed."""
        zipper = None
        headers = dict(answer.headers or {})
        size = sum(map(len, answer.body))
        if size < 4096 and answer.status != 304:
            headers["Content-Length"] = str(size)
        elif size > _COMPRESSED and truncate is None and self._compresses():
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            zipper = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        await self._start(answer.status, answer.content_type, headers)
        gathered: list[bytes] = []
        waiting = 0
        for part in answer.body if self.request.method != "HEAD" else []:
            gathered.append(part)
            waiting += len(part)
            if truncate is not None and waiting >= truncate:
                await self._write(b"".join(gathered)[:truncate])
                return
            if waiting >= _CHUNK:
                data = b"".join(gathered)
                await self._write(zipper.compress(data) if zipper else data)
                truncate = truncate - waiting if truncate is not None else None
                gathered, waiting = [], 0
        data = b"".join(gathered)
        if zipper:
            data = zipper.compress(data) + zipper.flush()
        await self._send({"type": "http.response.body", "body": data, "more_body": False})
