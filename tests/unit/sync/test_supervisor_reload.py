"""The configuration changes under a running supervisor: only what it touches moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from syncd.core.errors import ConfigError, StoreUnavailable
from syncd.core.resource import Cause, Resource, State, Stream
from syncd.core.selection import Selection
from syncd.sync.plan import Knobs, Plan
from syncd.sync.reconcile import Order, Reconcile
from syncd.sync.reflector import Reflector
from syncd.sync.streams import Running, Streams
from syncd.sync.supervisor import ClusterSettings
from tests.fakes.api import FakeApi
from tests.fakes.bench import Bench
from tests.fakes.site import WIDGET_NAME, Site

NOTE_DELETIONS = (
    "CREATE TABLE gone (name text)",
    "CREATE TRIGGER note AFTER DELETE ON syncd_objects BEGIN INSERT INTO gone VALUES (OLD.name); END",
)


@pytest.fixture
async def site(bench: Bench) -> AsyncIterator[Site]:
    made = Site(bench)
    yield made
    await made.stop()


def configured(*entries: str | Selection, **more: Any) -> ClusterSettings:
    chosen = [Selection(entry) if isinstance(entry, str) else entry for entry in entries]
    return ClusterSettings("prod", chosen, **more)


def requests(site: Site, name: str) -> tuple[int, int]:
    """(lists, watches) of a resource so far."""
    part = site.cluster.parts[name]
    return len(part.lists), len(part.watches)


def snapshots(site: Site, name: str) -> int:
    """Lists of a resource so far that were no probe."""
    return sum(not request.field_selector for request in site.cluster.parts[name].lists)


async def change(site: Site, settings: ClusterSettings) -> None:
    """Reconfigures, and waits until it is applied and all is live."""
    supervisor = site.supervisor
    supervisor.reconfigure(settings)
    await site.until(lambda: supervisor._applied and supervisor._applied[2] == settings)
    await settled(site)


async def settled(site: Site) -> None:
    """Every stream is live, its watch open."""

    def done() -> bool:
        reflectors = site.supervisor.reflectors
        watched = [one.stream.resource.qualified for one in reflectors if one.settings.poll is None]
        opened = all(site.cluster.parts[name].open for name in watched)
        return opened and all(one.live for one in reflectors) and not site.bench.store.busy

    await site.until(done)


async def live(site: Site, *entries: str | Selection) -> None:
    await site.live(*entries)
    await settled(site)


async def test_a_resource_more(site: Site) -> None:
    await live(site, "pods")
    before = requests(site, "pods")
    await change(site, configured("pods", "secrets"))
    assert ("secrets", "a") in site.rows()
    assert requests(site, "pods") == before


async def test_a_resource_less(site: Site) -> None:
    await live(site, "pods", "secrets")
    before, [pods] = requests(site, "pods"), list(site.cluster.parts["pods"].open)
    await change(site, configured("pods"))
    assert site.causes() == {("secrets", "deselected")}
    assert set(site.streams()) == {"pods"}
    assert not site.cluster.parts["secrets"].open
    assert requests(site, "pods") == before
    assert site.cluster.parts["pods"].open == [pods]


async def test_an_exclusion(site: Site) -> None:
    await live(site, "*")
    before = requests(site, "pods")
    await change(site, configured("*", exclude=["secrets"]))
    assert set(site.streams()) == {"pods", "widgets"}
    assert requests(site, "pods") == before


async def test_what_shapes_the_next_snapshot_alone_is_taken_over_without_a_request(site: Site) -> None:
    await live(site, "pods", "secrets")
    before = requests(site, "pods"), requests(site, "secrets")
    wanted = configured(Selection("pods", page_size=1), "secrets", knobs=Knobs(0.9, 100), snapshots=1)
    await change(site, wanted)
    assert (requests(site, "pods"), requests(site, "secrets")) == before
    pods, secrets = site.supervisor.reflectors
    assert (pods.settings.page_size, secrets.settings.page_size) == (1, 500)
    assert pods.settings.deletion_share == 0.9
    site.cluster.parts["pods"].put("much")
    await site.until(lambda: ("pods", "much") in site.rows())
    assert not pods.inbox.full
    pods.relist("because")
    await site.until(lambda: requests(site, "pods")[0] == before[0][0] + 3)
    assert {request.limit for request in site.cluster.parts["pods"].lists[-3:]} == {1}


async def test_a_smaller_queue_stops_the_reader_sooner(site: Site) -> None:
    await live(site, "pods")
    [pods] = site.supervisor.reflectors
    await change(site, configured("pods", knobs=Knobs(queue_bytes=1)))
    gate = site.bench.store.gate = asyncio.Event()
    site.cluster.parts["pods"].put("first")
    await site.until(lambda: site.bench.store.waiting)
    site.cluster.parts["pods"].put("second")
    await site.until(lambda: pods.inbox.full)
    gate.set()
    await site.until(lambda: ("pods", "second") in site.rows())


async def test_another_redaction_relists_with_content(site: Site) -> None:
    secrets = site.cluster.parts["secrets"]
    for value in secrets.objects.values():
        value["data"] = {"key": "c2VjcmV0"}
    await live(site, "pods", "secrets")
    before = requests(site, "pods")
    stored = "SELECT DISTINCT object LIKE '%c2VjcmV0%' FROM syncd_objects WHERE resource = 'secrets'"
    assert site.bench.look(stored) == [(0,)]
    await change(site, configured("pods", Selection("secrets", redact=False)))
    await site.until(lambda: site.bench.look(stored) == [(1,)])
    await change(site, configured("pods", "secrets"))
    await site.until(lambda: site.bench.look(stored) == [(0,)])
    assert requests(site, "pods") == before
    assert site.causes() == set()


async def test_a_mode_that_a_reflector_has_for_life_begins_its_stream_anew(site: Site) -> None:
    await live(site, "pods", "secrets")
    before = requests(site, "secrets")
    await change(site, configured(Selection("pods", poll=3600.0), "secrets"))
    await site.until(lambda: not site.cluster.parts["pods"].open)
    site.cluster.parts["pods"].put("new")
    await change(site, configured("pods", "secrets"))
    await site.until(lambda: ("pods", "new") in site.rows())
    assert requests(site, "secrets") == before
    assert site.causes() == set()


# --- rows change hands --------------------------------------------------------------------------------


async def test_two_namespaces_become_one_stream_and_back(site: Site) -> None:
    """No row leaves the table on the way, not even for a moment."""
    pods = site.cluster.parts["pods"]
    pods.put("c", namespace="other")
    apart = Selection("pods", namespaces=("default", "other"))
    await live(site, apart)
    await site.bench.spoil(*NOTE_DELETIONS)
    first_seen = "SELECT name, first_seen_at FROM syncd_objects ORDER BY name"
    before = site.bench.look(first_seen)
    assert len(before) == 3
    await change(site, configured("pods"))
    assert site.bench.look("SELECT namespace FROM syncd_streams") == [("",)]
    await change(site, configured(apart))
    assert site.bench.look(first_seen) == before
    assert site.bench.look("SELECT * FROM gone") == []
    assert site.causes() == set()


async def test_what_is_outside_the_new_scope_leaves(site: Site) -> None:
    site.cluster.parts["pods"].put("c", namespace="other")
    await live(site, "pods")
    await site.bench.spoil(*NOTE_DELETIONS)
    await change(site, configured(Selection("pods", namespaces=("other",))))
    assert site.rows() == {("pods", "c")}
    assert site.bench.look("SELECT name FROM gone ORDER BY name") == [("a",), ("b",)]
    assert site.causes() == {("pods", "deselected")}


async def test_a_commit_in_flight_takes_no_row_back(site: Site) -> None:
    """The old stream's last batch ends before its rows change hands."""
    await live(site, "pods")
    await site.bench.spoil(*NOTE_DELETIONS)
    gate = site.bench.store.gate = asyncio.Event()
    site.cluster.parts["pods"].put("a", changed=True)
    await site.until(lambda: site.bench.store.waiting)
    site.supervisor.reconfigure(configured(Selection("pods", namespaces=("default",))))
    await site.until(lambda: not site.supervisor.running)
    gate.set()
    await site.until(lambda: [one.live for one in site.supervisor.reflectors] == [True])
    assert site.rows() == {("pods", "a"), ("pods", "b")}
    assert site.bench.look("SELECT * FROM gone") == []
    assert site.bench.look("SELECT count(*) FROM syncd_objects WHERE object LIKE '%changed%'") == [(1,)]


