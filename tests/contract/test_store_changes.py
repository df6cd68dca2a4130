"""The records of changes that a commit writes: of what passed the guard, each once, with what differs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from syncd.core.change import Batch, StreamRow
from syncd.core.history import History, Record
from syncd.core.resource import Cause, State, Stream
from syncd.store import quick
from tests.contract.mirror_case import PODS, SECRETS, Mirror, Place, gone, item, look, opened

CHANGES, VERSIONS = History(Record.CHANGES), History(Record.VERSIONS)
QUIET = History(Record.CHANGES, status=False)
COLUMNS = "change_type, object_key, uid, resource_version, source, initial, cause"


@pytest.fixture
async def mirror(place: Place) -> AsyncIterator[Mirror]:
    async with opened(place) as mirror:
        yield mirror


@pytest.fixture(params=["few", "many"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many rows a batch has: each way of writing has its own statement."""
    return 3 if request.param == "few" else quick.SIZES[-1] + 10


def pod(number: int, version: int, uid: str = "u", **about: Any) -> Any:
    document = {"kind": "Pod", "metadata": {"name": f"{number:03}", "resourceVersion": str(version)}, **about}
    return item(f"a/{number:03}", version, uid, json.dumps(document))


async def begun(mirror: Mirror, *items: Any, history: History = VERSIONS) -> StreamRow:
    """A live stream whose first snapshot brought these."""
    row = await mirror.store.open(Stream("prod", PODS))
    batch = Batch(
        upserts=items,
        guarded=False,
        fresh=True,
        resource_version="100",
        state=State.LIVE,
        projection="p",
        history=history,
    )
    return (await mirror.store.commit(row, batch)).row


def records(mirror: Mirror, columns: str = COLUMNS, after: int = 0) -> list[Any]:
    query = f"SELECT {columns} FROM syncd_changes WHERE sequence > {after} ORDER BY sequence"
    return [
        tuple(bool(v) if k == 5 and columns == COLUMNS else v for k, v in enumerate(row))
        for row in mirror.look(query)
    ]


def last(mirror: Mirror) -> int:
    [(found,)] = mirror.look("SELECT coalesce(max(sequence), 0) FROM syncd_changes")
    return int(found)


def loaded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


async def test_a_first_snapshot_is_recorded_as_such(mirror: Mirror, size: int) -> None:
    await begun(mirror, *[pod(n, 5) for n in range(size)])
    assert sorted(records(mirror)) == [
        ("created", f"a/{n:03}", "u", "5", "snapshot", True, None) for n in range(size)
    ]
    stored = dict(mirror.look("SELECT object_key, object FROM syncd_changes"))
    assert {key: loaded(value) for key, value in stored.items()} == {
        key: loaded(value) for key, value in mirror.look("SELECT object_key, object FROM syncd_objects")
    }


async def test_each_kind_of_change_is_recorded_once(mirror: Mirror, size: int) -> None:
    row = await begun(mirror, *[pod(n, 5) for n in range(size)])
    before = last(mirror)
    batch = Batch(
        upserts=[pod(n, 200, spec={"node": "x"}) for n in range(size)]
        + [pod(500 + n, 201) for n in range(size)],
        resource_version="201",
        history=VERSIONS,
    )
    done = await mirror.store.commit(row, batch)
    assert done.recorded == size * 2
    watch = ("watch", False, None)
    assert sorted(records(mirror, after=before)) == sorted(
        [("updated", f"a/{n:03}", "u", "200", *watch) for n in range(size)]
        + [("created", f"a/{500 + n}", "u", "201", *watch) for n in range(size)]
    )
    paths = mirror.look(
        "SELECT DISTINCT change_type, CAST(changed_paths AS text) FROM syncd_changes ORDER BY 1"
    )
    assert [(kind, loaded(path)) for kind, path in paths] == [("created", None), ("updated", ["spec"])]
    # once more is stale: nothing passes the guard
    again = await mirror.store.commit(done.row, batch)
    assert (again.recorded, again.skipped) == (0, size * 2)
    before = last(mirror)
    left = Batch(
        deletes=[gone(f"a/{n:03}", 300) for n in range(size)], resource_version="300", history=VERSIONS
    )
    left_done = await mirror.store.commit(again.row, left)
    assert left_done.recorded == size
    assert sorted(records(mirror, after=before)) == [
        ("deleted", f"a/{n:03}", "u", "300", "watch", False, "deleted") for n in range(size)
    ]
    [(content,)] = mirror.look(f"SELECT object FROM syncd_changes WHERE sequence = {before + 1}")
    assert loaded(content) == {"kind": "Pod", "last": True}
    assert (await mirror.store.commit(left_done.row, left)).recorded == 0


