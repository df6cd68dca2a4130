"""What a watch brings, byte by byte and event by event: split, joined, doubled, odd, or at one version."""

from __future__ import annotations

import json

import pytest

from syncd.core.batching import Gathering
from syncd.core.change import Batch, Committed, StreamRow
from syncd.store.store import MirrorStore
from tests.conformance.site import CONFIGMAPS, Site, changed, made, within
from tests.conformance.writer import Json
from tests.e2e.world import parts

SIMULATED = ("", "configmaps")
ODD = {
    "lines": "a\u0085b\u2028c\u2029d\u000be\u000cf\r\ng",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f",
    "planes": "ä€\U0001f600\U00020000\U000e0001\U0010fffd\ufffd\ufeff\uffff",
    "quotes": '{"nested": "\\"json\\"", "\\\\": "\\u0000"}',
}


def first(site: Site) -> str:
    return sorted(site.simulator.objects(*SIMULATED))[0]


def change(site: Site, text: str) -> None:
    site.simulator.patch(*SIMULATED, *parts(first(site)), {"data": {"text": text}})


@pytest.mark.simulated("a bookmark as older servers write it")
async def test_15_bare_bookmarks(site: Site) -> None:
    """Of a bookmark nothing counts but its version, whatever else is in it, empty or missing."""
    site.simulator.bookmark_interval = 0.1
    site.workload.configmaps(20)
    bare = [
        {"metadata": {"resourceVersion": "{}", "creationTimestamp": None, "annotations": None}, "spec": {}},
        {"kind": "ConfigMap", "metadata": {"resourceVersion": "{}"}, "data": None, "status": {}},
    ]
    told: list[str] = []

    def line(raw: bytes) -> bytes:
        event: Json = json.loads(raw)
        if event["type"] != "BOOKMARK":
            return raw
        told.append(event["object"]["metadata"]["resourceVersion"])
        text = json.dumps({"type": "BOOKMARK", "object": bare[len(told) % 2]})
        return text.replace("{}", told[-1], 1).encode() + b"\n"

    site.wire.line = line
    async with site.mirror("configmaps"):
        await site.level(SIMULATED)
        await site.watch_writes()
        for _ in range(4):
            before = len(told)
            site.simulator.create("", "secrets", {"metadata": {"name": f"other-{before}"}})
            await site.until(
                lambda: site.checkpoint(CONFIGMAPS) == str(site.simulator.resource_version),
                "the bookmark counts",
            )
        assert len(site.asked.watches(CONFIGMAPS)) == 1
    assert len(told) >= 4
    assert site.table.writes() == []


@pytest.mark.simulated("a server that compresses watches though nobody asked")
async def test_21_compressed_watches(site: Site) -> None:
    """A watch is asked for uncompressed. Where a server compresses it all the same, in as many pieces as it
    likes, nothing is lost.
    """
    site.workload.configmaps(20)
    site.wire.compressed = True
    async with site.mirror("configmaps"):
        for number in range(20):
            change(site, f"{number}" * 50)
        await site.level(SIMULATED)
        for number in range(3):
            change(site, f"again {number}")
            await site.level(SIMULATED)
        assert len(site.asked.watches(CONFIGMAPS)) == 1
    assert site.wire.encodings == ["identity"]