async def test_a_database_that_is_away_in_between_loses_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.cluster.parts["pods"].put("c", namespace="other")
    await live(site, Selection("pods", namespaces=("default", "other")))
    await site.bench.spoil(*NOTE_DELETIONS)
    retire, tries = site.bench.store.retire, 0

    async def sometimes(stream_id: int, *, cause: Cause) -> int:
        nonlocal tries
        tries += 1
        if tries in (1, 3):
            raise StoreUnavailable("away")
        return await retire(stream_id, cause=cause)

    monkeypatch.setattr(site.bench.store, "retire", sometimes)
    await change(site, configured("pods"))
    assert tries == 4
    assert len(site.rows()) == 3
    assert site.bench.look("SELECT * FROM gone") == []


async def test_a_reconcile_of_a_stream_that_is_let_go_of_ends(site: Site) -> None:
    pods = site.cluster.parts["pods"]
    await live(site, "pods", "secrets")
    [reflector] = [one for one in site.supervisor.reflectors if one.stream.resource.name == "pods"]
    await site.bench.spoil("DELETE FROM syncd_objects WHERE resource = 'pods' AND name = 'a'")
    pods.gate = asyncio.Event()
    work = asyncio.create_task(Reconcile(site.supervisor.environment, reflector, Order()).run())
    await site.until(lambda: len(pods.lists) == 2)
    await change(site, configured("secrets"))
    pods.gate.set()
    assert (await work).error


