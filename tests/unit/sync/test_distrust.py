"""Lists that cannot be believed, clusters that went back, epochs: list-watch.md §13, by number."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from syncd.core.errors import ConnectionLost, Forbidden, ServerError, SyncdError
from syncd.core.resource import State
from tests.fakes.api import gone
from tests.fakes.bench import Bench
from tests.fakes.value import page, pod


def relists(bench: Bench) -> int:
    """First pages asked for, probes aside."""
    return len([one for one in bench.api.lists if one.limit != 1 and not one.continue_token])


async def filled(bench: Bench, count: int, **settings: Any) -> None:
    for number in range(count):
        bench.api.put(f"p{number:03}")
    await bench.live(bench.settings(**settings))
    await bench.level()
    await bench.reached()


# --- lists that are not whole -----------------------------------------------------------------------


@pytest.mark.parametrize("error", [ConnectionLost("cut", connected=True), ServerError(500), Forbidden(403)])
async def test_a_list_that_is_not_whole_deletes_nothing(bench: Bench, error: SyncdError) -> None:
    """13"""
    await filled(bench, 6)
    await bench.stop()
    bench.api.delete("p003")
    bench.api.forget()
    bench.api.list_answers.extend([None, None, *[error] * 5])  # the probe and page one are well
    await bench.restart(bench.settings(page_size=2))
    await bench.level()
    assert bench.tombstones() == {("default/p003", "107", "snapshot")}


async def test_a_body_cut_short_is_not_a_page(bench: Bench) -> None:
    await filled(bench, 6)
    await bench.stop()
    bench.api.forget()
    bench.api.put("q")
    bench.api.forget()
    bench.api.list_answers.extend([None, lambda truth: truth[:-20], lambda truth: b"", lambda truth: b"{}"])
    await bench.restart()
    await bench.level()
    assert bench.tombstones() == set()


async def test_a_smaller_page_is_asked_for_after_a_list_broke(bench: Bench) -> None:
    bench.api.list_answers.append(ConnectionLost("truncated", connected=True))
    for number in range(3):
        bench.api.put(f"p{number}")
    await bench.live()
    assert [one.limit for one in bench.api.lists] == [500, 250]


async def test_a_list_that_would_delete_most_is_asked_for_twice(bench: Bench) -> None:
    await filled(bench, 120)
    await bench.stop()
    for number in range(100):
        bench.api.delete(f"p{number:03}")
    bench.api.forget()
    await bench.restart()
    await bench.level()
    assert relists(bench) == 2
    assert len(bench.tombstones()) == 100


async def test_a_list_that_is_empty_by_mistake_deletes_nothing(bench: Bench) -> None:
    await filled(bench, 120)
    await bench.stop()
    bench.api.put("q")
    bench.api.forget()
    bench.api.list_answers.extend([None, page(bench.api.rv, [])])
    await bench.restart()
    await bench.level()
    assert bench.tombstones() == set()


async def test_keys_out_of_order_are_remembered_and_deletions_wait_for_the_end(bench: Bench) -> None:
    await filled(bench, 9)
    await bench.stop()
    bench.api.delete("p004")
    bench.api.forget()
    bench.api.items = lambda listed: listed[::-1]
    await bench.restart(bench.settings(page_size=4))
    await bench.level()
    assert bench.tombstones() == {("default/p004", "110", "snapshot")}
    assert bench.look("SELECT unordered FROM syncd_streams") == [(1,)]


async def test_an_object_that_is_listed_twice_is_one_row(bench: Bench) -> None:
    bench.api.items = lambda listed: [*listed, *listed[:1]]
    await filled(bench, 3)
    bench.reflector.relist("asked", content=True)
    await bench.until(lambda: relists(bench) == 3)
    bench.api.put("new")
    await bench.level()
    assert bench.row().object_count == 4
    assert (await bench.reconcile(deep=True)).drift == 0


async def test_a_crash_between_pages_starts_over(bench: Bench) -> None:
    """8"""
    for number in range(6):
        bench.api.put(f"p{number}")
    bench.api.list_answers.extend([None, None, *[ConnectionLost("away")] * 50])
    bench.start(bench.settings(page_size=2))
    await bench.until(lambda: len(bench.table()) == 4)
    assert bench.row().resource_version is None
    await bench.stop()
    bench.api.list_answers.clear()
    bench.api.delete("p0")
    await bench.restart(bench.settings(page_size=2))
    await bench.level()
    assert bench.row().resource_version == "107"


# --- going back -------------------------------------------------------------------------------------


async def test_a_rollback_is_seen_by_the_list_s_version(bench: Bench) -> None:
    """30: the lower versions are accepted, in a new epoch."""
    await filled(bench, 5)
    await bench.stop()
    epoch = bench.row().epoch
    bench.api.roll_back(102, [pod("p000", 101), pod("p001", 102)])
    await bench.restart()
    await bench.level()
    await bench.until(lambda: bench.row().state is State.LIVE)
    assert bench.row().epoch == epoch + 1
    assert bench.row().resource_version == "102"
    assert len(bench.distrusted) == 1


async def test_a_rollback_while_it_runs_is_seen_when_the_watch_ends(bench: Bench) -> None:
    await filled(bench, 5)
    bench.api.roll_back(102, [pod("p000", 101), pod("p001", 102)])
    await bench.level()
    assert bench.row().epoch == 2


async def test_a_masked_rollback_is_seen_by_the_newest_row(bench: Bench) -> None:
    """61: the server is past the checkpoint again, but the object is behind its row."""
    await filled(bench, 5)
    await bench.stop()
    bench.api.roll_back(103, [pod(f"p{n:03}", 101 + n) for n in range(3)] + [pod("p004", 103)])
    bench.api.rv = 200
    await bench.restart()
    await bench.level()
    assert bench.row().epoch == 2


@pytest.mark.parametrize("name", ["z,metadata.name=p000", "z=1", r"z\,y", r"z\\y"])
async def test_a_name_that_a_selector_would_take_for_its_own_text(bench: Bench, name: str) -> None:
    """Roles may bear such names. Unescaped, the question is refused or means another object, and that this
    one is not there would be taken for a rollback.
    """
    await filled(bench, 3)
    bench.api.put(name)
    await bench.level()
    await bench.reached()
    reflector = await bench.restart()
    await bench.watching(reflector)
    assert bench.row().epoch == 1
    assert [request.limit for request in bench.api.lists] == [1]


async def test_a_rollback_seen_by_a_relist(bench: Bench) -> None:
    await filled(bench, 5)
    bench.api.dropping = True
    bench.api.rv = 101
    bench.reflector.relist("asked")
    await bench.until(lambda: bench.row().epoch == 2 and bench.row().state is State.LIVE)
    assert bench.row().resource_version == "101"


async def test_a_crash_after_the_new_epoch_starts_over(bench: Bench) -> None:
    """57: distrust is committed before page one."""
    await filled(bench, 5)
    await bench.stop()
    bench.api.roll_back(102, [pod("p000", 101), pod("p001", 102)])
    bench.api.list_answers.extend([None, *[ConnectionLost("away")] * 100])
    await bench.restart()
    await bench.until(lambda: bench.row().epoch == 2)
    assert bench.row().resource_version is None
    await bench.stop()
    bench.api.list_answers.clear()
    bench.api.rv = 500  # the rollback is masked by now
    await bench.restart()
    await bench.level()


async def test_another_cluster_behind_the_url(bench: Bench) -> None:
    """32: the stored version is not used, whatever it is."""
    await filled(bench, 5)
    await bench.stop()
    bench.api.uid = "cluster-2"
    bench.api.roll_back(900, [pod("p001", 102, uid="other"), pod("x", 900)])
    await bench.restart()
    await bench.level()
    assert bench.row().epoch == 2
    assert not [one for one in bench.api.watches if one.resource_version == "105"]


async def test_another_cluster_while_it_runs(bench: Bench) -> None:
    await filled(bench, 5)
    bench.api.uid = "cluster-2"
    bench.api.roll_back(900, [pod("x", 900)])
    await bench.level()
    assert bench.row().epoch == 2


async def test_a_sibling_of_the_stream_that_noticed_begins_anew(bench: Bench) -> None:
    """57: a commit of the old epoch is refused by the fence, and the sibling begins anew."""
    await filled(bench, 2)
    epoch = bench.row().epoch
    await bench.store.begin_epoch(bench.row(), "a sibling noticed")
    lists = relists(bench)
    bench.api.put("q")
    await bench.level()
    await bench.until(lambda: bench.row().state is State.LIVE)
    assert bench.row().epoch == epoch + 1
    assert relists(bench) == lists + 1


async def test_tombstones_of_an_earlier_epoch_guard_nothing(bench: Bench) -> None:
    await filled(bench, 2)
    bench.api.delete("p001")
    await bench.level()
    await bench.reached()
    await bench.stop()
    bench.api.roll_back(102, [pod("p000", 101), pod("p001", 102)])
    await bench.restart()
    await bench.level()


async def test_a_version_from_the_future_is_never_watched(bench: Bench) -> None:
    await filled(bench, 1)
    await bench.stop()
    await bench.spoil("UPDATE syncd_streams SET resource_version = '999999'")
    await bench.restart()
    await bench.until(lambda: bench.row().epoch == 2 and bench.api.open)
    assert "999999" not in [one.resource_version for one in bench.api.watches]


# --- a database slower than the server's history ----------------------------------------------------


async def test_a_relist_that_expired_before_it_watched_lists_beside_the_next_watch(bench: Bench) -> None:
    """The checkpoint of such a list is what is applied, not what has been received."""
    await filled(bench, 6, page_size=2)
    await bench.stop()
    bench.api.put("p003", changed=True)
    bench.api.forget()
    reflector = await bench.restart(bench.settings(page_size=2))
    # The first watch after the relist expires too; then the watch is opened after page one.
    bench.api.watch_answers.extend([gone(), gone()])
    await bench.until(lambda: len(bench.api.watches) >= 2)
    bench.api.gate = asyncio.Event()
    await bench.until(lambda: bench.api.open or relists(bench) >= 2)
    bench.api.gate.set()
    await bench.level()
    await bench.until(lambda: reflector.live and bench.api.open)
    bench.api.put("after")
    await bench.level()
    await bench.reached()


async def test_events_beside_a_list_are_newer_than_its_pages(bench: Bench) -> None:
    await filled(bench, 6, page_size=2)
    reflector = bench.reflector
    reflector.feed.delivered = False  # as after a relist whose watch expired at once
    bench.api.gate = asyncio.Event()
    watches = len(bench.api.watches)
    reflector.relist("expired")
    bench.api.gate.set()
    await bench.until(lambda: len(bench.api.watches) > watches)
    bench.api.gate.clear()
    changed = {"p000": "before its page", "p005": "after its page"}
    for name, text in changed.items():
        bench.api.put(name, text=text)
    bench.api.delete("p004")
    bench.api.put("p0045")
    bench.api.gate.set()
    await bench.level()
    await bench.until(lambda: reflector.live and bench.row().state is State.LIVE)
    await bench.reached()
    assert {key for key, _, _ in bench.tombstones()} == {"default/p004"}


async def test_the_checkpoint_beside_a_list_is_never_ahead_of_the_rows(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the last page is compared the watch goes on; a crash right after the commit loses nothing."""
    await filled(bench, 4, page_size=2)
    reflector = bench.reflector
    reflector.feed.delivered = False
    real = bench.store.rows
    asked: list[object] = []

    async def rows(*args: Any, **about: Any) -> Any:
        found = await real(*args, **about)
        if len(asked) == 1:  # the last page: two events come before it is committed
            bench.api.put("p001", late=True)
            bench.api.put("p000", late=True)
            await bench.until(lambda: reflector.machine.received == str(bench.api.rv))
        asked.append(args)
        return found

    monkeypatch.setattr(bench.store, "rows", rows)
    reflector.relist("expired")

    def ends() -> list[str | None]:
        return [done.row.resource_version for batch, done in bench.store.commits if batch.marks.last_list_at]

    await bench.until(lambda: len(ends()) == 2)
    assert ends() == ["104", "104"]
    await bench.level()