async def test_a_row_that_somebody_spoilt_holds_up_nothing(sqlite_place: Place, size: int) -> None:
    """Only SQLite stores what is no JSON."""
    async with opened(sqlite_place) as mirror:
        row = await begun(mirror, *[pod(n, 5) for n in range(size)])
        look(sqlite_place, "UPDATE syncd_objects SET object = '{'")
        batch = Batch(upserts=[pod(n, 200) for n in range(size)], history=VERSIONS)
        assert (await mirror.store.commit(row, batch)).recorded == size
        query = "SELECT DISTINCT changed_paths FROM syncd_changes WHERE change_type = 'updated'"
        assert mirror.look(query) == [("[]",)]


async def test_what_changes_nothing_is_not_recorded(mirror: Mirror, size: int) -> None:
    row = await begun(mirror, *[pod(n, 5, status={"a": 1}) for n in range(size)], history=QUIET)
    before = last(mirror)
    same = Batch(upserts=[pod(n, 200, status={"a": 1}) for n in range(size)], history=QUIET)
    row = (await mirror.store.commit(row, same)).row
    assert mirror.look("SELECT DISTINCT resource_version FROM syncd_objects") == [("200",)]
    assert records(mirror, after=before) == []
    status = Batch(upserts=[pod(n, 300, status={"a": 2}) for n in range(size)], history=QUIET)
    row = (await mirror.store.commit(row, status)).row
    assert records(mirror, after=before) == []
    both = Batch(upserts=[pod(n, 400, status={"a": 3}, spec={}) for n in range(size)], history=QUIET)
    assert (await mirror.store.commit(row, both)).recorded == size
    [(path,)] = mirror.look(
        f"SELECT DISTINCT CAST(changed_paths AS text) FROM syncd_changes WHERE sequence > {before}"
    )
    assert loaded(path) == ["spec", "status.a"]


async def test_changes_alone_keep_only_what_left(mirror: Mirror, size: int) -> None:
    row = await begun(mirror, *[pod(n, 5) for n in range(size)], history=CHANGES)
    row = (await mirror.store.commit(row, Batch(upserts=[pod(0, 200, spec={})], history=CHANGES))).row
    await mirror.store.commit(row, Batch(deletes=[gone("a/001", 201)], history=CHANGES))
    query = "SELECT DISTINCT change_type, object IS NULL FROM syncd_changes ORDER BY 1"
    assert [(kind, bool(none)) for kind, none in mirror.look(query)] == [
        ("created", True),
        ("deleted", False),
        ("updated", True),
    ]


async def test_nothing_is_recorded_unless_asked(mirror: Mirror) -> None:
    row = await mirror.open(pod(0, 5))
    await mirror.drop((await mirror.put(row, pod(0, 200, spec={}))).row, gone("a/000", 201))
    assert records(mirror) == []


async def test_replaced_under_its_name_is_gone_and_new(mirror: Mirror, size: int) -> None:
    row = await begun(mirror, *[pod(n, 5, "old") for n in range(size)])
    before = last(mirror)
    await mirror.store.commit(row, Batch(upserts=[pod(n, 200, "new") for n in range(size)], history=VERSIONS))
    found = records(mirror, after=before)
    for key in (f"a/{n:03}" for n in range(size)):
        assert [(one[0], one[2], one[6]) for one in found if one[1] == key] == [
            ("deleted", "old", "deleted"),
            ("created", "new", None),
        ]
    assert len(found) == 2 * size


