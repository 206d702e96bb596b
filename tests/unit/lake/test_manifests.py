"""Manifests and their lists: what is written is read back, what is inherited stays, and broken bytes are one error."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list

from icefloe.lake.errors import MetadataMissingError, MetadataUnreadableError
from icefloe.lake.manifests import DATA, DELETES, EntryStatus, Manifest, ManifestFile, filtered, read_list, write_list
from tests.unit.lake.manifest_avro import LINE, entry, listed, manifest_bytes

ids = st.integers(1, 2**62)
counts = st.integers(0, 2**31 - 1)
rows = st.integers(0, 2**62)


def reader(**files: bytes) -> Callable[[str], bytes]:
    return lambda path: files[path]


@st.composite
def list_lines(draw: st.DrawFn, version: int) -> ManifestFile:
    """A line of a manifest list, with what the version has."""
    number = draw(st.integers(0, 2**40)) if version > 1 else 0
    unknown = st.none() if version == 1 else st.nothing()
    summary = st.fixed_dictionaries(
        {
            "contains_null": st.booleans(),
            "contains_nan": st.none() | st.booleans(),
            "lower_bound": st.none() | st.binary(max_size=8),
            "upper_bound": st.none() | st.binary(max_size=8),
        }
    )
    return ManifestFile(
        path=draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=1)),
        length=draw(rows),
        spec_id=draw(st.integers(0, 100)),
        content=draw(st.sampled_from([DATA, DELETES])) if version > 1 else DATA,
        sequence_number=number,
        min_sequence_number=draw(st.integers(0, number)),
        added_snapshot_id=draw(ids),
        added_files=draw(counts | unknown),
        existing_files=draw(counts | unknown),
        deleted_files=draw(counts | unknown),
        added_rows=draw(rows | unknown),
        existing_rows=draw(rows | unknown),
        deleted_rows=draw(rows | unknown),
        partitions=draw(st.none() | st.lists(summary, max_size=3)),
        key_metadata=draw(st.none() | st.binary(max_size=4)),
        first_row_id=draw(st.none() | rows) if version > 2 else None,
    )


@pytest.mark.parametrize("version", [1, 2, 3])
@given(data=st.data())
def test_a_manifest_list_is_read_back_as_it_was_written(version: int, data: st.DataObject) -> None:
    lines = data.draw(st.lists(list_lines(version), max_size=4))
    written = write_list(lines, format_version=version, snapshot_id=5, sequence_number=6)
    assert read_list(reader(x=written), "x") == lines


@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=20)
@given(data=st.data())
def test_pyiceberg_reads_the_same_from_a_manifest_list(
    version: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = data.draw(st.lists(list_lines(version), min_size=1, max_size=4))
    path = tmp_path_factory.mktemp("lists") / "list.avro"
    path.write_bytes(write_list(lines, format_version=version, snapshot_id=5, sequence_number=6))
    found = list(read_manifest_list(PyArrowFileIO().new_input(str(path))))
    for theirs, ours in zip(found, lines, strict=True):
        assert theirs.manifest_path == ours.path
        assert theirs.partition_spec_id == ours.spec_id
        assert theirs.added_snapshot_id == ours.added_snapshot_id
        assert theirs.content == ours.content
        assert (theirs.sequence_number or 0) == ours.sequence_number
        assert (theirs.added_files_count, theirs.deleted_rows_count) == (ours.added_files, ours.deleted_rows)
        assert [asdict_of(one) for one in theirs.partitions or []] == (ours.partitions or [])


def asdict_of(summary: Any) -> dict[str, Any]:
    return {name: getattr(summary, name) for name in ("contains_null", "contains_nan", "lower_bound", "upper_bound")}


def test_a_list_whose_writer_left_the_snapshot_out_says_unknown() -> None:
    import io

    import fastavro

    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            {"name": "manifest_path", "type": "string", "field-id": 500},
            {"name": "manifest_length", "type": "long", "field-id": 501},
            {"name": "partition_spec_id", "type": "int", "field-id": 502},
            {"name": "added_snapshot_id", "type": ["null", "long"], "default": None, "field-id": 503},
            # Old names, known by their ids.
            {"name": "added_data_files_count", "type": ["null", "int"], "default": None, "field-id": 504},
        ],
    }
    out = io.BytesIO()
    line = {"manifest_path": "m", "manifest_length": 1, "partition_spec_id": 0, "added_data_files_count": 3}
    fastavro.writer(out, schema, [line])
    (found,) = read_list(reader(x=out.getvalue()), "x")
    assert found.added_snapshot_id == -1
    assert (found.added_files, found.existing_files, found.counts_known) == (3, None, False)
    assert found.may_have_deleted


# -- filtering ------------------------------------------------------------------------------------------------------------


def resolved(manifest: Manifest) -> dict[str, tuple[Any, ...]]:
    """Per live or deleted file what a reader makes of it, by the specification's rules of inheritance."""
    line, found = manifest.file, {}
    next_row_id = line.first_row_id
    for one in manifest.entries():
        data_file = one["data_file"]
        row_id = data_file.get("first_row_id")
        if row_id is None and next_row_id is not None and one["status"] != EntryStatus.DELETED:
            row_id, next_row_id = next_row_id, next_row_id + data_file["record_count"]
        inherits = one["status"] == EntryStatus.ADDED or line.sequence_number == 0
        numbers = [
            one.get(name) if one.get(name) is not None else (line.sequence_number if inherits else None)
            for name in ("sequence_number", "file_sequence_number")
        ]
        snapshot = one["snapshot_id"] if one["snapshot_id"] is not None else line.added_snapshot_id
        found[data_file["file_path"]] = (snapshot, *numbers, row_id, data_file["partition"], data_file["record_count"])
    return found


