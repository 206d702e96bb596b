"""Deletion vectors in Puffin files: what is written is read back, and what is broken is not taken for anything."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from icefloe.rows import NotPlainError
from icefloe.rows.vectors import parse, puffin

POSITIONS = st.lists(st.integers(0, 2**33), min_size=1, max_size=50)


@given(st.dictionaries(st.sampled_from(["file:/a.parquet", "s3://b/c.parquet", "d"]), POSITIONS, min_size=1))
def test_vectors_are_read_where_the_footer_says_they_are(given: dict[str, list[int]]) -> None:
    data, places = puffin({path: BitMap64(positions) for path, positions in given.items()})
    assert data[:4] == data[-4:] == b"PFA1"
    (length,) = struct.unpack_from("<I", data, len(data) - 12)
    footer = data[-12 - length : -12]
    assert data[-16 - length : -12 - length] == b"PFA1"
    described = {one["properties"]["referenced-data-file"]: one for one in json.loads(footer)["blobs"]}
    assert set(described) == set(given)
    for path, positions in given.items():
        one, place = described[path], places[path]
        assert (one["type"], one["offset"], one["length"]) == ("deletion-vector-v1", place.offset, place.size)
        assert int(one["properties"]["cardinality"]) == place.rows == len(set(positions))
        assert list(parse(data[place.offset : place.offset + place.size])) == sorted(set(positions))


@pytest.mark.parametrize("at", [0, 5, 14, -1], ids=["length", "magic", "bitmap", "checksum"])
def test_a_broken_vector_is_refused(at: int) -> None:
    data, places = puffin({"a": BitMap64([1, 5, 9])})
    blob = bytearray(data[places["a"].offset :][: places["a"].size])
    parse(bytes(blob))
    blob[at] ^= 1
    with pytest.raises(NotPlainError, match="deletion vector"):
        parse(bytes(blob))
    with pytest.raises(NotPlainError, match="3 bytes"):
        parse(b"abc")