async def test_a_snapshot_a_reconcile_and_an_epoch_say_so(mirror: Mirror) -> None:
    row = await begun(mirror, pod(0, 5), pod(1, 5), pod(2, 5))
    before = last(mirror)
    page = Batch(
        upserts=[pod(0, 6, spec={})],
        deletes=[gone("a/001", 7, cause=Cause.SNAPSHOT, seen=False)],
        guarded=False,
        history=VERSIONS,
    )
    row = (await mirror.store.commit(row, page)).row
    repair = Batch(upserts=[pod(5, 8)], guarded=False, reconciliation_id=1, history=VERSIONS)
    row = (await mirror.store.commit(row, repair)).row
    await mirror.store.begin_epoch(row, "back in time")
    found = await mirror.store.read(row.stream_id)
    assert found is not None
    await mirror.store.commit(
        found, Batch(upserts=[pod(0, 3, spec={"back": 1})], guarded=False, history=VERSIONS)
    )
    assert [(one[0], one[1], one[4], one[6]) for one in records(mirror, after=before)] == [
        ("deleted", "a/001", "snapshot", "snapshot"),
        ("updated", "a/000", "snapshot", None),
        ("created", "a/005", "reconcile", None),
        ("updated", "a/000", "epoch", None),
    ]


async def test_a_stream_that_is_retired_records_its_rows(mirror: Mirror) -> None:
    row = await begun(mirror, pod(0, 5), pod(1, 5))
    before = last(mirror)
    await mirror.store.retire(row.stream_id, cause=Cause.DESELECTED)
    assert records(mirror, after=before) == [
        ("deleted", f"a/00{n}", "u", "5", "snapshot", False, "deselected") for n in range(2)
    ]


async def test_what_leaves_while_nothing_is_recorded_leaves_the_records_too(mirror: Mirror) -> None:
    """Else it would be there for ever, for whoever replays them."""
    row = await begun(mirror, pod(0, 5), pod(1, 5))
    row = (await mirror.store.commit(row, Batch(history=History()))).row
    row = (await mirror.drop(row, gone("a/001", 300))).row
    before = last(mirror)
    await mirror.store.retire(row.stream_id, cause=Cause.DESELECTED)
    told = sorted(one[:2] for one in records(mirror, after=before))
    assert told == [("deleted", "a/000"), ("deleted", "a/001")]


async def test_a_stream_that_never_was_recorded_leaves_no_records(mirror: Mirror) -> None:
    row = await mirror.open(pod(0, 5))
    await mirror.store.retire(row.stream_id, cause=Cause.DESELECTED)
    assert records(mirror) == []


async def test_what_is_there_is_the_beginning_where_more_is_asked(mirror: Mirror) -> None:
    row = await mirror.open(pod(0, 5), pod(1, 5))
    row = (await mirror.store.commit(row, Batch(history=CHANGES))).row
    assert row.history is Record.CHANGES
    assert [one[:2] for one in records(mirror)] == [("created", "a/000"), ("created", "a/001")]
    row = (await mirror.store.commit(row, Batch(history=VERSIONS))).row
    assert len(records(mirror)) == 4
    row = (await mirror.store.commit(row, Batch())).row
    row = (await mirror.drop(row, gone("a/001", 300))).row
    before = last(mirror)
    await mirror.store.commit(row, Batch(history=CHANGES))
    assert [one[:2] for one in records(mirror, after=before)] == [("deleted", "a/001"), ("created", "a/000")]


async def test_a_row_that_is_refused_leaves_no_record(mirror: Mirror) -> None:
    row = await begun(mirror, pod(0, 5))
    before = last(mirror)
    batch = Batch(upserts=[pod(1, 200), item("a/bad", 201, generation=2**63)], history=VERSIONS)
    done = await mirror.store.commit(row, batch)
    assert (done.quarantined, done.recorded) == (1, 1)
    assert [one[1] for one in records(mirror, after=before)] == ["a/001"]


async def test_what_redaction_takes_back_leaves_the_history(mirror: Mirror) -> None:
    document = json.dumps({"kind": "Secret", "metadata": {"name": "s"}, "data": {"key": "cGxhbnRlZA"}})
    stream = Stream("prod", SECRETS)
    row = await mirror.store.open(stream)
    open_ = Batch(
        upserts=[item("a/s", 5, document=document)], guarded=False, projection="open", history=VERSIONS
    )
    row = (await mirror.store.commit(row, open_)).row
    hidden = item("a/s", 5, document=document.replace("cGxhbnRlZA", "redacted"))
    await mirror.store.commit(
        row, Batch(upserts=[hidden], guarded=False, projection="closed", history=VERSIONS)
    )
    stored = mirror.look("SELECT CAST(object AS text) FROM syncd_changes")
    assert len(stored) == 2
    assert "cGxhbnRlZA" not in str(stored)
