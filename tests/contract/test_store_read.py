"""What a reflector reads: ranges in byte order on every dialect, the newest row, tombstones, documents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from syncd.core.change import KeyRange
from syncd.core.document import same_content
from syncd.core.resource import Cause
from tests.contract.mirror_case import Mirror, Place, gone, item, keys, opened

# one of every Unicode plane in use and of every length in UTF-8, around the separator, and both cases
KEYS = (
    "ord-b/a ord/a ord.b/a A/b a a/ a/B a/b a/\u00e4 a/\u00df a/\u017f a/\u03a9 a/\u4e00 a/\uffee a/\ue000"
    " a/\U0001f600 a/\U00020000 a/\U00030000 a/\U000e0001 a/\U000f0000 a/\U0010fffd"
    " a/b-c a/b.c a/b/c a/b_c a/0 a/~"
)
ORDERED = sorted([*KEYS.split(" "), "a/b c"], key=str.encode)


@pytest.fixture
async def mirror(place: Place) -> AsyncIterator[Mirror]:
    async with opened(place) as mirror:
        yield mirror


async def test_keys_come_in_byte_order_whatever_the_plane(mirror: Mirror) -> None:
    row = await mirror.open(*[item(key, 5) for key in ORDERED])
    assert keys(await mirror.store.rows(row, KeyRange())) == ORDERED
    assert [
        key for (key,) in mirror.look("SELECT object_key FROM syncd_objects ORDER BY object_key")
    ] == ORDERED


async def test_a_range_is_what_python_compares_as_bytes(mirror: Mirror) -> None:
    row = await mirror.open(*[item(key, 5) for key in ORDERED])
    for after in (None, *ORDERED[::4]):
        for upto in (None, *ORDERED[::5]):
            wanted = KeyRange(after, upto)
            found = keys(await mirror.store.rows(row, wanted))
            assert found == [key for key in ORDERED if key in wanted]


async def test_some_keys_of_many(mirror: Mirror) -> None:
    row = await mirror.open(*[item(f"a/{n:04}", 5) for n in range(2500)])
    wanted = [f"a/{n:04}" for n in range(0, 5000, 2)]
    assert keys(await mirror.store.rows(row, wanted)) == [f"a/{n:04}" for n in range(0, 2500, 2)]
    assert await mirror.store.rows(row, []) == []


async def test_documents_only_where_asked(mirror: Mirror) -> None:
    document = '{"kind":"Pod","n":1.50,"text":"ä\\u00e4\U0001f600","list":[1,null,{"b":2,"a":1}]}'
    row = await mirror.open(item("a/x", 5, document=document))
    [bare] = await mirror.store.rows(row, KeyRange())
    assert (bare.document, bare.namespace, bare.name, bare.uid) == (None, "a", "x", "u")
    [full] = await mirror.store.rows(row, KeyRange(), documents=True)
    assert full.document is not None
    assert same_content(full.document, document)


async def test_the_newest_is_by_number(mirror: Mirror) -> None:
    row = await mirror.open()
    assert await mirror.store.newest(row) is None
    row = (await mirror.put(row, item("a/o", "opaque"))).row
    assert await mirror.store.newest(row) is None
    await mirror.put(row, item("a/x", 9), item("a/y", 10), item("a/z", 8))
    found = await mirror.store.newest(row)
    assert found is not None
    assert (found.key, found.resource_version) == ("a/y", "10")


async def test_tombstones_come_newest_last(mirror: Mirror) -> None:
    row = await mirror.open()
    for version, uid in ((90, "one"), (95, "two"), (93, "three")):
        row = (await mirror.drop(row, gone("a/x", version, uid))).row
    row = (await mirror.drop(row, gone("a/y", 96, cause=Cause.SNAPSHOT))).row
    found = await mirror.store.tombstones(row, ["a/x"])
    assert [(one.uid, one.resource_version) for one in found] == [
        ("one", "90"),
        ("two", "95"),
        ("three", "93"),
    ]
    assert [one.cause for one in await mirror.store.tombstones(row, ["a/y", "a/none"])] == [Cause.SNAPSHOT]


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02 03:04:05"),
        ("2026-01-02T03:04:05.123456Z", "2026-01-02 03:04:05.123456"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02 01:04:05"),
        ("0001-01-01T00:00:00+10:00", None),
        ("soon", None),
        ("2026-01-02T03:04:05", None),
        ("", None),
        (None, None),
    ],
)
async def test_times_of_the_api_are_utc_and_odd_ones_are_null(
    mirror: Mirror, text: str | None, stored: str | None
) -> None:
    await mirror.open(item("a/x", 5, creation_timestamp=text))
    [(found,)] = mirror.look("SELECT creation_timestamp FROM syncd_objects")
    if mirror.place.dialect == "sqlite":
        wanted = stored and (stored if "." in stored else f"{stored}.000000")
        assert found == wanted
    else:
        assert (found and found.astimezone(None).timestamp()) == (stored and _timestamp(stored))


def _timestamp(stored: str) -> float:
    return datetime.fromisoformat(stored).replace(tzinfo=UTC).timestamp()


async def test_every_time_on_sqlite_has_six_digits(mirror: Mirror) -> None:
    await mirror.open(item("a/x", 5))
    if mirror.place.dialect == "sqlite":
        query = (
            "SELECT first_seen_at, committed_at, committed_at > datetime('now', '-1 hour') FROM syncd_objects"
        )
        [(first, committed, recent)] = mirror.look(query)
        assert len(first) == len(committed) == len("2026-01-01 00:00:00.000000")
        assert recent == 1
    else:
        query = "SELECT committed_at > now() - interval '1 hour' FROM syncd_objects"
        assert mirror.look(query) == [(True,)]
