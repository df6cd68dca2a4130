"""Streams come, change and go with what a cluster serves and what the configuration asks for."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from syncd.core.errors import ConfigError, ConnectionLost, Forbidden, Invalid, ServerError
from syncd.core.selection import Selection
from tests.fakes.bench import Bench
from tests.fakes.cluster import DEFINITIONS_PATH
from tests.fakes.site import WIDGET_NAME, Site
from tests.fakes.value import WIDGETS, failed


@pytest.fixture
async def site(bench: Bench) -> AsyncIterator[Site]:
    made = Site(bench)
    yield made
    await made.stop()


ALL = {(name, each) for name in ("pods", "secrets", "widgets") for each in ("a", "b")}


async def test_what_is_selected_is_mirrored(site: Site) -> None:
    await site.live("pods", "widgets.example.com")
    assert site.rows() == {each for each in ALL if each[0] != "secrets"}


async def test_two_entries_that_mean_the_same_rows_end_it(site: Site) -> None:
    with pytest.raises(ConfigError):
        await site.start("pods", Selection("pods", label_selector="a=b"))


async def test_a_type_that_is_unknown_is_told_and_stops_nothing(site: Site) -> None:
    await site.live("pods", "gizmos")
    assert any("gizmos" in problem for problem in site.supervisor.problems)


async def test_a_cluster_that_is_down_at_first(site: Site) -> None:
    site.cluster.down = ConnectionLost("refused")
    site.start("pods")
    await site.until(lambda: site.supervisor.error)
    site.cluster.down = None
    await site.until(lambda: ("pods", "a") in site.rows())
    await site.until(lambda: site.supervisor.error == "")


async def test_a_resource_that_is_forbidden_stops_no_other(site: Site) -> None:
    site.cluster.parts["secrets"].forbidden = Forbidden(403)
    site.start("pods", "secrets")
    await site.until(lambda: site.streams().get("secrets") == "parked")
    await site.until(lambda: ("pods", "a") in site.rows())


# --- the configuration changes ------------------------------------------------------------------------


async def test_what_is_no_longer_asked_for_leaves(site: Site) -> None:
    await site.live("pods", "secrets")
    await site.restart("pods")
    await site.until(lambda: "secrets" not in site.streams())
    assert site.causes() == {("secrets", "deselected")}
    assert ("pods", "a") in site.rows()


async def test_a_narrower_scope_adopts_its_rows(site: Site) -> None:
    """33: nothing of what stays is written again."""
    site.cluster.parts["pods"].put("elsewhere", namespace="other")
    await site.live("pods")
    first_seen = site.bench.look("SELECT first_seen_at FROM syncd_objects WHERE name = 'a'")
    await site.restart(Selection("pods", namespaces=("default",)))
    await site.until(lambda: site.rows() == {("pods", "a"), ("pods", "b")})
    assert site.bench.look("SELECT first_seen_at FROM syncd_objects WHERE name = 'a'") == first_seen
    assert site.causes() == {("pods", "deselected")}


# --- what is served changes ---------------------------------------------------------------------------


async def test_a_type_deleted_while_it_runs_is_removed(site: Site) -> None:
    """44"""
    await site.live("pods", WIDGET_NAME)
    widgets = site.cluster.parts.pop(WIDGET_NAME)
    site.cluster.definitions.delete(WIDGET_NAME)
    widgets.end()
    await site.until(lambda: "widgets" not in site.streams())
    assert site.causes() == {("widgets", "type_removed")}
    assert all(one.stream.resource.name != "widgets" for one in site.supervisor.reflectors)


async def test_a_type_deleted_while_nobody_watched_is_removed(site: Site) -> None:
    """58"""
    await site.live("pods", WIDGET_NAME)
    await site.stop()
    del site.cluster.parts[WIDGET_NAME]
    site.cluster.definitions.delete(WIDGET_NAME)
    await site.restart("pods", WIDGET_NAME)
    await site.until(lambda: site.causes() == {("widgets", "type_removed")})


@pytest.mark.parametrize("definition_is_there", [True, False])
async def test_a_stale_discovery_removes_nothing(site: Site, definition_is_there: bool) -> None:
    """47 and 58"""
    await site.live("pods", WIDGET_NAME)
    await site.stop()
    if not definition_is_there:
        site.cluster.definitions.delete(WIDGET_NAME)
    site.cluster.stale = frozenset({("example.com", "v1")})
    await site.restart("pods", WIDGET_NAME)
    await site.until(lambda: site.streams().get("widgets") == "parked")
    assert ("widgets", "a") in site.rows()
    site.cluster.stale = frozenset()
    await site.until(lambda: site.streams().get("widgets") == "live")
    assert site.causes() == set()


async def test_a_definition_that_is_there_keeps_the_rows(site: Site) -> None:
    await site.live("pods", WIDGET_NAME)
    await site.stop()
    del site.cluster.parts[WIDGET_NAME]
    await site.restart("pods", WIDGET_NAME)
    await site.until(lambda: site.streams().get("widgets") == "parked")
    assert ("widgets", "a") in site.rows()


async def test_a_question_that_failed_is_asked_again(site: Site) -> None:
    """Whether a type is gone could not be told at first: it is not parked for ever."""
    await site.live("pods", WIDGET_NAME)
    await site.stop()
    del site.cluster.parts[WIDGET_NAME]
    site.cluster.definitions.delete(WIDGET_NAME)
    site.cluster.gets[DEFINITIONS_PATH] = deque([ServerError(500), Forbidden(403)])
    await site.restart("pods", WIDGET_NAME)
    await site.until(lambda: site.causes() == {("widgets", "type_removed")})


async def test_a_type_that_comes_is_mirrored(site: Site) -> None:
    widgets = site.cluster.parts.pop(WIDGET_NAME)
    site.cluster.definitions.objects.clear()
    await site.live("pods", "*.example.com")
    site.cluster.parts[WIDGET_NAME] = widgets
    site.cluster.definitions.put(WIDGET_NAME)
    await site.until(lambda: ("widgets", "a") in site.rows())


async def test_another_served_version_is_one_stream(site: Site) -> None:
    """46: switched once, no double rows."""
    await site.live(WIDGET_NAME)
    part = site.cluster.parts[WIDGET_NAME]
    part.resource = replace(WIDGETS, version="v2")
    part.end()
    await site.until(lambda: site.bench.look("SELECT DISTINCT api_version FROM syncd_objects") == [("v2",)])
    assert len(site.streams()) == 1
    assert site.causes() == set()


async def test_another_cluster_begins_a_new_epoch_for_every_stream(site: Site) -> None:
    """32 and 57"""
    await site.live("pods", "secrets")
    site.cluster.uid = "cluster-2"
    for part in site.cluster.parts.values():
        part.objects.clear()
        part.roll_back(900, [])
        part.put("only")
    want = {("pods", "only"), ("secrets", "only")}
    await site.until(lambda: site.rows() == want)
    assert site.bench.look("SELECT DISTINCT epoch FROM syncd_streams") == [(2,)]


# --- definitions --------------------------------------------------------------------------------------


async def test_definitions_that_may_not_be_seen_stop_nothing(site: Site) -> None:
    site.cluster.definitions.forbidden = Forbidden(403)
    await site.live("pods", WIDGET_NAME)
    assert ("widgets", "a") in site.rows()


async def test_a_fault_of_our_own_ends_nothing(site: Site) -> None:
    """Whatever discovery or the watch of definitions came upon."""
    await site.live("pods")
    before = site.supervisor.reflectors
    broken: Any = RuntimeError("the client was closed")
    site.cluster.down = broken
    site.cluster.definitions.forbidden = broken
    site.cluster.definitions.cut()
    await site.until(lambda: "RuntimeError" in site.supervisor.error)
    await site.until(lambda: "definitions interrupted" in site.bench.log.events("error"))
    site.cluster.parts["pods"].put("meanwhile")
    await site.until(lambda: ("pods", "meanwhile") in site.rows())
    site.cluster.down = site.cluster.definitions.forbidden = None
    site.cluster.definitions.put("gizmos.example.com")
    await site.until(lambda: "gizmos.example.com" in site.supervisor._definitions.known)
    await site.until(lambda: not site.supervisor.error)
    assert site.supervisor.reflectors == before


async def test_definitions_that_may_be_seen_a_moment_later(site: Site) -> None:
    """A server that has just started knows no roles yet."""
    site.cluster.definitions.watch_answers.append(Forbidden(403))
    await site.live("pods")
    await site.until(lambda: WIDGET_NAME in site.supervisor._definitions.known)
    assert max(site.bench.clock.slept) < 10


async def test_definitions_that_cannot_be_had_stop_nothing(site: Site) -> None:
    site.cluster.definitions.forbidden = ServerError(500)
    await site.live("pods")
    assert ("pods", "a") in site.rows()


async def test_a_server_without_watchlists_is_listed(site: Site) -> None:
    """At once: servers before 1.32 refuse a WatchList, and every restart waits for this list."""
    site.cluster.definitions.watch_answers.append(Invalid(422, "Invalid"))
    await site.live(WIDGET_NAME)
    assert site.bench.clock.monotonic() == 0
    everything = [one for one in site.cluster.definitions.lists if not one.field_selector]
    assert len(everything) == 1
    assert site.cluster.definitions.watches[-1].resource_version is not None


@pytest.mark.parametrize("another", [True, False], ids=["another-cluster", "rolled-back"])
async def test_definitions_begin_anew_with_an_epoch(site: Site, another: bool) -> None:
    """A watch from a version that the cluster has yet to reach would stay silent."""
    await site.live("pods", WIDGET_NAME)
    definitions, pods = site.cluster.definitions, site.cluster.parts["pods"]
    await site.until(lambda: len(definitions.watches) == 1)
    if another:
        site.cluster.uid = "cluster-2"
    else:
        pods.roll_back(1, ())
    pods.cut()
    await site.until(lambda: len(definitions.watches) > 1)
    assert definitions.watches[-1].resource_version is None
    await site.until(lambda: set(site.streams().values()) == {"live"})
    definitions.put("gizmos.example.com")
    await site.until(lambda: "gizmos.example.com" in site.supervisor._definitions.known)


async def test_definitions_that_always_expire_are_not_asked_in_a_loop(site: Site) -> None:
    definitions = site.cluster.definitions
    definitions.watch_answers.extend([failed(410, "Expired")] * 6)
    await site.live("pods")
    await site.until(lambda: len(definitions.watches) >= 7)
    waits = [delay for delay in site.bench.clock.slept if delay >= 0.8]
    assert waits[:5] == [0.8, 1.6, 3.2, 6.4, 12.8]


async def test_a_changed_definition_compares_content_once_it_has_settled(site: Site) -> None:
    """56: a default that moves no object's version."""
    site.timing = replace(site.timing, settle=0.3)
    await site.live(WIDGET_NAME)
    for value in site.cluster.parts[WIDGET_NAME].objects.values():
        value["spec"] = {"added": "by default"}
    before = site.bench.look("SELECT projection FROM syncd_streams")
    site.cluster.definitions.put(WIDGET_NAME, uid="made anew")
    await site.until(
        lambda: all("by default" in text for (text,) in site.bench.look("SELECT object FROM syncd_objects"))
    )
    site.cluster.definitions.end()
    await site.until(lambda: site.bench.look("SELECT projection FROM syncd_streams") != before)