MOMENTS = {
    "d": st.integers(-(2**31), 2**31 - 1),
    "t": st.integers(0, 86_399_999_999),
    "ts": st.integers(-(2**63), 2**63 - 1),
    "tz": st.integers(-(2**63), 2**63 - 1),
    "ns": st.integers(-(2**63), 2**63 - 1),
    "u": st.uuids().map(lambda value: value.bytes),
    "dec": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda value: value.to_bytes(16, "big", signed=True)),
    "s": st.text(st.characters(exclude_categories=["Cs"])),
}


@st.composite
def manifests(draw: st.DrawFn, version: int) -> Manifest:
    entries = []
    line_number = draw(st.integers(1, 100)) if version > 1 else 0
    for position in range(draw(st.integers(1, 8))):
        status = draw(st.sampled_from(list(EntryStatus)))
        added = status is EntryStatus.ADDED
        number = draw(st.none() if added and draw(st.booleans()) else st.integers(0, line_number))
        known = version == 1 or not added or draw(st.booleans())
        entries.append(
            entry(
                f"file:/d/{position}.parquet",
                int(status),
                rows=draw(st.integers(0, 1000)),
                partition=draw(st.fixed_dictionaries({}, optional=MOMENTS)),
                snapshot_id=draw(ids) if known else None,
                sequence_number=number,
                file_sequence_number=number,
                first_row_id=draw(st.none() | rows) if version > 2 else None,
            )
        )
    # A v2 manifest in a v3 table has its row ids from the list alone.
    first_row_id = draw(st.none() | st.integers(0, 2**40)) if version > 1 else None
    line = listed(entries, path="m", first_row_id=first_row_id, sequence_number=line_number)
    return Manifest.open(
        reader(m=manifest_bytes(version, entries, codec=draw(st.sampled_from(["null", "deflate"])))), line
    )