# --- what cannot be applied ---------------------------------------------------------------------------


async def test_entries_that_contradict_each_other_are_refused_before(site: Site) -> None:
    await live(site, "pods")
    with pytest.raises(ConfigError):
        site.supervisor.check(configured("pods", Selection("Pod", label_selector="a=b")))
    site.supervisor.check(configured("pods", "secrets", "gizmos"))


CONTRADICTING = configured("pods", Selection("Pod", label_selector="a=b"), "secrets")


async def test_entries_that_contradict_each_other_end_nothing(site: Site) -> None:
    await live(site, "pods")
    before = requests(site, "pods")
    await change(site, CONTRADICTING)
    assert [problem for problem in site.supervisor.problems if "both select pods" in problem]
    assert site.supervisor.error == ""
    assert site.streams() == {"pods": "live", "secrets": "live"}, "what is not contested is followed"
    await site.until(lambda: any("both select pods" in said for said in last_error(site)))
    assert b'syncd_selection_problems{cluster="prod"} 1.0' in site.bench.metrics.render()[0]
    await change(site, configured("pods", "secrets"))
    await site.until(lambda: last_error(site) == [""])
    assert b'syncd_selection_problems{cluster="prod"} 0.0' in site.bench.metrics.render()[0]
    assert requests(site, "pods") == before


def last_error(site: Site) -> list[str]:
    """What the database says of the cluster as a whole."""
    return [said for (said,) in site.bench.look("SELECT last_error FROM syncd_clusters")]


