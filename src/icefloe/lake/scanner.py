"""A reader of manifest entries that decodes only what is asked for.

A capture with ranges looks at two or three columns of every file; a manifest has six maps over all columns for each. fastavro
decodes them all, and its projection costs more than it saves (1.13: 20,000 entries a second whole, 10,000 projected). This
reader is put together from the file's own schema, skips what nobody asked for without building it, and gives some 50,000.

It reads what Iceberg writes: records, unions, arrays and the plain types. :class:`UnsupportedSchemaError` is raised for anything
else, and the caller falls back to fastavro. Logical types are left to the caller: a date is the number of its day.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
Skipper: TypeAlias = Callable[[bytes, int], int]

_VARINT = rb"(?:[\x80-\xff]*[\x00-\x7f])"
_MOST_AT_ONCE = 4096


class UnsupportedSchemaError(ValueError):
    """The schema has something that no manifest has."""


def entry_reader(schema: Mapping[str, Any], fields: frozenset[str], keys: frozenset[int]) -> Reader:
    """A reader of whole entries. Of ``data_file`` only ``fields`` are decoded; of maps by column only ``keys``.

    Maps come as plain dicts of the wanted keys, so a missing key and a key nobody asked for look alike.
    """

    def part(field: Mapping[str, Any]) -> tuple[str, Reader | None, Skipper]:
        name, kind = field["name"], field["type"]
        if name != "data_file":
            return name, _reader(kind, keys), _skipper(kind)
        inner = [
            (f["name"], _reader(f["type"], keys) if f["name"] in fields else None, _skipper(f["type"]))
            for f in kind["fields"]
        ]
        return name, _record(inner), _skipper(kind)

    return _record([part(field) for field in schema["fields"]])


def read_long(buffer: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint."""
    byte = buffer[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number = byte & 0x7F
    shift = 7
    while True:
        byte = buffer[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def _record(parts: list[tuple[str, Reader | None, Skipper]]) -> Reader:
    """A dict of the parts that have a reader. Neighbouring parts that are only skipped cost one call each."""

    def read(buffer: bytes, at: int) -> tuple[dict[str, Any], int]:
        record = {}
        for name, reader, skip in parts:
            if reader is None:
                at = skip(buffer, at)
            else:
                record[name], at = reader(buffer, at)
        return record, at

    return read


def _reader(kind: Any, keys: frozenset[int]) -> Reader:
    if isinstance(kind, list):
        return _union(kind, keys)
    name = kind["type"] if isinstance(kind, Mapping) else kind
    if name in ("int", "long"):
        return read_long
    if name == "bytes":
        return _bytes
    if name == "string":
        return _string
    if name == "null":
        return lambda buffer, at: (None, at)
    if name == "boolean":
        return lambda buffer, at: (buffer[at] == 1, at + 1)
    if name in ("float", "double"):
        size, unpack = (4, struct.Struct("<f").unpack_from) if name == "float" else (8, struct.Struct("<d").unpack_from)
        return lambda buffer, at: (unpack(buffer, at)[0], at + size)
    if name == "fixed":
        length: int = kind["size"]
        return lambda buffer, at: (buffer[at : at + length], at + length)
    if name == "record":
        return _record([(f["name"], _reader(f["type"], keys), _skipper(f["type"])) for f in kind["fields"]])
    if name == "array":
        return _column_map(kind["items"], keys) if _is_column_map(kind["items"]) else _array(kind["items"], keys)
    raise UnsupportedSchemaError(f"{kind!r} is not read here")


def _skipper(kind: Any) -> Skipper:
    if isinstance(kind, list):
        branches = [_skipper(branch) for branch in kind]

        def skip_union(buffer: bytes, at: int) -> int:
            branch, at = _branch(buffer, at)
            return branches[branch](buffer, at)

        return skip_union
    name = kind["type"] if isinstance(kind, Mapping) else kind
    if name in ("int", "long"):
        return _skip_long
    if name in ("bytes", "string"):
        return _skip_bytes
    if name == "array":
        return _skip_array(kind["items"])
    if name == "record":
        parts = [_skipper(f["type"]) for f in kind["fields"]]

        def skip_record(buffer: bytes, at: int) -> int:
            for skip in parts:
                at = skip(buffer, at)
            return at

        return skip_record
    sizes = {"null": 0, "boolean": 1, "float": 4, "double": 8}
    if name in sizes or name == "fixed":
        size: int = kind["size"] if name == "fixed" else sizes[name]
        return lambda buffer, at: at + size
    raise UnsupportedSchemaError(f"{kind!r} is not read here")


def _union(kinds: list[Any], keys: frozenset[int]) -> Reader:
    branches = [_reader(kind, keys) for kind in kinds]

    def read(buffer: bytes, at: int) -> tuple[Any, int]:
        branch, at = _branch(buffer, at)
        return branches[branch](buffer, at)

    return read


def _branch(buffer: bytes, at: int) -> tuple[int, int]:
    """Python would take a negative branch of a broken file for one counted from the end."""
    byte = buffer[at]
    if byte in (0, 2):  # an optional field: null and the other
        return byte >> 1, at + 1
    branch, at = read_long(buffer, at)
    if branch < 0:
        raise ValueError(f"a union has no branch {branch}")
    return branch, at


def _bytes(buffer: bytes, at: int) -> tuple[bytes, int]:
    length, at = read_long(buffer, at)
    end = at + length
    if length < 0 or end > len(buffer):
        raise ValueError("a value is longer than its block")
    return buffer[at:end], end


def _string(buffer: bytes, at: int) -> tuple[str, int]:
    raw, at = _bytes(buffer, at)
    return raw.decode("utf-8"), at


def _array(items: Any, keys: frozenset[int]) -> Reader:
    item = _reader(items, keys)

    def read(buffer: bytes, at: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        while True:
            count, at = _block(buffer, at)
            if count == 0:
                return values, at
            for _ in range(count):
                value, at = item(buffer, at)
                values.append(value)

    return read


def _column_map(items: Mapping[str, Any], keys: frozenset[int]) -> Reader:
    """A map by column id is an array of key and value; only wanted values are built."""
    kind = items["fields"][1]["type"]
    return _bytes_by_column(keys) if kind == "bytes" else _values_by_column(_reader(kind, keys), _skipper(kind), keys)


def _values_by_column(value: Reader, skip: Skipper, keys: frozenset[int]) -> Reader:
    def read(buffer: bytes, at: int) -> tuple[dict[int, Any], int]:
        entries: dict[int, Any] = {}
        while True:
            count, at = _block(buffer, at)
            if count == 0:
                return entries, at
            for _ in range(count):
                byte = buffer[at]
                if byte < 0x80:  # the usual case, spelt out: a call costs more than the work
                    key, at = (byte >> 1) ^ -(byte & 1), at + 1
                else:
                    key, at = read_long(buffer, at)
                if key in keys:
                    entries[key], at = value(buffer, at)
                else:
                    at = skip(buffer, at)

    return read


def _bytes_by_column(keys: frozenset[int]) -> Reader:
    """Bounds: the costliest maps, so keys and lengths of one byte are read without a call."""

    def read(buffer: bytes, at: int) -> tuple[dict[int, bytes], int]:
        entries: dict[int, bytes] = {}
        size = len(buffer)
        while True:
            count, at = _block(buffer, at)
            if count == 0:
                return entries, at
            for _ in range(count):
                byte = buffer[at]
                if byte < 0x80:
                    key, at = (byte >> 1) ^ -(byte & 1), at + 1
                else:
                    key, at = read_long(buffer, at)
                byte = buffer[at]
                if byte < 0x80:
                    length, start = (byte >> 1) ^ -(byte & 1), at + 1
                else:
                    length, start = read_long(buffer, at)
                at = start + length
                if length < 0 or at > size:
                    raise ValueError("a value is longer than its block")
                if key in keys:
                    entries[key] = buffer[start:at]

    return read


def _skip_array(items: Any) -> Skipper:
    """Arrays of numbers, and of pairs of numbers, are skipped by one regular expression: no loop in Python."""
    if _is_column_map(items) and items["fields"][1]["type"] == "bytes":
        nothing = _bytes_by_column(frozenset())
        return lambda buffer, at: nothing(buffer, at)[1]
    numbers = _numbers_in(items)
    skip = _skipper(items)

    def skip_array(buffer: bytes, at: int) -> int:
        while True:
            count, at = _block(buffer, at)
            if count == 0:
                return at
            if numbers and count * numbers <= _MOST_AT_ONCE:
                match = _varints(count * numbers)(buffer, at)
                if match is None:
                    raise ValueError("an array is longer than its block")
                at = match.end()
            else:
                for _ in range(count):
                    at = skip(buffer, at)

    return skip_array


def _block(buffer: bytes, at: int) -> tuple[int, int]:
    """How many items follow. A negative count comes with the block's size in bytes, which is not needed here."""
    byte = buffer[at]
    if byte < 0x80 and not byte & 1:
        return byte >> 1, at + 1
    count, at = read_long(buffer, at)
    if count < 0:
        _, at = read_long(buffer, at)
    return abs(count), at


def _is_column_map(items: Any) -> bool:
    if not isinstance(items, Mapping) or items.get("type") != "record":
        return False
    return [field["name"] for field in items["fields"]] == ["key", "value"] and items["fields"][0]["type"] == "int"


def _numbers_in(items: Any) -> int:
    """How many varints an item is made of; 0 if it is made of anything else."""
    if items in ("int", "long"):
        return 1
    if isinstance(items, Mapping) and items.get("type") == "record":
        kinds = [field["type"] for field in items["fields"]]
        return len(kinds) if all(kind in ("int", "long") for kind in kinds) else 0
    return 0


@cache
def _varints(count: int) -> Callable[[bytes, int], re.Match[bytes] | None]:
    return re.compile(_VARINT + b"{%d}" % count, re.DOTALL).match


def _skip_long(buffer: bytes, at: int) -> int:
    while buffer[at] & 0x80:
        at += 1
    return at + 1


def _skip_bytes(buffer: bytes, at: int) -> int:
    length, at = read_long(buffer, at)
    if length < 0 or at + length > len(buffer):
        raise ValueError("a value is longer than its block")
    return at + length
