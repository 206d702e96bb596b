"""The parameters that a capture step publishes. Pure: a built capture in, typed values out.

A single source's come without prefix, those of several with the table's name: ``playback_icdc_table``. Where a common range
was asked for (``range_columns``), the union over all sources is published under its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from icefloe.capture.sources import Source
from icefloe.workflow.values import TypedValue, Value

MOST_PARTITIONS = 10_000
"""Parameters are for people and foreach loops; beyond this many partitions only the predicate is published."""


def parameters(
    sources: Sequence[Source], *, capture_id: str, catalog: str, range_columns: Mapping[str, Mapping[str, str]]
) -> dict[str, TypedValue]:
    values: dict[str, Value] = {}
    prefixes = _prefixes(sources)
    for source, prefix in zip(sources, prefixes, strict=True):
        own = _of_source(source, catalog)
        values |= {f"{prefix}{name}": value for name, value in own.items()}
    if len(sources) > 1:
        values["has_changes"] = any(source.has_changes for source in sources)
        values["append_only"] = all(bool(source.found.get("append_only")) for source in sources)
        values["exact"] = all(bool(source.found.get("exact")) for source in sources)
        for name in ("row_count", "file_count", "byte_count"):
            values[name] = sum(_number(values[f"{prefix}{name}"]) for prefix in prefixes)
    for name, columns in range_columns.items():
        values |= _union(name, [_range(source, columns.get(source.table)) for source in sources])
    values["capture_id"] = capture_id
    return {name: TypedValue.of(value) for name, value in values.items()}


def _of_source(source: Source, catalog: str) -> dict[str, Value]:
    changes = source.found
    values: dict[str, Value] = {
        "source_table": f"{catalog}.{source.table}",
        "source_at_to": source.read_point(catalog),
        "has_changes": source.has_changes,
        "append_only": bool(changes.get("append_only")),
        "exact": bool(changes.get("exact")),
        "from_snapshot": source.start.snapshot_id if source.start else -1,
        "to_snapshot": source.end.snapshot_id if source.end else -1,
        "row_count": changes.get("added_rows") or 0,
        "file_count": changes.get("added_files") or 0,
        "byte_count": changes.get("added_bytes") or 0,
        "skipped_operations": dict(changes.get("skipped_operations") or {}),
        "range_filter": changes.get("range_filter") or "TRUE",
        "partition_filter": changes.get("partition_filter") or "TRUE",
    }
    if source.change_table is not None:
        values["icdc_table"] = f"{catalog}.{source.change_table}"
    for column, ends in (changes.get("ranges") or {}).items():
        # An unknown side is not published: a step that needs it then fails with the parameter's name, never on a guess.
        values |= {f"{column}_{side}": ends[side] for side in ("min", "max") if ends[side] is not None}
    partitions = changes.get("partitions") or []
    if partitions and len(partitions) <= MOST_PARTITIONS:
        values["changed_partitions"] = _partitions(partitions)
    return values


def _partitions(partitions: Sequence[Mapping[str, Any]]) -> dict[str, Value]:
    """One list per partition field, all of one length: what a foreach walks. Several specs share the fields they share."""
    names = list(dict.fromkeys(name for partition in partitions for name in partition["values"]))
    columns: dict[str, Value] = {
        name: _column([partition["values"].get(name) for partition in partitions]) for name in names
    }
    columns["spec_id"] = tuple(partition["spec_id"] for partition in partitions)
    return columns


def _column(values: Iterable[Any]) -> Value:
    """One type per list: texts, unless all are whole numbers. NULL is the text ``null``."""
    listed = list(values)
    if all(isinstance(value, int) and not isinstance(value, bool) for value in listed):
        return tuple(listed)
    return tuple("null" if value is None else str(value) for value in listed)


def _range(source: Source, column: str | None) -> Mapping[str, Any] | None:
    """``None``: the source says nothing about it, since nothing changed in it."""
    if not source.has_changes:
        return None
    ranges: Mapping[str, Any] = source.found.get("ranges") or {}
    range_: Mapping[str, Any] = ranges.get(column or "", {"min": None, "max": None})
    return range_


def _union(name: str, ranges: Sequence[Mapping[str, Any] | None]) -> dict[str, Value]:
    known = [range_ for range_ in ranges if range_ is not None]
    out: dict[str, Value] = {}
    for side, choose in (("min", min), ("max", max)):
        ends = [range_[side] for range_ in known]
        if ends and all(end is not None for end in ends):
            out[f"{name}_{side}"] = choose(ends)
    return out


def _prefixes(sources: Sequence[Source]) -> list[str]:
    if len(sources) == 1:
        return [""]
    short = [source.table.rsplit(".", 1)[-1].strip("`") for source in sources]
    twice = {name for name, count in Counter(short).items() if count > 1}
    return [
        f"{source.table.replace('.', '_').replace('`', '') if name in twice else name}_"
        for source, name in zip(sources, short, strict=True)
    ]


def _number(value: Value) -> int:
    return value if isinstance(value, int) else 0
