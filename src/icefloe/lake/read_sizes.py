"""How much a reader of a table has to open, from metadata: all of it, some of its partitions, or its newest ones.

Data files and delete files are both read, so both count; rows are those of the data files. By partition only: what bounds or a
WHERE prune beyond that is not known here.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from icefloe.lake.catalog import LoadedTable
from icefloe.lake.content import manifests_of
from icefloe.lake.manifests import DATA, SIZE_FIELDS, EntryStatus, Manifest, ManifestFile, stored_bytes
from icefloe.lake.partition_sizes import Position, may_hold, position_of
from icefloe.lake.partitions import result_type
from icefloe.lake.schema import Field
from icefloe.lake.survey import FileCounts
from icefloe.lake.values import UndecodableError, decode, from_avro

_FIELDS = frozenset({"partition", "record_count"}) | SIZE_FIELDS
_TOTALS = ("total-data-files", "total-delete-files", "total-records", "total-files-size")
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class NewestPartitions:
    """What lies in a table's newest partitions by ``transform`` of ``column``; ``values`` are theirs. ``start``: where they begin, a day
    or a value, whether or not there is a partition just there; ``None``: there is no partition at all."""

    column: str
    values: tuple[Any, ...]
    counts: FileCounts
    transform: str = "identity"
    start: Any = None


def whole(table: LoadedTable, snapshot_id: int | None) -> FileCounts:
    """All live files: by the snapshot's summary, and where that does not tell by its manifests."""
    if snapshot_id is None:
        return FileCounts()
    summary = table.metadata.snapshots[snapshot_id].summary
    totals = [str(summary.get(name, "")) for name in _TOTALS]
    if all(text.isdigit() for text in totals):
        data, deletes, rows, size = (int(text) for text in totals)
        return FileCounts(data + deletes, rows, size)
    total = _FileTotal()
    for manifest in _live(table, snapshot_id):
        for data_file in _files(table, manifest):
            total.add(data_file, manifest)
    return total.counts


def in_partitions(
    table: LoadedTable, snapshot_id: int | None, column: str, values: Collection[Any], transform: str = "identity"
) -> FileCounts | None:
    """Live files under ``values``; ``None`` if a spec in use does not tell ``transform`` of the column."""
    if snapshot_id is None:
        return FileCounts()
    field = table.metadata.schema.find(column, table=table.name)
    wanted = set(values)
    total = _FileTotal()
    try:
        for manifest in _live(table, snapshot_id):
            position = position_of(table.metadata.specs, manifest, field, transform)
            if position is None and manifest.content == DATA:
                return None
            if position is not None and not may_hold(manifest, position, wanted):
                continue
            for data_file in _files(table, manifest):
                # Deletes that are of no partition are for all of them.
                if position is None or _value(data_file, position) in wanted:
                    total.add(data_file, manifest)
    except UndecodableError:
        return None
    return total.counts


def newest_days(table: LoadedTable, snapshot_id: int, count: int) -> NewestPartitions | None:
    """The newest ``count`` days, ending with the newest day that has files and is not after the snapshot itself.

    Days after the snapshot's own are somebody's mistake: they do not move the window, but who reads from a day on reads them.
    """
    limit = datetime.fromtimestamp(table.metadata.snapshots[snapshot_id].timestamp_ms / 1000, UTC).date()

    def oldest(ends: list[date]) -> date | None:
        newest = max((end for end in ends if end <= limit), default=None)
        return newest - timedelta(days=count - 1) if newest is not None else None

    return _newest(table, snapshot_id, last_day, oldest)


def newest_partitions(table: LoadedTable, snapshot_id: int, count: int) -> NewestPartitions | None:
    """The ``count`` highest values of the first partition column that has an order."""

    def oldest(values: list[Any]) -> Any:
        return sorted(values)[-count] if len(values) >= count else None

    return _newest(table, snapshot_id, lambda value, _: value, oldest)


def last_day(value: Any, transform: str) -> date | None:
    """The last day that a partition holds; ``None``: its value is no day."""
    if transform in ("hour", "month", "year") and isinstance(value, int):
        if transform == "hour":
            return _EPOCH + timedelta(hours=value)
        year, month = divmod(value, 12) if transform == "month" else (value, 11)
        return date(1970 + year, month + 1, calendar.monthrange(1970 + year, month + 1)[1])
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    if isinstance(value, int | str) and not isinstance(value, bool) and transform == "identity":
        text = str(value).replace("-", "")
        try:
            return datetime.strptime(text, "%Y%m%d").date() if len(text) == 8 else None
        except ValueError:
            return None
    return None