async def test_a_mass_deletion_beside_a_list_comes_to_an_end(bench: Bench) -> None:
    await filled(bench, 120)
    await bench.stop()
    for number in range(100):
        bench.api.delete(f"p{number:03}")
    bench.api.forget()
    reflector = await bench.restart()
    reflector.feed.delivered = False
    await bench.level()
    assert len(bench.tombstones()) == 100


async def test_an_old_row_under_a_refused_newer_state_is_no_rollback(bench: Bench) -> None:
    await filled(bench, 2)
    await bench.spoil(
        "CREATE TRIGGER refuse BEFORE INSERT ON syncd_objects WHEN NEW.object LIKE '%poison%'"
        " BEGIN SELECT RAISE(ABORT, 'refused'); END"
    )
    bench.api.put("p001", text="poison")
    await bench.reached()
    reflector = await bench.restart()
    await bench.watching(reflector)
    assert bench.row().epoch == 1
    assert relists(bench) == 0


@pytest.mark.parametrize("what", ["changed", "deleted", "replaced"])
async def test_what_happened_to_the_newest_object_meanwhile_is_no_rollback(bench: Bench, what: str) -> None:
    await filled(bench, 3)
    await bench.stop()
    if what == "changed":
        bench.api.put("p002", text="x")
    else:
        bench.api.delete("p002")
        if what == "replaced":
            bench.api.put("p002", uid="new")
    await bench.restart()
    await bench.level()
    assert (bench.row().epoch, relists(bench)) == (1, 0)


async def test_a_masked_rollback_is_seen_by_the_state_at_the_checkpoint(bench: Bench) -> None:
    """61: the newest object was written since, in the other past too."""
    await filled(bench, 3)
    await bench.stop()
    bench.api.roll_back(101, [pod("p000", 101)])
    bench.api.put("other")
    bench.api.put("another")
    bench.api.put("p002", text="in another past")
    bench.api.rv = 200
    await bench.restart()
    await bench.level()
    assert bench.row().epoch == 2
