"""Lines of a watch and envelopes of lists, however the bytes arrive."""

from __future__ import annotations

import itertools
import json
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.core.document import Transform
from syncd.core.errors import Expired, ProtocolError, SyncdError
from syncd.core.frames import EventType, Frame, LineSplitter, parse_frame, parse_page
from syncd.core.listwatch import ListWatch
from tests.fakes.recording import NAMES, recording
from tests.fakes.value import PODS, added, bookmark, compact, deleted, failed, modified, page, pod, status

STREAM = (
    added("a", 101, text="\u0085 \u2028 \u2029 \x0b \x0c \x1c")
    + modified("b", 102, text="日本語")
    + deleted("c", 103)
    + deleted("d", 103)
    + bookmark(110)
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def lines_of(chunks: list[bytes]) -> list[bytes]:
    splitter = LineSplitter()
    return [line for chunk in chunks for line in splitter.feed(chunk)]


@given(st.lists(st.integers(min_value=0), max_size=40))
def test_any_split_of_the_bytes_gives_the_same_changes(places: list[int]) -> None:
    def changes(chunks: list[bytes]) -> list[object]:
        machine = ListWatch(Transform(PODS), resource_version="100")
        machine.watch_opened()
        frames = [frame for line in lines_of(chunks) if (frame := parse_frame(line))]
        return [change for frame in frames for change in machine.event_received(frame)]

    assert changes(cut(STREAM, places)) == changes([STREAM])


@pytest.mark.parametrize("place", range(len(STREAM)))
def test_split_at_every_byte(place: int) -> None:
    """list-watch.md §13.22: also inside U+0085 and U+2028, which other splitters take for line ends."""
    assert lines_of([STREAM[:place], STREAM[place:]]) == STREAM.split(b"\n")[:-1]


def test_a_line_without_its_newline_is_never_given() -> None:
    assert lines_of([added("a", 1), added("b", 2)[:-1]]) == [added("a", 1)[:-1]]


def test_blank_lines_and_carriage_returns() -> None:
    assert lines_of([b"\n\r\n \n" + bookmark(5)[:-1] + b"\r\n"]) == [bookmark(5)[:-1] + b"\r"]
    frame = parse_frame(bookmark(5)[:-1] + b"\r")
    assert frame is not None
    assert frame.bookmark() == ("5", False)


def test_an_event_of_five_mebibytes_over_a_thousand_chunks_costs_what_it_weighs() -> None:
    """Joined once: adding to one bytes object for each chunk would copy 2.5 GB."""
    data = added("big", 7, text="x" * 5 * 1024 * 1024)
    step = len(data) // 1000
    began = process_time()
    lines = lines_of([data[start : start + step] for start in range(0, len(data), step)])
    assert process_time() - began < 1.0
    assert lines == [data[:-1]]


def test_ten_thousand_events_in_one_chunk() -> None:
    assert len(lines_of([b"".join(added(f"p{n}", n + 1) for n in range(10_000))])) == 10_000


def test_a_line_past_the_limit_is_a_fault() -> None:
    splitter = LineSplitter(limit=10)
    splitter.feed(b"12345")
    with pytest.raises(ProtocolError):
        splitter.feed(b"678901")


def test_a_bookmark_says_its_version_and_nothing_else() -> None:
    """list-watch.md §13.15: empty spec, null timestamps."""
    for raw, want in ((bookmark(7), ("7", False)), (bookmark(8, ends_initial=True), ("8", True))):
        frame = parse_frame(raw)
        assert frame is not None
        assert (frame.type, frame.bookmark()) == (EventType.BOOKMARK, want)


@pytest.mark.parametrize("version", ["", "0"])
def test_a_bookmark_that_could_not_be_resumed_from_is_refused(version: str) -> None:
    frame = parse_frame(bookmark(version))
    assert frame is not None
    with pytest.raises(ProtocolError):
        frame.bookmark()


def test_an_error_event_is_the_error_it_means() -> None:
    frame = parse_frame(failed(410, "Expired"))
    assert frame is not None
    assert isinstance(frame.error(), Expired)


def test_an_unknown_type_is_no_frame() -> None:
    assert parse_frame(b'{"type":"SURPRISE","object":{}}') is None


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"null", b'{"type":"ADDED"}', b'{"object":{}}', b'{"type":7,"object":{}}']
)
def test_what_is_not_an_event_is_refused(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_frame(raw)


# --- pages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("metadata_last", [False, True])
def test_both_key_orders(metadata_last: bool) -> None:
    found = parse_page(page(50, [pod("a", 1), pod("b", 2)], "t", metadata_last=metadata_last))
    assert (found.resource_version, found.continue_token, len(found.items)) == ("50", "t", 2)
    assert json.loads(bytes(found.items[1])) == pod("b", 2)


def test_null_items_are_none() -> None:
    found = parse_page(page(50, None))
    assert (found.items, found.continue_token, found.remaining) == ([], None, None)


def test_a_list_is_called_what_its_definition_says() -> None:
    """A custom resource's `listKind` is any name but its kind."""
    found = parse_page(page(50, [pod("a", 1)]).replace(b"PodList", b"PodCollection"))
    assert (found.resource_version, len(found.items)) == ("50", 1)


@pytest.mark.parametrize(
    "body",
    [
        compact(status(410, "Expired")),
        page("", []),
        page("0", []),
        page(50, [])[:-1],
        page(50, [pod("a", 1)])[:40],
        b"",
        b"null",
        b'{"kind":"PodList","items":[]}',
        b'{"kind":"PodList","metadata":{"resourceVersion":"1"}}',
        b'{"kind":"Pod","metadata":{"resourceVersion":"1"}}',
    ],
)
def test_nothing_is_concluded_from_what_is_not_a_whole_list(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_page(body)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("list-", "crd-list", "rbac-"))])
def test_every_recorded_list_parses_and_every_refusal_does_not(name: str) -> None:
    answer = recording(name)
    if answer.status != 200 or answer.is_watch:
        with pytest.raises(ProtocolError):
            parse_page(answer.body)
        return
    found, want = parse_page(answer.body), json.loads(answer.body)
    assert found.resource_version == want["metadata"]["resourceVersion"]
    assert found.continue_token == (want["metadata"].get("continue") or None)
    assert len(found.items) == len(want["items"] or [])
    assert found.remaining == want["metadata"].get("remainingItemCount")


