"""The scanner against fastavro, over manifests of random shape."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icefloe.lake.errors import MetadataUnreadableError
from icefloe.lake.manifests import Manifest, ManifestFile

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)

PLAIN: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": ("int", INT),
    "long": ("long", LONG),
    "string": ("string", st.text(max_size=40)),
    "bytes": ("bytes", st.binary(max_size=200)),
    "boolean": ("boolean", st.booleans()),
    "float": ("float", st.floats(width=32, allow_nan=False)),
    "double": ("double", st.floats(allow_nan=False)),
    "fixed": ({"type": "fixed", "name": "f", "size": 5}, st.binary(min_size=5, max_size=5)),
    "longs": ({"type": "array", "items": "long"}, st.lists(LONG, max_size=8)),
    "strings": ({"type": "array", "items": "string"}, st.lists(st.text(max_size=5), max_size=4)),
}


def column_map(name: str, value: str) -> dict[str, Any]:
    fields = [{"name": "key", "type": "int"}, {"name": "value", "type": value}]
    return {"type": "array", "logicalType": "map", "items": {"type": "record", "name": f"kv_{name}", "fields": fields}}


@st.composite
def manifests(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A schema like a manifest's, with other members in another order, and entries of it."""
    members: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {}
    for number in range(draw(st.integers(0, 6))):
        word = draw(st.sampled_from(sorted(PLAIN)))
        kind, values = PLAIN[word]
        if word == "fixed":
            kind = {**kind, "name": f"fixed_{number}"}
        if draw(st.booleans()):
            kind, values = ["null", kind], st.none() | values
        members[f"m{number}"] = (kind, values)
    for name, value, strategy in (("counts", "long", LONG), ("bounds", "bytes", st.binary(max_size=20))):
        pairs = st.dictionaries(st.integers(0, 200), strategy, max_size=12)
        listed = pairs.map(lambda found: [{"key": key, "value": one} for key, one in found.items()])
        members[name] = (["null", column_map(name, value)], st.none() | listed)
    order = draw(st.permutations(sorted(members)))
    schema = {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int"},
            {"name": "snapshot_id", "type": ["null", "long"], "default": None},
            {
                "name": "data_file",
                "type": {
                    "type": "record",
                    "name": "r2",
                    "fields": [{"name": name, "type": members[name][0]} for name in order],
                },
            },
        ],
    }
    entry = st.fixed_dictionaries(
        {
            "status": st.integers(0, 2),
            "snapshot_id": st.none() | LONG,
            "data_file": st.fixed_dictionaries({name: members[name][1] for name in order}),
        }
    )
    return schema, draw(st.lists(entry, max_size=20))


def manifest(data: bytes, schema: dict[str, Any]) -> Manifest:
    file = ManifestFile("m.avro", len(data), 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, None, None, None)
    return Manifest(file, data, schema, {"avro.schema": json.dumps(schema)})


def written(schema: dict[str, Any], entries: list[dict[str, Any]], *, sync_interval: int = 16000) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, entries, codec="deflate", sync_interval=sync_interval)
    return out.getvalue()


@given(manifests(), st.sets(st.integers(0, 200), max_size=4), st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_scan_reads_what_fastavro_reads(case: Any, keys: set[int], random: Any, small_blocks: bool) -> None:
    schema, entries = case
    data = written(schema, entries, sync_interval=100 if small_blocks else 16000)
    names = [field["name"] for field in schema["fields"][2]["type"]["fields"]]
    wanted = frozenset(name for name in names if random.random() < 0.6)
    found = list(manifest(data, schema).scan(wanted, frozenset(keys)))
    expected = []
    for entry in fastavro.reader(io.BytesIO(data)):
        data_file = {}
        for name in names:
            value = entry["data_file"][name]
            if name in ("counts", "bounds") and value is not None:
                value = {pair["key"]: pair["value"] for pair in value if pair["key"] in keys}
            if name in wanted:
                data_file[name] = value
        expected.append({**entry, "data_file": data_file})
    assert found == expected


def test_a_schema_that_no_manifest_has_is_read_by_fastavro() -> None:
    kind = {"type": "map", "values": "long"}
    fields = [{"name": "odd", "type": kind}, {"name": "counts", "type": column_map("counts", "long")}]
    schema = {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int"},
            {"name": "data_file", "type": {"type": "record", "name": "r2", "fields": fields}},
        ],
    }
    entries = [
        {"status": 1, "data_file": {"odd": {"a": 1}, "counts": [{"key": 1, "value": 5}, {"key": 2, "value": 6}]}}
    ]
    found = list(manifest(written(schema, entries), schema).scan(frozenset({"counts"}), frozenset({2})))
    assert found[0]["data_file"]["counts"] == {2: 6}


@given(manifests(), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_broken_bytes_are_one_error_and_never_a_hang(case: Any, random: Any) -> None:
    schema, entries = case
    data = bytearray(written(schema, entries))
    for _ in range(random.randint(1, 4)):
        data[random.randrange(len(data))] = random.randrange(256)
    try:
        list(manifest(bytes(data), schema).scan(frozenset({"counts", "bounds"}), frozenset({1})))
    except MetadataUnreadableError as error:
        assert error.where == "m.avro"


def test_a_file_cut_short_is_an_error() -> None:
    schema = {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int"},
            {
                "name": "data_file",
                "type": {"type": "record", "name": "r2", "fields": [{"name": "path", "type": "string"}]},
            },
        ],
    }
    data = written(schema, [{"status": 1, "data_file": {"path": "x" * 100}}] * 50)
    with pytest.raises(MetadataUnreadableError):
        list(manifest(data[:-30], schema).scan(frozenset({"path"})))
