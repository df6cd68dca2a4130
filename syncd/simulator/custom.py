"""The life of custom resources: what follows when a definition is made, changed or deleted.

The rules were recorded from a real server: a new one answers 429 for a while; a changed one starts its
storage anew, so streams end, their history is lost and a new default shows at the old versions; a deleted
one takes its objects along, each at a version of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncd.simulator import definitions
from syncd.simulator.kind import Kind, Object
from syncd.simulator.record import Record

if TYPE_CHECKING:
    from syncd.simulator.simulator import Simulator

CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
API_SERVICES = ("apiregistration.k8s.io", "apiservices")


class CustomResources:
    """Keeps what a simulator serves in step with its definitions.

    Attributes:
        known: every custom kind that was ever served, to read the past with.
    """

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._warming: dict[tuple[str, str], float] = {}
        self._schemas: dict[tuple[str, str], Object] = {}
        self.known: dict[tuple[str, str], Kind] = {}

    def warming(self, kind: Kind) -> bool:
        """Whether a resource's cache is still being filled, so that it answers 429."""
        since = self._warming.get(kind.storage)
        return since is not None and self._simulator.clock() < since + self._simulator.crd_warmup

    def filled(self, kind: Kind, obj: Object) -> Object:
        """The object with the defaults of its schema."""
        result: Object = definitions.with_defaults(self._schemas.get(kind.storage, {}), obj)
        return result

    def written(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        """An object of this kind was written; only definitions have consequences."""
        if kind.storage != CRDS:
            return
        crd = new or old
        assert crd is not None  # a write has a before or an after
        simulator, storage = self._simulator, (crd["spec"]["group"], crd["spec"]["names"]["plural"])
        if new is None:
            self.serve()
            simulator.faults.end_watches(storage[1], group=storage[0])
        elif old is None:
            simulator.update(*CRDS, definitions.established(new, simulator.timestamp))
            self.serve()
            simulator.state.collection(storage).compact(simulator.resource_version)
            self._warming[storage] = simulator.clock()
        elif old["spec"] != new["spec"]:
            self._reshape(storage)

    def serve(self) -> None:
        """Derive the custom kinds, and their APIServices, from the definitions that are there."""
        simulator = self._simulator
        crds = list(simulator.objects(*CRDS).values())
        custom = [kind for crd in crds for kind in definitions.kinds(crd)]
        self.known |= {kind.storage: kind for kind in reversed(custom)}
        simulator.kinds = [kind for kind in simulator.kinds if not kind.custom] + custom
        self._schemas = {
            (crd["spec"]["group"], crd["spec"]["names"]["plural"]): definitions.storage_schema(crd)
            for crd in crds
        }
        served = {f"{kind.version}.{kind.group}": kind for kind in simulator.kinds}
        present = simulator.collection(*API_SERVICES).current.records
        for name in [name for name in present if name not in served]:
            simulator.delete(*API_SERVICES, "", name)
        for name, kind in served.items():
            if name not in present:
                now = simulator.timestamp
                service = definitions.api_service(kind.group, kind.version, now, custom=kind.custom)
                simulator.create(*API_SERVICES, service)

    def _reshape(self, storage: tuple[str, str]) -> None:
        self.serve()
        simulator, kind = self._simulator, self._simulator.kind(*storage)

        def filled(record: Record) -> Record:
            old = kind.decode(record.body)
            new = self.filled(kind, old)
            return record if new == old else simulator.record(kind, new)

        collection = simulator.state.collection(storage)
        collection.rewrite(simulator.resource_version, filled)
        collection.compact(simulator.resource_version)
        self._warming[storage] = simulator.clock()
        simulator.faults.end_watches(storage[1], group=storage[0])