def _newest(
    table: LoadedTable,
    snapshot_id: int,
    order: Callable[[Any, str], Any],
    oldest: Callable[[list[Any]], Any],
) -> NewestPartitions | None:
    manifests = _live(table, snapshot_id)
    data = [manifest for manifest in manifests if manifest.content == DATA]
    metadata = table.metadata
    spec = metadata.specs.get(int(metadata.raw.get("default-spec-id") or 0))
    for part in spec.fields if spec else ():
        field = metadata.schema.fields.get(part.source_id)
        if field is None or part.transform not in ("identity", "day", "hour", "month", "year"):
            continue
        walk = _NewestWalk(table, field, part.transform, order, oldest)
        try:
            newest = walk.window(data, [manifest for manifest in manifests if manifest.content != DATA])
        except (UndecodableError, _NoOrderError, OverflowError, ValueError):
            continue
        return newest
    return None


class _NoOrderError(Exception):
    """A partition value that has no place in the order."""


class _NewestWalk:
    """Opens manifests from the newest on, until all others are older than the window.

    ``oldest`` says where the window begins, by the places in the order that were seen so far; ``None``: not known yet.
    """

    def __init__(
        self,
        table: LoadedTable,
        field: Field,
        transform: str,
        order: Callable[[Any, str], Any],
        oldest: Callable[[list[Any]], Any],
    ) -> None:
        self._table = table
        self._field = field
        self._transform = transform
        self._order = order
        self._oldest = oldest
        self._totals: dict[Any, _FileTotal] = {}
        self._places: dict[Any, Any] = {}

    def window(self, data: list[ManifestFile], deletes: list[ManifestFile]) -> NewestPartitions:
        for manifest, position, upper in self._from_the_newest(data):
            start = self._oldest(list(self._places.values()))
            if start is not None and upper is not None and upper < start:
                break
            for data_file in _files(self._table, manifest):
                self._add(_value(data_file, position), data_file, manifest)
        start = self._oldest(list(self._places.values()))
        values = [value for value, place in self._places.items() if start is None or place >= start]
        total = _FileTotal()
        for value in values:
            total.include(self._totals[value])
        for manifest in deletes:
            spot = position_of(self._table.metadata.specs, manifest, self._field, self._transform)
            if spot is not None and not may_hold(manifest, spot, set(values)):
                continue
            for data_file in _files(self._table, manifest):
                if spot is None or _value(data_file, spot) in values:
                    total.add(data_file, manifest)
        if start is None:
            start = min((self._places[value] for value in values), default=None)
        ordered = tuple(sorted(values, key=self._places.__getitem__))
        return NewestPartitions(self._field.name, ordered, total.counts, self._transform, start)

    def _from_the_newest(self, data: list[ManifestFile]) -> list[tuple[ManifestFile, Position, Any]]:
        """Those that do not tell how new they are come first."""
        placed = []
        for manifest in data:
            position = self._position(manifest)
            placed.append((manifest, position, self._upper(manifest, position)))
        dated = sorted((item for item in placed if item[2] is not None), key=lambda item: item[2], reverse=True)
        return [*(item for item in placed if item[2] is None), *dated]

    def _position(self, manifest: ManifestFile) -> Position:
        position = position_of(self._table.metadata.specs, manifest, self._field, self._transform)
        if position is None:
            raise _NoOrderError
        return position

    def _add(self, value: Any, data_file: dict[str, Any], manifest: ManifestFile) -> None:
        if value is None:
            return  # no comparison finds NULL
        if value not in self._places:
            place = self._order(value, self._transform)
            if place is None:
                raise _NoOrderError
            self._places[value] = place
        self._totals.setdefault(value, _FileTotal()).add(data_file, manifest)

    def _upper(self, manifest: ManifestFile, position: Position) -> Any:
        summaries = manifest.partitions
        if summaries is None or position.index >= len(summaries):
            return None
        bound = summaries[position.index].get("upper_bound")
        kind = result_type(self._transform, self._field.type)
        return self._order(decode(kind, bound), self._transform) if bound is not None else None


class _FileTotal:
    def __init__(self) -> None:
        self._files = self._rows = self._bytes = 0

    def add(self, data_file: dict[str, Any], manifest: ManifestFile) -> None:
        self._files += 1
        self._bytes += stored_bytes(data_file)
        self._rows += data_file["record_count"] if manifest.content == DATA else 0

    def include(self, other: _FileTotal) -> None:
        self._files += other._files
        self._rows += other._rows
        self._bytes += other._bytes

    @property
    def counts(self) -> FileCounts:
        return FileCounts(self._files, self._rows, self._bytes)


def _live(table: LoadedTable, snapshot_id: int) -> list[ManifestFile]:
    return [
        manifest for manifest in manifests_of(table, table.metadata.snapshots[snapshot_id]) if manifest.may_have_live
    ]


def _files(table: LoadedTable, manifest: ManifestFile) -> Iterator[dict[str, Any]]:
    for entry in Manifest.open(table.read, manifest).scan(_FIELDS):
        if entry["status"] != EntryStatus.DELETED:
            yield entry["data_file"]


def _value(data_file: dict[str, Any], position: Position) -> Any:
    return from_avro(position.type, list(data_file["partition"].values())[position.index])