@pytest.mark.parametrize("version", [1, 2, 3])
@given(data=st.data())
def test_a_filtered_manifest_says_of_each_kept_file_what_the_whole_one_said(version: int, data: st.DataObject) -> None:
    whole = data.draw(manifests(version))
    before = resolved(whole)
    keep = data.draw(st.sets(st.sampled_from(sorted(before))))
    result = filtered(whole, lambda one: one["data_file"]["file_path"] in keep)
    if not keep:
        assert result is None
        return
    assert result is not None
    written, line = result
    after = resolved(Manifest.open(reader(m=written), line))
    assert after.keys() == keep
    for path, found in after.items():
        expected = before[path]
        if version == 3 or whole.file.first_row_id is not None:
            # A deleted file of which nobody knows the row ids must not be given another's.
            known = all(before[one][3] is not None for one in keep)
            expected = expected if known or expected[3] is not None else (*expected[:3], None, *expected[4:])
        assert found == expected
    assert line.existing_files == len(keep)
    assert line.existing_rows == sum(before[path][5] for path in keep)
    assert (line.added_files, line.deleted_files, line.added_rows, line.deleted_rows) == (0, 0, 0, 0)
    numbers = [before[path][1] or 0 for path in keep]
    assert line.min_sequence_number == (min(numbers) if version > 1 else 0)


def test_a_filtered_manifest_keeps_its_header_and_the_logical_types_of_its_schema() -> None:
    whole = Manifest.open(reader(m=manifest_bytes(2, [entry("a", 1), entry("b", 1)])), replace(LINE, path="m"))
    result = filtered(whole, lambda one: one["data_file"]["file_path"] == "a")
    assert result is not None
    again = Manifest.open(reader(m=result[0]), result[1])
    assert again.schema == whole.schema
    for name in ("schema", "partition-spec", "partition-spec-id", "format-version", "content"):
        assert again.metadata[name] == whole.metadata[name]


def test_a_v2_manifest_in_a_v3_table_gets_a_field_for_its_row_ids() -> None:
    entries = [entry("a", 1, rows=10), entry("b", 1, rows=5), entry("c", 1, rows=1)]
    line = listed(entries, path="m", first_row_id=100)
    result = filtered(
        Manifest.open(reader(m=manifest_bytes(2, entries)), line), lambda one: one["data_file"]["file_path"] != "a"
    )
    assert result is not None
    found = [one["data_file"]["first_row_id"] for one in Manifest.open(reader(m=result[0]), result[1]).entries()]
    assert found == [110, 115]


def test_partition_values_beyond_the_calendar_are_read_and_written_as_they_are() -> None:
    odd = {"d": 2**31 - 1, "ts": 2**62, "u": UUID(int=5).bytes, "ns": 1}
    whole = Manifest.open(
        reader(m=manifest_bytes(2, [entry("a", 1, partition=odd), entry("b", 1)])), replace(LINE, path="m")
    )
    result = filtered(whole, lambda one: one["data_file"]["file_path"] == "a")
    assert result is not None
    (found,) = Manifest.open(reader(m=result[0]), result[1]).entries()
    assert {name: found["data_file"]["partition"][name] for name in odd} == odd


def test_a_path_that_speaks_of_logical_types_is_left_alone() -> None:
    path = 'file:/d/"logicalType".parquet'
    whole = Manifest.open(reader(m=manifest_bytes(2, [entry(path, 1)], codec="null")), replace(LINE, path="m"))
    assert [one["data_file"]["file_path"] for one in whole.entries()] == [path]


def test_decoding_leaves_the_garbage_collector_as_it_was() -> None:
    import gc

    whole = Manifest.open(reader(m=manifest_bytes(2, [entry("a", 1), entry("b", 1)])), replace(LINE, path="m"))
    assert gc.isenabled()
    next(iter(whole.entries()))
    assert gc.isenabled()
    list(whole.entries())
    assert gc.isenabled()
    with pytest.raises(MetadataUnreadableError):
        list(replace(whole, data=whole.data[:-20]).entries())
    assert gc.isenabled()


# -- broken bytes ---------------------------------------------------------------------------------------------------------