async def test_a_standing_contradiction_keeps_nobody_from_other_changes(site: Site) -> None:
    await live(site, "pods")
    await change(site, CONTRADICTING)
    more = configured("pods", Selection("Pod", label_selector="a=b"), "secrets", "widgets", labels={"a": "b"})
    site.supervisor.check(more)
    with pytest.raises(ConfigError, match="both select secrets"):
        site.supervisor.check(configured(*CONTRADICTING.entries, "secret"))
    await change(site, more)
    assert ("widgets", "a") in site.rows()
    await site.until(lambda: any("both select pods" in said for said in last_error(site)))


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_new_type_that_two_entries_mean_ends_nothing(site: Site, restarted: bool) -> None:
    gizmos = Resource("example.com", "v1", "gizmos", "Gizmo", True, categories=("all",))
    entries = ["pods", "all", "*.example.com"]
    await live(site, *entries)
    before = snapshots(site, "pods"), snapshots(site, WIDGET_NAME)
    if restarted:
        await site.stop()
    site.cluster.parts["gizmos.example.com"] = FakeApi(gizmos)
    site.cluster.parts["gizmos.example.com"].put("a")
    site.cluster.definitions.put("gizmos.example.com")
    if restarted:
        await site.restart(*entries)
    await site.until(lambda: "both select gizmos.example.com" in "".join(site.supervisor.problems))
    await settled(site)
    assert site.supervisor.error == ""
    assert set(site.streams()) == {"pods", "widgets"}, "and the new one is nobody's"
    assert before == (snapshots(site, "pods"), snapshots(site, WIDGET_NAME))
    assert site.causes() == set()
    site.cluster.parts["widgets.example.com"].put("later")
    await site.until(lambda: ("widgets", "later") in site.rows())
    await change(site, configured(*entries[:2]))
    assert set(site.streams()) == {"pods", "gizmos"}


async def test_a_type_that_two_entries_come_to_mean_goes_on_as_it_was(site: Site) -> None:
    entries = ["pods", "all", "*.example.com"]
    await live(site, *entries)
    before = snapshots(site, WIDGET_NAME)
    widgets = site.cluster.parts["widgets.example.com"]
    widgets.resource = replace(widgets.resource, categories=("all",))
    await site.until(lambda: "both select widgets.example.com" in "".join(site.supervisor.problems))
    widgets.put("later")
    await site.until(lambda: ("widgets", "later") in site.rows())
    assert snapshots(site, WIDGET_NAME) == before
    assert site.causes() == set()
    await site.restart(*entries)
    await site.until(site.supervisor.planned.is_set)
    await settled(site)
    assert site.streams() == {"pods": "live", "widgets": "live"}
    assert site.causes() == set()


@pytest.mark.parametrize("served_anew", [True, False])
async def test_a_parked_stream_is_woken_by_what_is_served_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, served_anew: bool
) -> None:
    woken: list[Reflector] = []

    def wake(reflector: Reflector) -> None:
        woken.append(reflector)

    monkeypatch.setattr(Reflector, "wake", wake)
    streams, stream = Streams(bench.environment()), Stream("prod", bench.api.resource)
    reflector = Reflector(bench.environment(), stream, bench.settings())
    reflector.progress.state = State.PARKED
    task = asyncio.create_task(asyncio.sleep(0))
    streams.running[stream.identity] = Running(reflector, task)
    wanted = Plan({stream.identity: (stream, bench.settings(page_size=7))}, ())
    streams.follow(wanted, served_anew=served_anew)
    await streams.stop()
    assert woken == [reflector] * served_anew
    assert reflector.settings.page_size == 7


async def test_labels_are_recorded(site: Site) -> None:
    await live(site, "pods")
    before = requests(site, "pods")
    await change(site, configured("pods", labels={"env": "prod"}))
    assert site.bench.look("SELECT labels FROM syncd_clusters") == [('{"env": "prod"}',)]
    assert requests(site, "pods") == before
