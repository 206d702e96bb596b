"""``metadata.json`` of any age is read, and a broken one is one error with the file's name."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icefloe.lake.errors import ColumnNotFoundError, MetadataUnreadableError
from icefloe.lake.metadata import TableMetadata
from icefloe.lake.schema import Schema
from tests.unit.lake.metadata_json import Past, table_metadata

RAW = table_metadata([Past(1, None, 1), Past(2, 1, 2)], {"main": 2, "audit": 1}).raw


def test_compressed_metadata_is_read() -> None:
    data = gzip.compress(json.dumps(RAW).encode())
    assert TableMetadata.parse(data, location="x").refs["main"].snapshot_id == 2


def test_the_oldest_metadata_has_one_schema_and_one_spec() -> None:
    raw = {
        "format-version": 1,
        "location": "s3://b/t/",
        "schema": {"type": "struct", "fields": [{"id": 1, "name": "a", "type": "long", "required": True}]},
        "partition-spec": [{"name": "a", "source-id": 1, "transform": "identity"}],
        "current-snapshot-id": -1,
    }
    metadata = TableMetadata.of(raw, location="x")
    assert metadata.location == "s3://b/t"
    assert metadata.uuid == ""
    assert metadata.refs == {}
    assert metadata.schema.fields[1].name == "a"
    assert [(one.id, one.name) for one in metadata.specs[0].fields] == [(1000, "a")]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\x1f\x8bgarbage",
        gzip.compress(b"{}", mtime=0)[:-4],
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_metadata_is_unreadable(data: bytes) -> None:
    with pytest.raises(MetadataUnreadableError) as raised:
        TableMetadata.parse(data, location="file:/t/v1.json")
    assert raised.value.where == "file:/t/v1.json"


def damaged(dice: random.Random, value: Any) -> Any:
    """The JSON with one thing in it gone or of another kind."""
    if isinstance(value, dict) and value and dice.random() < 0.8:
        key = dice.choice(sorted(value))
        if dice.random() < 0.3:
            return {name: held for name, held in value.items() if name != key}
        return {**value, key: damaged(dice, value[key])}
    if isinstance(value, list) and value and dice.random() < 0.8:
        at = dice.randrange(len(value))
        return [*value[:at], damaged(dice, value[at]), *value[at + 1 :]]
    return dice.choice([None, 0, "x", [], {}, [None], {"a": 1}, True])


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_damaged_json_fails_when_it_is_read_or_not_at_all(seed: int) -> None:
    try:
        metadata = TableMetadata.of(damaged(random.Random(seed), RAW), location="x")
    except MetadataUnreadableError as error:
        assert error.where == "x"
        return
    for part in (metadata.snapshots, metadata.refs, metadata.schema, metadata.specs, metadata.properties):
        assert part is not None


NESTED = Schema.parse(
    {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "Id", "type": "long", "required": True},
            {
                "id": 2,
                "name": "place",
                "required": False,
                "type": {"type": "struct", "fields": [{"id": 3, "name": "city", "type": "string", "required": False}]},
            },
            {
                "id": 4,
                "name": "tags",
                "required": False,
                "type": {"type": "list", "element-id": 5, "element": "string", "element-required": False},
            },
            {"id": 6, "name": "v", "type": "variant", "required": False},
        ],
    }
)


def test_columns_are_found_as_spark_finds_them() -> None:
    assert NESTED.find("id", table="t").id == 1
    assert NESTED.find("place.city", table="t").path == ("place", "city")
    assert NESTED.find("v", table="t").type == "variant"
    assert not NESTED.find("tags", table="t").is_primitive


def test_an_unknown_column_suggests_the_nearest() -> None:
    with pytest.raises(ColumnNotFoundError) as raised:
        NESTED.find("place.cty", table="t")
    assert raised.value.hint == "did you mean 'place.city'?"
    with pytest.raises(ColumnNotFoundError) as raised:
        NESTED.find("zzzzz", table="t")
    assert "Id, place" in (raised.value.hint or "")