def broken(dice: random.Random, data: bytes) -> bytes:
    """The bytes with some flipped, cut, doubled or exchanged."""
    out = bytearray(data)
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(out)) if out else 0
        action = dice.randrange(5)
        if action == 0 and out:
            out[at] ^= 1 << dice.randrange(8)
        elif action == 1 and out:
            out[at] = dice.choice([0, 1, 127, 128, 255])
        elif action == 2:
            del out[at:]
        elif action == 3:
            del out[at : at + dice.randint(1, 10)]
        else:
            out[at:at] = bytes(dice.randrange(256) for _ in range(dice.randint(1, 10)))
    return bytes(out)


SOUND = [entry(f"file:/d/{n}.parquet", n % 3, rows=n, snapshot_id=n, partition={"d": n, "s": "x"}) for n in range(20)]


SOUND_BYTES = {codec: manifest_bytes(2, SOUND, codec=codec) for codec in ("null", "deflate")}


@settings(max_examples=250)
@given(st.integers(0, 2**32), st.sampled_from(["null", "deflate"]))
def test_a_broken_manifest_is_unreadable_and_nothing_else(seed: int, codec: str) -> None:
    data = broken(random.Random(seed), SOUND_BYTES[codec])
    try:
        manifest = Manifest.open(reader(m=data), listed(SOUND, path="m"))
        _ = manifest.field_ids, manifest.partition_width
        whole = {one["data_file"]["file_path"] for one in manifest.entries()}
        scanned = {one["data_file"]["file_path"] for one in manifest.scan(frozenset({"file_path", "record_count"}))}
        assert scanned == whole
        filtered(manifest, lambda one: True)
    except MetadataUnreadableError as error:
        assert error.where == "m"


LIST = write_list([replace(LINE, path=f"m{n}") for n in range(5)], format_version=2, snapshot_id=1, sequence_number=1)


@settings(max_examples=250)
@given(st.integers(0, 2**32))
def test_a_broken_manifest_list_is_unreadable_and_nothing_else(seed: int) -> None:
    try:
        read_list(reader(x=broken(random.Random(seed), LIST)), "x")
    except MetadataUnreadableError as error:
        assert error.where == "x"


@pytest.mark.parametrize("data", [b"", b"Obj\x01", b"PAR1", json.dumps({"a": 1}).encode(), LIST])
def test_a_file_that_is_no_manifest_is_unreadable(data: bytes) -> None:
    with pytest.raises(MetadataUnreadableError):
        list(Manifest.open(reader(m=data), replace(LINE, path="m")).entries())


def test_a_manifest_is_no_manifest_list() -> None:
    with pytest.raises(MetadataUnreadableError):
        read_list(reader(x=manifest_bytes(2, SOUND)), "x")


def test_a_missing_file_stays_missing() -> None:
    def missing(path: str) -> bytes:
        raise MetadataMissingError("gone", where=path)

    with pytest.raises(MetadataMissingError):
        read_list(missing, "x")


def test_manifests_that_pyiceberg_wrote_are_read(tmp_path: Path) -> None:
    """The real thing once, for v1 and v2; the contract suite has tables."""
    from pyiceberg.manifest import DataFile, FileFormat, ManifestEntry, ManifestEntryStatus, write_manifest
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record
    from pyiceberg.types import LongType, NestedField

    schema = Schema(NestedField(1, "a", LongType()))
    for version in (1, 2):
        path = tmp_path / f"v{version}.avro"
        file = DataFile.from_args(
            file_path="file:/d/x.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=3,
            file_size_in_bytes=10,
            lower_bounds={1: b"\x01" + b"\x00" * 7},
        )
        file.spec_id = 0
        with write_manifest(
            version, UNPARTITIONED_PARTITION_SPEC, schema, PyArrowFileIO().new_output(str(path)), 9, "deflate"
        ) as writer:
            writer.add_entry(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=9, data_file=file))
        manifest = Manifest.open(reader(m=path.read_bytes()), replace(LINE, path="m"))
        (found,) = manifest.entries()
        assert found["data_file"]["record_count"] == 3
        assert manifest.field_ids == {1}
        assert manifest.partition_width == 0
        assert asdict(manifest.file)["path"] == "m"
