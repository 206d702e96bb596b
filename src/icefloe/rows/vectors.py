"""Deletion vectors (format version 3): which rows of a data file are deleted, as a bitmap of their positions in a Puffin file.

A blob is its length, a magic number, the 64-bit Roaring bitmap in its portable form, and a checksum of the two.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from pyroaring import BitMap64

from icefloe.rows import NotPlainError

_MAGIC = 1681511377
"""Of a vector: the bytes D1 D3 39 64."""
_PUFFIN = b"PFA1"
_BLOB = "deletion-vector-v1"
_ROW_POSITION = 2147483645
"""The reserved id of the column ``_pos``."""


@dataclass(frozen=True, slots=True)
class Vector:
    """Where a live vector lies."""

    path: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Blob:
    """A vector's place in a Puffin file that was just made, and how many rows it takes away."""

    offset: int
    size: int
    rows: int


def parse(blob: bytes) -> BitMap64:
    """The positions in a blob."""
    if len(blob) < 20:
        raise NotPlainError(f"a deletion vector of {len(blob)} bytes")
    (length,) = struct.unpack_from(">I", blob)
    vector = blob[4:-4]
    (checksum,) = struct.unpack_from(">I", blob, len(blob) - 4)
    if length != len(vector) or struct.unpack_from("<I", vector)[0] != _MAGIC or zlib.crc32(vector) != checksum:
        raise NotPlainError("a deletion vector that is not what its length, magic number and checksum say")
    return BitMap64.deserialize(vector[4:])


def puffin(vectors: Mapping[str, BitMap64]) -> tuple[bytes, dict[str, Blob]]:
    """A Puffin file of the vectors of these data files, and each one's place in it."""
    data = bytearray(_PUFFIN)
    places: dict[str, Blob] = {}
    described = []
    for path, positions in vectors.items():
        positions.run_optimize()
        vector = struct.pack("<I", _MAGIC) + positions.serialize()
        blob = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
        places[path] = Blob(len(data), len(blob), len(positions))
        described.append(
            {
                "type": _BLOB,
                "fields": [_ROW_POSITION],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(data),
                "length": len(blob),
                "properties": {"referenced-data-file": path, "cardinality": str(len(positions))},
            }
        )
        data += blob
    footer = json.dumps({"blobs": described, "properties": {"created-by": "icefloe"}}).encode()
    data += _PUFFIN + footer + struct.pack("<I", len(footer)) + bytes(4) + _PUFFIN
    return bytes(data), places
