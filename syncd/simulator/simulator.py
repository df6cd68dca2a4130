"""The simulated cluster: every write goes through here, in process or over HTTP.

Synchronous: a change is in the store, the history and the watchers' view before the call returns. Only for
use from the event loop's own thread.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from syncd.simulator import definitions, writing
from syncd.simulator.access import Access
from syncd.simulator.custom import API_SERVICES, CRDS, CustomResources
from syncd.simulator.faults import Faults
from syncd.simulator.kind import Kind, Object
from syncd.simulator.record import Event, Record
from syncd.simulator.refusal import already_exists, bad_request, conflict, object_not_found
from syncd.simulator.requests import RequestLog
from syncd.simulator.resources import resources
from syncd.simulator.state import Collection, State

_NAMESPACES = ("", "namespaces")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Simulator:
    """One cluster in memory.

    Args:
        seed: of uids and random watch times.
        bookmark_interval: seconds between the bookmarks of a watch.
        second: how long a second of timeoutSeconds and of the bookmarks' times lasts; a test of a long
            watch makes it short.
        history: events that each resource keeps; a watch from before them gets 410.
        watch_buffer: events by which a blocked watcher may fall behind before it is cut off.
        crd_warmup: seconds for which a new or changed custom resource answers 429.
        compress: answer long lists in gzip to who accepts it, as the real server does.
        remember: keep every version for `state_at`; off for long runs, where memory matters more.
        now: the wall clock, for timestamps.
        clock: seconds, for the warm-up and for timed faults.

    Attributes:
        faults: misbehaviour on command.
        requests: what was asked.
        custom: the resources that definitions add.
        access: tokens and what they may do; open to everyone until one is granted.
    """

    def __init__(
        self,
        seed: int = 0,
        bookmark_interval: float = 60.0,
        history: int = 100_000,
        *,
        second: float = 1.0,
        watch_buffer: int = 1_000,
        crd_warmup: float = 0.0,
        compress: bool = True,
        remember: bool = True,
        now: Callable[[], datetime] = _utc_now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bookmark_interval = bookmark_interval
        self.second = second
        self.watch_buffer = watch_buffer
        self.crd_warmup = crd_warmup
        self.compress = compress
        self.clock = clock
        self.random = random.Random(seed)
        self.state = State(history=history, remember=remember)
        self.requests = RequestLog()
        self.access = Access()
        self.faults = Faults(self)
        self.kinds: list[Kind] = resources()
        self.custom = CustomResources(self)
        self._now = now
        self._stamp = (0, "")
        for name in ("kube-system", "kube-public", "kube-node-lease", "default"):
            metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name}}
            self.create("", "namespaces", {"metadata": metadata}, manager="kube-apiserver")
        for group, version in dict.fromkeys((kind.group, kind.version) for kind in self.kinds):
            self.create(*API_SERVICES, definitions.api_service(group, version, self.timestamp, custom=False))

    # --- reading ----------------------------------------------------------------------------------

    @property
    def resource_version(self) -> int:
        """The cluster's version: that of the last write."""
        return self.state.version

    @property
    def timestamp(self) -> str:
        """Now, as the API writes it."""
        now = self._now()
        second = int(now.timestamp())
        if self._stamp[0] != second:
            self._stamp = (second, now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        return self._stamp[1]

    def kind(self, group: str, resource: str, version: str = "") -> Kind:
        """The served kind, of the preferred version unless one is named.

        Raises:
            LookupError: the cluster does not serve it.
        """
        for kind in self.kinds:
            if kind.group == group and kind.name == resource and version in ("", kind.version):
                return kind
        raise LookupError(f"{resource}.{group}/{version} is not served")

    def collection(self, group: str, resource: str) -> Collection:
        """The stored collection, also of a resource that is not served (any more)."""
        for kind in self.kinds:
            if kind.group == group and kind.name == resource:
                return self.state.collection(kind.storage)
        return self.state.collection((group, resource))

    def objects(self, group: str, resource: str) -> dict[str, Object]:
        """Every present object by key (`namespace/name`, or `name`), decoded."""
        kind = self.kind(group, resource)
        records = self.state.collection(kind.storage).current.records
        return {key: kind.decode(record.body) for key, record in sorted(records.items())}

    def state_at(self, group: str, resource: str, rv: int | str) -> dict[str, tuple[str, int, Object]]:
        """The oracle: key to (uid, version, object) as they were at a version, compacted or not.

        Raises:
            ValueError: a version of the future.
        """
        version = int(rv)
        if version > self.state.version:
            raise ValueError(f"the version is {self.state.version}, below {version}")
        past = self.collection(group, resource).past(version)
        if not past:
            return {}
        kind = self.custom.known.get((group, resource)) or self.kind(group, resource)
        return {
            key: (record.uid, record.version, kind.decode(record.body))
            for key, record in sorted(past.items())
        }

    # --- writing ----------------------------------------------------------------------------------

    def create(self, group: str, resource: str, obj: Mapping[str, Any], *, manager: str = "") -> Object:
        """Stores a new object and returns it. A uid and a creationTimestamp that it brings are kept.

        Raises:
            Refusal: 409 where the name is taken, 400 without a name.
        """
        kind = self.kind(group, resource)
        metadata = dict(obj.get("metadata") or {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self.random.randrange(36**5):05x}"[:63]
        if not metadata.get("name"):
            raise bad_request("name or generateName is required")
        if kind.namespaced:
            metadata.setdefault("namespace", "default")
        if manager:
            metadata["managedFields"] = writing.managed_fields(kind, obj, manager, self.timestamp)
        key = _key(kind, metadata)
        collection = self.state.collection(kind.storage)
        if key in collection.current.records:
            raise already_exists(kind, metadata["name"])
        obj = self._completed(kind, {**obj, "metadata": metadata})
        version = self.state.next_version()
        new = writing.created(kind, obj, uid=self.uid(), version=version, now=self.timestamp)
        record = self.record(kind, new)
        collection.apply(Event(version, key, None, record))
        self.custom.written(kind, None, new)
        return kind.decode(record.body) if kind.custom else new

    def update(self, group: str, resource: str, obj: Mapping[str, Any], *, subresource: str = "") -> Object:
        """Replaces an object and returns it; a write that changes nothing is none.

        Args:
            obj: its metadata.resourceVersion and uid, where given, are preconditions.
            subresource: `status`: only that part is replaced.

        Raises:
            Refusal: 404, or 409 where a precondition fails.
        """
        kind = self.kind(group, resource)
        given = obj["metadata"]
        before = self._existing(kind, _key(kind, given), given["name"])
        _check(kind, before, given)
        old = kind.decode(before.body)
        if subresource:
            obj = old | {subresource: obj.get(subresource, {})}
        obj = self._completed(kind, obj)
        new = writing.updated(kind, old, obj, self.state.version + 1)
        if writing.same(old, new):
            return old
        version = self.state.next_version()
        record = self.record(kind, new)
        self.state.collection(kind.storage).apply(Event(version, record.key, before, record))
        self.custom.written(kind, old, new)
        return new

    def patch(
        self,
        group: str,
        resource: str,
        namespace: str,
        name: str,
        merge: Mapping[str, Any],
        *,
        subresource: str = "",
    ) -> Object:
        """Applies a JSON merge patch and returns the object. Errors as `update`."""
        kind = self.kind(group, resource)
        before = self._existing(kind, _join(namespace, name), name)
        old = kind.decode(before.body)
        new = writing.merged(old, dict(merge))
        if "resourceVersion" not in (merge.get("metadata") or {}):
            new["metadata"].pop("resourceVersion", None)
        return self.update(group, resource, new, subresource=subresource)

    def delete(
        self, group: str, resource: str, namespace: str, name: str, *, preconditions: Object | None = None
    ) -> Object:
        """Removes an object and returns its last form, under the deletion's version. What is in a
        namespace goes with it, and so do the objects of a custom resource with its definition.

        Raises:
            Refusal: 404, or 409 where the uid or the resourceVersion of the preconditions is another.
        """
        kind = self.kind(group, resource)
        key = _join(namespace, name)
        before = self._existing(kind, key, name)
        _check(kind, before, preconditions or {})
        if kind.storage == _NAMESPACES:
            for storage, collection in self.state:
                low, high = collection.current.range(name)
                self.delete_each(storage, collection.current.keys[low:high])
        if kind.storage == CRDS:
            crd = kind.decode(before.body)
            storage = (crd["spec"]["group"], crd["spec"]["names"]["plural"])
            self.delete_each(storage, list(self.state.collection(storage).current.keys))
        version = self.delete_many(group, resource, [key])
        return kind.decode(before.at(version).body)

    def delete_many(self, group: str, resource: str, keys: Sequence[str]) -> int:
        """Removes objects at one and the same version (an expired lease does that to events); the
        version.

        Raises:
            Refusal: 404 where one is not there.
        """
        kind = self.kind(group, resource)
        collection = self.state.collection(kind.storage)
        records = [self._existing(kind, key, key.rpartition("/")[2]) for key in keys]
        version = self.state.next_version()
        for before in records:
            collection.apply(Event(version, before.key, before, None, before.at(version)))
        for before in records:
            self.custom.written(kind, kind.decode(before.body) if kind.storage == CRDS else None, None)
        return version

    def load(self, group: str, resource: str, records: Iterable[Record]) -> None:
        """Many new objects from bytes that are encoded already; their versions must rise from
        `resource_version` + 1.
        """
        new = list(records)
        if new:
            self.state.advance(new[-1].version)
            self.state.collection(self.kind(group, resource).storage).load(new)

    def create_crd(self, obj: Object | None = None, **of: Any) -> Object:
        """Creates a definition, established by the second write. Keywords as `definitions.definition`."""
        self.create(*CRDS, obj or definitions.definition(**of))
        return self.objects(*CRDS)[(obj or definitions.definition(**of))["metadata"]["name"]]

    def uid(self) -> str:
        """A new uid, from the seed."""
        digits = f"{self.random.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"

    # --- the cluster as a whole -------------------------------------------------------------------

    def advance(self, rv: int) -> None:
        """Let the version run on, as if others had written."""
        self.state.advance(rv)

    def compact(self, rv: int | None = None) -> None:
        """Forget the history up to a version (the present one): watches and tokens from below it expire."""
        self.state.compact(self.state.version if rv is None else rv)

    def rollback(self, rv: int, *, masked_past: int | None = None, cut: bool = True) -> None:
        """The store goes back, as etcd restored from a backup.

        Args:
            masked_past: afterwards other writes carry the version past this one.
            cut: end the open watches, as the restarted servers do.
        """
        self.state.rollback(rv)
        self.custom.serve()
        if cut:
            self.faults.cut_watches()
        if masked_past is not None:
            self.advance(max(self.state.version, masked_past))
            name = {"name": f"restored-{self.state.version}", "namespace": "kube-node-lease"}
            self.create("coordination.k8s.io", "leases", {"metadata": name, "spec": {}})

    def set_cluster_uid(self, uid: str) -> None:
        """Give kube-system another uid: another cluster behind the same address."""

        def replaced(record: Record) -> Record:
            if record.name != "kube-system":
                return record
            kind = self.kind(*_NAMESPACES)
            obj = kind.decode(record.body)
            obj["metadata"]["uid"] = uid
            return self.record(kind, obj)

        self.state.collection(_NAMESPACES).rewrite(self.state.version, replaced)

    # --- inside -----------------------------------------------------------------------------------

    def _existing(self, kind: Kind, key: str, name: str) -> Record:
        record = self.state.collection(kind.storage).current.records.get(key)
        if record is None:
            raise object_not_found(kind, name)
        return record

    def record(self, kind: Kind, obj: Object) -> Record:
        """The stored form of a complete object."""
        metadata = obj["metadata"]
        return Record(
            _key(kind, metadata),
            metadata.get("namespace", "") if kind.namespaced else "",
            metadata["name"],
            metadata["uid"],
            int(metadata["resourceVersion"]),
            kind.encode(obj),
        )

    def _completed(self, kind: Kind, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        """With what the server fills in for this kind."""
        if kind.storage == _NAMESPACES:
            metadata = dict(obj["metadata"])
            label = {"kubernetes.io/metadata.name": metadata["name"]}
            metadata["labels"] = {**(metadata.get("labels") or {}), **label}
            spec, status = {"finalizers": ["kubernetes"]}, {"phase": "Active"}
            return {"spec": spec, "status": status, **obj, "metadata": metadata}
        if kind.storage == CRDS:
            return definitions.completed(dict(obj))
        return self.custom.filled(kind, dict(obj)) if kind.custom else obj

    def delete_each(self, storage: tuple[str, str], keys: Iterable[str]) -> None:
        served = [kind for kind in self.kinds if kind.storage == storage]
        for key in list(keys):
            self.delete_many(served[0].group, served[0].name, [key])


def _check(kind: Kind, before: Record, given: Mapping[str, Any]) -> None:
    """The preconditions of a write: the uid and the version that the writer believes."""
    uid = given.get("uid")
    if uid and uid != before.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before.uid}"
        raise conflict(kind, before.name, why)
    if given.get("resourceVersion") and str(given["resourceVersion"]) != str(before.version):
        raise conflict(kind, before.name)


def _key(kind: Kind, metadata: Mapping[str, Any]) -> str:
    return _join(metadata.get("namespace", "default") if kind.namespaced else "", metadata["name"])


def _join(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
