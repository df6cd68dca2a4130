"""Gzip of any number of members, cut anywhere."""

from __future__ import annotations

import gzip
import itertools
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncd.core.errors import ProtocolError
from syncd.kube.encoding import Gunzip, Plain, decoder


@given(st.lists(st.binary(max_size=200), min_size=1), st.lists(st.integers(0, 3000)))
def test_any_split_of_any_members_gives_the_same_bytes(members: list[bytes], cuts: list[int]) -> None:
    data = b"".join(map(gzip.compress, members))
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    inflater = Gunzip()
    got = b"".join(
        piece for begin, end in itertools.pairwise(places) for piece in inflater.feed(data[begin:end])
    )
    assert got == b"".join(members)
    assert inflater.complete


def test_a_flushed_event_comes_out_before_its_member_ends() -> None:
    member = zlib.compressobj(wbits=31)
    flushed = member.compress(b"event\n") + member.flush(zlib.Z_SYNC_FLUSH)
    inflater = Gunzip()
    assert b"".join(inflater.feed(flushed)) == b"event\n"
    assert not inflater.complete


def test_a_tiny_chunk_that_inflates_to_much_comes_in_pieces() -> None:
    pieces = list(Gunzip().feed(gzip.compress(b"\0" * (5 << 20))))
    assert sum(map(len, pieces)) == 5 << 20
    assert max(map(len, pieces)) <= 1 << 20


def test_what_is_not_gzip_is_refused() -> None:
    with pytest.raises(ProtocolError, match="gzip"):
        list(Gunzip().feed(b"plain text"))
    with pytest.raises(ProtocolError, match="gzip"):
        list(Gunzip().feed(gzip.compress(b"a") + b"trailing junk"))


def test_the_header_decides() -> None:
    assert isinstance(decoder(""), Plain)
    assert isinstance(decoder("Identity"), Plain)
    assert isinstance(decoder(" GZIP "), Gunzip)
    for other in ("br", "deflate", "gzip, gzip", "zstd"):
        with pytest.raises(ProtocolError, match="not asked for"):
            decoder(other)