@pytest.mark.parametrize("name", [name for name in NAMES if recording(name).is_watch])
def test_every_recorded_watch_parses(name: str) -> None:
    frames = [parse_frame(line) for line in LineSplitter().feed(recording(name).body)]
    assert all(frames)
    for frame in frames:
        if frame is not None and frame.type is EventType.BOOKMARK:
            assert int(frame.bookmark()[0]) > 0


@given(st.binary())
def test_any_bytes_are_a_result_or_an_error_of_ours(raw: bytes) -> None:
    for attempt in (parse_frame, parse_page, lambda data: Frame(EventType.BOOKMARK, data).bookmark()):
        try:
            attempt(raw)
        except SyncdError:
            continue
    assert isinstance(Frame(EventType.ERROR, raw).error(), SyncdError)


def test_nesting_past_the_stack_is_cut() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    frame = parse_frame(b'{"type":"ADDED","object":' + deep + b"}")
    assert frame is not None and len(frame.raw) < 1_000
    found = parse_page(b'{"kind":"L","metadata":{"resourceVersion":"1"},"items":[1,' + deep + b",2]}")
    assert [bytes(found.items[0]), bytes(found.items[2])] == [b"1", b"2"]
    with pytest.raises(ProtocolError):
        parse_page(b'{"kind":"L","metadata":{"resourceVersion":"1"},"items":[' + deep[:-1] + b"]}")