@pytest.mark.cluster
async def test_22_odd_line_ends(site: Site) -> None:
    """Whatever characters an object holds, line ends of any kind among them, and wherever the bytes are
    split, it is one event and the row equals it.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 2)
    site.wire.pieces = lambda data: (data[at : at + 1] for at in range(len(data)))
    async with site.mirror(within(CONFIGMAPS, namespace)):
        await site.mirrored(CONFIGMAPS, namespace)
        for key, text in ODD.items():
            await site.cluster.patch(CONFIGMAPS, keys[0], {"data": {key: text}})
        await site.mirrored(CONFIGMAPS, namespace)
        assert len(site.asked.watches(CONFIGMAPS)) == 1
        stored = site.rows(CONFIGMAPS)[keys[0]].document["data"]
    assert {key: stored[key] for key in ODD} == ODD


@pytest.mark.simulated("objects that are larger than a real server takes")
@pytest.mark.parametrize("how", ["one of 5 MiB", "ten thousand in one piece", "one in a thousand pieces"])
async def test_23_large_events(site: Site, how: str) -> None:
    """An event of 5 MiB, ten thousand events in one piece, and one event in a thousand pieces are all the
    same.
    """
    site.workload.configmaps(20)
    async with site.mirror("configmaps"):
        await site.level(SIMULATED)
        if how == "ten thousand in one piece":
            site.wire.held = True
            for number in range(10_000):
                metadata = {"namespace": "many", "name": f"c-{number:05}"}
                site.simulator.create(*SIMULATED, {"metadata": metadata})
            await site.until(lambda: site.wire.kept > 10_000 * 100, "all are on the wire")
            site.wire.held = False
            change(site, "last")
        elif how == "one of 5 MiB":
            change(site, "x" * 5 * 1024 * 1024)
        else:
            site.wire.pieces = lambda data: (data[at : at + 100] for at in range(0, len(data), 100))
            change(site, "x" * 100_000)
        await site.level(SIMULATED)
        assert len(site.asked.watches(CONFIGMAPS)) == 1
        assert len(site.asked.lists(CONFIGMAPS)) == 1


@pytest.mark.simulated("connections that end in the middle of an event")
@pytest.mark.parametrize("cleanly", [True, False])
async def test_24_half_an_event(site: Site, cleanly: bool) -> None:
    """Half an event at the end of a connection is none; it comes whole with the next."""
    site.workload.configmaps(20)
    async with site.mirror("configmaps"):
        await site.level(SIMULATED)
        whole, halves = site.wire.pieces, []

        def half(data: bytes) -> list[bytes]:
            site.wire.pieces = whole
            halves.append(data)
            return [data[: len(data) // 2]]

        if cleanly:
            site.wire.pieces = half
        else:
            site.simulator.faults.cut_watches("configmaps", mid_line=True)
        change(site, "whole")
        site.simulator.faults.end_watches("configmaps")
        await site.level(SIMULATED)
        assert bool(halves) == cleanly
        assert len(site.asked.watches(CONFIGMAPS)) == 2
        assert len(site.asked.lists(CONFIGMAPS)) == 1


@pytest.mark.simulated("a server that repeats itself")
async def test_26_events_twice(site: Site) -> None:
    """An event that comes twice, in one connection or in the next, is written once."""
    site.workload.configmaps(20)
    site.wire.line = lambda line: line * 2
    async with site.mirror("configmaps"):
        await site.level(SIMULATED)
        await site.watch_writes()
        change(site, "one")
        await site.level(SIMULATED)
        site.simulator.faults.cut_watches("configmaps")
        await site.until(lambda: len(site.asked.watches(CONFIGMAPS)) == 2, "another watch")
        change(site, "two")
        gone = first(site)
        site.simulator.delete(*SIMULATED, *parts(gone))
        await site.level(SIMULATED)
        await site.until(lambda: gone in site.table.tombstones("configmaps"), "its tombstone")
    whats = [what for what, key, _ in site.table.writes() if key == gone]
    assert sorted(whats) in (
        ["delete objects", "insert deleted_objects", "update objects"],
        ["delete objects", "insert deleted_objects", "update objects", "update objects"],
    )
    assert len(set(site.table.writes())) == len(site.table.writes())


@pytest.mark.cluster
async def test_27_older_states(site: Site) -> None:
    """Older states that come again, of objects and of what was deleted since, change nothing: the newer
    wins.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 6)
    entry = within(CONFIGMAPS, namespace)
    async with site.mirror(entry):
        await site.mirrored(CONFIGMAPS, namespace)
        before = site.checkpoint(CONFIGMAPS)
        for number in range(3):
            for key in keys[:4]:
                await site.cluster.patch(CONFIGMAPS, key, changed(CONFIGMAPS, f"{number}"))
        for key in keys[:2]:
            await site.cluster.delete(CONFIGMAPS, key)
        await site.mirrored(CONFIGMAPS, namespace)
        await site.until(lambda: site.table.tombstones("configmaps").keys() == set(keys[:2]), "tombstones")
    await site.write(f"UPDATE syncd_streams SET resource_version = '{before}' WHERE resource = 'configmaps'")
    await site.watch_writes()
    async with site.mirror(entry):
        await site.cluster.create(CONFIGMAPS, namespace, made(CONFIGMAPS, "after"))
        await site.mirrored(CONFIGMAPS, namespace)
        assert site.asked.watches(CONFIGMAPS)[-1].resource_version == before
    assert {key for _, key, _ in site.table.writes()} == {f"{namespace}/after"}


@pytest.mark.cluster
async def test_28_another_object_under_the_same_name(site: Site) -> None:
    """An object that is deleted and made anew under its name is another: the row is the new one's, a
    tombstone the old one's.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 3)
    async with site.mirror(within(CONFIGMAPS, namespace)):
        await site.mirrored(CONFIGMAPS, namespace)
        old = site.rows(CONFIGMAPS)[keys[0]].uid
        await site.cluster.delete(CONFIGMAPS, keys[0])
        new = await site.cluster.create(CONFIGMAPS, *_again(keys[0]))
        await site.mirrored(CONFIGMAPS, namespace)
        assert site.rows(CONFIGMAPS)[keys[0]].uid == new["metadata"]["uid"] != old
        await site.until(lambda: keys[0] in site.table.tombstones("configmaps"), "its tombstone")
    assert site.table.tombstones("configmaps")[keys[0]][:2] == ("deleted", old)


def _again(key: str) -> tuple[str, Json]:
    namespace, name = parts(key)
    return namespace, made(CONFIGMAPS, name, "again")


@pytest.mark.cluster
async def test_29_in_and_out_of_a_selection(site: Site) -> None:
    """An object that no longer matches a stream's selector leaves the table, which says that it left the
    selection and not that it was deleted; when it matches again it is back.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 5)
    async with site.mirror(within(CONFIGMAPS, namespace, label_selector="made=here")):
        await site.mirrored(CONFIGMAPS, namespace, selector="made=here")
        assert site.rows(CONFIGMAPS).keys() == set(keys)
        await site.cluster.patch(CONFIGMAPS, keys[0], {"metadata": {"labels": {"made": "elsewhere"}}})
        await site.until(lambda: keys[0] not in site.rows(CONFIGMAPS), "it left")
        assert site.table.tombstones("configmaps")[keys[0]][0] == "left_selection"
        await site.cluster.patch(CONFIGMAPS, keys[0], {"metadata": {"labels": {"made": "here"}}})
        await site.mirrored(CONFIGMAPS, namespace, selector="made=here")
        assert site.rows(CONFIGMAPS).keys() == set(keys)


@pytest.mark.simulated("a lease that expires with several events on it")
async def test_55_several_deletions_at_one_version(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several objects that are deleted at one version none is missed, though it dies between two of
    them: a watch from that version would bring none of the rest.
    """
    keys = [f"default/e{number}" for number in range(3)]
    for key in keys:
        metadata = {"name": parts(key)[1], "namespace": "default"}
        site.simulator.create("", "events", {"metadata": metadata, "reason": "R"})
    monkeypatch.setitem(Gathering.__init__.__kwdefaults__ or {}, "max_changes", 1)
    commit = MirrorStore.commit
    died: list[str] = []

    async def dies(store: MirrorStore, row: StreamRow, batch: Batch) -> Committed:
        if died:
            raise SystemError("it is dead")
        done = await commit(store, row, batch)
        if batch.deletes:
            died.append(batch.deletes[0].key)
        return done

    async with site.mirror("events"):
        await site.level(("", "events"))
        monkeypatch.setattr(MirrorStore, "commit", dies)
        version = site.simulator.delete_many("", "events", keys)
        await site.until(lambda: died, "the first is committed")
    assert len(site.table.rows("", "events")) == 2
    checkpoint = site.table.one("SELECT resource_version FROM syncd_streams WHERE resource = 'events'")
    assert int(checkpoint) < version
    monkeypatch.setattr(MirrorStore, "commit", commit)
    async with site.mirror("events"):
        await site.level(("", "events"))
        assert site.table.rows("", "events") == {}
    assert site.table.tombstones("events").keys() == set(keys)


@pytest.mark.cluster
async def test_82_what_is_kept_of_the_deleted(site: Site) -> None:
    """Of each object that is gone its last state is kept, whether its deletion was seen or only found; a
    row and its tombstone are never there together.
    """
    namespace = await site.namespace()
    keys = await site.fill(CONFIGMAPS, namespace, 6)
    entry = within(CONFIGMAPS, namespace)
    async with site.mirror(entry):
        await site.cluster.patch(CONFIGMAPS, keys[0], changed(CONFIGMAPS, "at the end"))
        await site.mirrored(CONFIGMAPS, namespace)
        last = {key: row.document for key, row in site.rows(CONFIGMAPS).items()}
        await site.cluster.delete(CONFIGMAPS, keys[0])
        await site.mirrored(CONFIGMAPS, namespace)
    await site.cluster.delete(CONFIGMAPS, keys[1])
    await site.write("UPDATE syncd_streams SET resource_version = NULL WHERE resource = 'configmaps'")
    async with site.mirror(entry):
        await site.mirrored(CONFIGMAPS, namespace)
    kept = site.table.ask("SELECT object_key, cause, object FROM syncd_deleted_objects")
    assert {(key, cause) for key, cause, _ in kept} == {(keys[0], "deleted"), (keys[1], "snapshot")}
    for key, _, document in kept:
        found: Json = json.loads(document) if isinstance(document, str) else document
        for each in (found, last[key]):
            each["metadata"].pop("resourceVersion")  # that of a deletion is its own
        assert found == last[key]
    both = "SELECT count(*) FROM syncd_objects o JOIN syncd_deleted_objects d ON d.uid = o.uid"
    assert site.table.one(both) == 0
