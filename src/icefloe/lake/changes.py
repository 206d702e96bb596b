"""Change sets: what happened to a table in (from, to] along one ref, from metadata alone.

There are three kinds. A *log* is the usual one: the files that each wanted snapshot added (and, where overwrites and
deletes were asked for, removed), as they were when it was committed. A *full* one is the table as it is at ``to``, with its
deletes applied: the first capture, or ``on_gap: full``. A *diff* compares the live files of two snapshots whose chain is
broken.

Which manifests hold those files is told by the manifest lists; the manifests themselves are opened only for what needs
them: ranges, partitions and bytes (``details``), and manifests without counts. No data file is ever opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from icefloe.errors import UsageError
from icefloe.lake import history, partitions, predicates, ranges, storage
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.errors import (
    DiffImpossibleError,
    HistoryLostError,
    MetadataUnreadableError,
    UnsupportedTableError,
)
from icefloe.lake.file_columns import FileColumns
from icefloe.lake.history import Checkpoint
from icefloe.lake.manifests import DATA, UNKNOWN_SNAPSHOT, Manifest, ManifestFile, Status, read_list, readable
from icefloe.lake.metadata import Snapshot
from icefloe.lake.partitions import PartitionChange, PartitionsBuilder
from icefloe.lake.ranges import Range, RangeBuilder
from icefloe.lake.schema import Field, PartitionSpec

OPERATIONS = ("append", "overwrite", "delete")
OnGap = Literal["fail", "full", "diff"]
Kind = Literal["log", "full", "diff"]
Side = Literal["added", "removed", "deletes"]
Which = Literal["added", "deleted", "live"]

# The reserved column that position deletes keep their data file's path in (Iceberg spec).
_DELETE_FILE_PATH_ID = 2147483546
_DELETE_FIELDS = frozenset(
    {"content", "file_path", "partition", "referenced_data_file", "lower_bounds", "upper_bounds"}
)
_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ManifestSlice:
    """Some entries of one manifest: those of a status, and of these only the files in ``paths`` if that is given."""

    manifest: ManifestFile
    which: Which
    paths: frozenset[str] | None = None
    snapshot_id: int | None = None

    def wants(self, entry: Mapping[str, Any]) -> bool:
        status = entry["status"]
        if self.which == "live":
            fits = status != Status.DELETED
        else:
            fits = status == (Status.ADDED if self.which == "added" else Status.DELETED)
        return fits and (self.paths is None or storage.normal(entry["data_file"]["file_path"]) in self.paths)

    @property
    def counted(self) -> tuple[int, int] | None:
        """Files and rows by the manifest list, if it tells."""
        m = self.manifest
        if self.paths is not None or not m.counts_known:
            return None
        if self.which == "added":
            return m.added_files or 0, m.added_rows or 0
        if self.which == "deleted":
            return m.deleted_files or 0, m.deleted_rows or 0
        return (m.added_files or 0) + (m.existing_files or 0), (m.added_rows or 0) + (m.existing_rows or 0)


@dataclass(frozen=True)
class FileCounts:
    """``bytes`` is ``None`` when nobody looked: it is in the manifests only."""

    files: int = 0
    rows: int = 0
    bytes: int | None = 0


@dataclass(frozen=True)
class ChangeSet:
    """What changed, and where the files of it are listed. See the module's text for the kinds.

    ``append_only``: nothing but appends in it. ``exact``: its added files hold no rows that were there before. Ranges and
    partitions cover what was added, what was removed, and what new delete files touch.
    """

    table: str
    table_uuid: str
    ref: str
    kind: Kind
    from_snapshot: int | None
    to_snapshot: int | None
    operations: Mapping[str, int]
    skipped_operations: Mapping[str, int]
    append_only: bool
    exact: bool
    added: FileCounts
    removed: FileCounts
    delete_files: int
    ranges: Mapping[str, Range]
    partitions: tuple[PartitionChange, ...] | None
    """``None`` when details were not asked for."""
    range_filter: str | None
    partition_filter: str | None
    gap: HistoryLostError | None = None
    """Why this is not a log, when one was asked for."""
    holds: tuple[int, ...] = ()
    """Snapshots beside ``to`` that must stay for the files of this change set to stay (see pins)."""
    slices: Mapping[Side, tuple[ManifestSlice, ...]] = field(default_factory=dict, repr=False)

    @property
    def has_changes(self) -> bool:
        return self.added.files > 0 or self.removed.files > 0 or self.delete_files > 0

    def to_dict(self, *, change_table: str | None = None) -> dict[str, Any]:
        """The JSON of ``icefloe changes``."""
        return {
            "table": self.table,
            "ref": self.ref,
            "kind": self.kind,
            "from_snapshot": self.from_snapshot,
            "to_snapshot": self.to_snapshot,
            "operations": dict(self.operations),
            "skipped_operations": dict(self.skipped_operations),
            "append_only": self.append_only,
            "exact": self.exact,
            "added_files": self.added.files,
            "added_rows": self.added.rows,
            "added_bytes": self.added.bytes,
            "removed_files": self.removed.files,
            "removed_rows": self.removed.rows,
            "delete_files": self.delete_files,
            "gap": self.gap.to_dict() if self.gap else None,
            "ranges": {name: found.to_dict() for name, found in self.ranges.items()},
            "partitions": [change.to_dict() for change in self.partitions or ()],
            "range_filter": self.range_filter,
            "partition_filter": self.partition_filter,
            "change_table": change_table,
        }


def find_changes(
    table: LoadedTable,
    *,
    since: Checkpoint | None,
    until: int | None,
    ref: str,
    operations: Sequence[str],
    columns: Sequence[str],
    on_gap: OnGap,
    details: bool,
) -> ChangeSet:
    """The change set of one table. See :meth:`icefloe.lake.Lake.changes`."""
    wanted = _checked_operations(operations)
    fields = [table.metadata.schema.find(name, table=table.name) for name in columns]
    refuse_unsupported(table)
    metadata = table.metadata
    if since is not None and since.table_uuid == metadata.uuid and ref not in metadata.refs and ref != "main":
        raise history.ref_gone(metadata, ref, table=table.name)
    to = history.resolve_until(metadata, ref, until, table=table.name)
    gap: HistoryLostError | None = None
    if since is None:
        content = _full(table, to)
    else:
        try:
            chain = history.between(metadata, since, to, ref=ref, table=table.name, until_given=until is not None)
            content = _log(table, chain, wanted)
        except HistoryLostError as lost:
            if on_gap == "fail":
                raise
            gap = lost
            if on_gap == "full":
                # The table as it is holds again what was captured before: nobody may append it.
                content = replace(_full(table, to), append_only=False, exact=False)
            else:
                content = _diff(table, since, to, lost)
    survey = _Survey(table, fields)
    survey.look(content, details=details)
    return ChangeSet(
        table=table.name,
        table_uuid=metadata.uuid,
        ref=ref,
        kind=content.kind,
        from_snapshot=since.snapshot_id if since else None,
        to_snapshot=to,
        operations=content.operations,
        skipped_operations=content.skipped,
        append_only=content.append_only,
        exact=content.exact,
        added=survey.counts["added"],
        removed=survey.counts["removed"],
        delete_files=survey.counts["deletes"].files,
        ranges=survey.ranges,
        partitions=survey.partitions if details else None,
        range_filter=predicates.range_filter(
            [(one, survey.ranges[one.name]) for one in fields], anything_changed=survey.anything
        )
        if fields
        else None,
        partition_filter=predicates.partition_filter(survey.partitions, metadata.specs, metadata.schema)
        if details
        else None,
        gap=gap,
        holds=content.holds,
        slices=content.slices,
    )


def refuse_unsupported(table: LoadedTable) -> None:
    raw = table.metadata.raw
    if raw.get("encryption-keys") or table.metadata.properties.get("encryption.key-id"):
        raise UnsupportedTableError(
            "the table is encrypted; a change table cannot carry its keys",
            where=table.name,
            hint="read the table itself",
        )
    if table.metadata.format_version not in (1, 2, 3):
        raise UnsupportedTableError(
            f"format version {table.metadata.format_version} is newer than this version of Icefloe knows (1 to 3)",
            where=table.name,
        )


# -- which manifests -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Content:
    kind: Kind
    operations: Mapping[str, int]
    skipped: Mapping[str, int]
    append_only: bool
    exact: bool
    slices: Mapping[Side, tuple[ManifestSlice, ...]]
    holds: tuple[int, ...] = ()


def _full(table: LoadedTable, to: int | None) -> _Content:
    """The table as it is at ``to``."""
    snapshots = list(history.ancestors(table.metadata, to)) if to is not None else []
    slices: dict[Side, list[ManifestSlice]] = {"added": [], "removed": [], "deletes": []}
    if snapshots:
        for manifest in manifests_of(table, snapshots[0]):
            if manifest.may_have_live:
                slices["added" if manifest.content == DATA else "deletes"].append(ManifestSlice(manifest, "live"))
    operations = Counter(_operation(table, snapshot) for snapshot in snapshots)
    return _Content("full", _ordered(operations), {}, True, True, _frozen(slices))


def _log(table: LoadedTable, chain: Sequence[Snapshot], wanted: frozenset[str]) -> _Content:
    """What each wanted snapshot of the chain did, in its own manifest list's words."""
    included: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    slices: dict[Side, list[ManifestSlice]] = {"added": [], "removed": [], "deletes": []}
    holds: list[int] = []
    append_only = exact = True
    unheld = False  # files captured since the last hold, which the next removal may take away
    for snapshot in chain:
        operation = _operation(table, snapshot)
        own = _own_manifests(table, snapshot)
        adds = [ManifestSlice(m, "added", snapshot_id=snapshot.id) for m in own if m.may_have_added]
        removes = [
            ManifestSlice(m, "deleted", snapshot_id=snapshot.id)
            for m in own
            if m.content == DATA and m.may_have_deleted
        ]
        is_included = operation in wanted
        if removes and snapshot.parent_id in table.metadata.snapshots and (unheld or is_included):
            holds.append(snapshot.parent_id)
            unheld = False
        if not is_included:
            if operation != "replace" and (adds or removes):
                skipped[operation] += 1
            continue
        included[operation] += 1
        added = [one for one in adds if one.manifest.content == DATA]
        deletes = [one for one in adds if one.manifest.content != DATA]
        append_only = append_only and operation == "append"
        exact = exact and not (added and removes)
        unheld = unheld or bool(added)
        if snapshot.is_cherry_pick:
            added = _without_known(table, added, slices["added"])
        slices["added"] += added
        if operation != "append":
            slices["removed"] += removes
            slices["deletes"] += deletes
    return _Content("log", _ordered(included), _ordered(skipped), append_only, exact, _frozen(slices), tuple(holds))


def _diff(table: LoadedTable, since: Checkpoint, to: int | None, lost: HistoryLostError) -> _Content:
    """Live files at ``to`` that were not live at the checkpoint, and the other way round."""
    before = table.metadata.snapshots.get(since.snapshot_id)
    if not lost.diff_possible or before is None or to is None:
        raise DiffImpossibleError(
            f"on_gap: diff needs both snapshots, and {since.snapshot_id} is gone ({lost.message})",
            where=table.name,
            hint="use on_gap: full, which takes the table as it is",
        ) from lost
    old = {m.path: m for m in manifests_of(table, before) if m.may_have_live}
    new = {m.path: m for m in manifests_of(table, table.metadata.snapshots[to]) if m.may_have_live}
    # A manifest that both list holds the same live files for both.
    old_only = [m for path, m in old.items() if path not in new]
    new_only = [m for path, m in new.items() if path not in old]
    old_paths = {m.path: _live_paths(table, m) for m in old_only}
    new_paths = {m.path: _live_paths(table, m) for m in new_only}
    gone, come = frozenset().union(*old_paths.values()), frozenset().union(*new_paths.values())
    slices: dict[Side, list[ManifestSlice]] = {"added": [], "removed": [], "deletes": []}
    for manifest in new_only:
        paths = new_paths[manifest.path] - gone
        if paths:
            side: Side = "added" if manifest.content == DATA else "deletes"
            slices[side].append(ManifestSlice(manifest, "live", paths, snapshot_id=to))
    undeleted = False
    for manifest in old_only:
        paths = old_paths[manifest.path] - come
        if paths:
            # A delete file that is gone touches rows as one that has come does: after a roll-back they are back.
            undeleted = undeleted or manifest.content != DATA
            side = "removed" if manifest.content == DATA else "deletes"
            slices[side].append(ManifestSlice(manifest, "live", paths, snapshot_id=before.id))
    intact = not slices["removed"] and not undeleted
    return _Content(
        "diff",
        {},
        {},
        append_only=intact and not slices["deletes"],
        exact=intact,
        slices=_frozen(slices),
        holds=(before.id,) if slices["removed"] or undeleted else (),
    )


def manifests_of(table: LoadedTable, snapshot: Snapshot) -> list[ManifestFile]:
    if snapshot.manifest_list is None:
        raise UnsupportedTableError(
            f"snapshot {snapshot.id} lists its manifests inline, as writers of 2019 did",
            where=table.name,
            hint="run CALL system.rewrite_manifests on the table, and start from the snapshot after that",
        )
    found = read_list(table.read, snapshot.manifest_list)
    if any(manifest.key_metadata for manifest in found):
        raise UnsupportedTableError("the table's manifests are encrypted", where=table.name)
    return found


def _own_manifests(table: LoadedTable, snapshot: Snapshot) -> list[ManifestFile]:
    """Those that the snapshot itself wrote: the others are its ancestors'."""
    found = manifests_of(table, snapshot)
    unknown = next((m.path for m in found if m.added_snapshot_id == UNKNOWN_SNAPSHOT), None)
    if unknown is not None:
        raise UnsupportedTableError(
            f"the manifest list of snapshot {snapshot.id} does not tell which snapshot wrote {unknown}, as the first writers of v1 did",
            where=table.name,
            hint="run CALL system.rewrite_manifests on the table, and start from the snapshot after that",
        )
    return [m for m in found if m.added_snapshot_id == snapshot.id]


def _operation(table: LoadedTable, snapshot: Snapshot) -> str:
    """The summary's word; a v1 writer may have left it out, and then the manifests tell."""
    if snapshot.operation:
        return snapshot.operation
    own = _own_manifests(table, snapshot)
    return "overwrite" if any(m.may_have_deleted for m in own) else "append"


def _without_known(
    table: LoadedTable, added: list[ManifestSlice], known: Iterable[ManifestSlice]
) -> list[ManifestSlice]:
    """A cherry-pick adds files again that a snapshot added before; the log shows them once."""
    seen: set[str] = set()
    for one in known:
        seen |= _paths(table, one)
    out = []
    for one in added:
        fresh = _paths(table, one) - seen
        if fresh:
            out.append(ManifestSlice(one.manifest, one.which, frozenset(fresh), one.snapshot_id))
    return out


def _paths(table: LoadedTable, one: ManifestSlice) -> set[str]:
    manifest = Manifest.open(table.read, one.manifest)
    return {storage.normal(entry["data_file"]["file_path"]) for entry in manifest.entries() if one.wants(entry)}


def _live_paths(table: LoadedTable, manifest: ManifestFile) -> frozenset[str]:
    return frozenset(_paths(table, ManifestSlice(manifest, "live")))


def _checked_operations(operations: Sequence[str]) -> frozenset[str]:
    unknown = [name for name in operations if name not in OPERATIONS]
    if unknown or not operations:
        reason = f"{unknown[0]!r} is no data operation" if unknown else "no data operation was named"
        if "replace" in unknown:
            reason = "'replace' is compaction: it changes no row, so there is nothing to capture"
        raise UsageError(reason, hint=f"choose from: {', '.join(OPERATIONS)}")
    return frozenset(operations)


def _frozen(slices: Mapping[Side, list[ManifestSlice]]) -> dict[Side, tuple[ManifestSlice, ...]]:
    return {side: tuple(found) for side, found in slices.items()}


def _ordered(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts)}


# -- what is in them -----------------------------------------------------------------------------------------------------


class _Survey:
    """One pass over the manifests of a change set: counts, and if asked for partitions and ranges."""

    def __init__(self, table: LoadedTable, fields: Sequence[Field]) -> None:
        self._table = table
        self._builders = [RangeBuilder(one) for one in fields]
        self._wanted = frozenset(one.id for one in fields)
        self._partitions = PartitionsBuilder(table.metadata.specs, table.metadata.schema)
        self.counts: dict[Side, FileCounts] = {}
        self.ranges: dict[str, Range] = {}
        self.partitions: tuple[PartitionChange, ...] = ()

    @property
    def anything(self) -> bool:
        return any(counts.files for counts in self.counts.values())

    def look(self, content: _Content, *, details: bool) -> None:
        for side in ("added", "removed", "deletes"):
            totals = [self._one(one, side, details=details) for one in content.slices[side]]
            sizes = [total.bytes for total in totals]
            self.counts[side] = FileCounts(
                sum(total.files for total in totals),
                sum(total.rows for total in totals),
                None if any(size is None for size in sizes) else sum(size or 0 for size in sizes),
            )
        if self._builders and content.kind != "full":
            # Deletes that are applied in the change table itself (full) take rows away and widen nothing.
            self._touch(content.slices["deletes"])
        self.ranges = {builder.field.name: builder.result() for builder in self._builders}
        self.partitions = self._partitions.result()

    def _one(self, one: ManifestSlice, side: Side, *, details: bool) -> FileCounts:
        counted = one.counted
        if counted is not None and not details and not self._builders:
            return FileCounts(*counted, bytes=None)
        manifest = Manifest.open(self._table.read, one.manifest)
        ranged = bool(self._builders) and side != "deletes"
        spec = _spec_of(self._table, manifest)
        columns = self._columns_in(manifest) if ranged else None
        files = rows = size = 0
        fields = partitions.FILE_FIELDS | (ranges.FILE_FIELDS if ranged else _NOTHING)
        if one.paths is not None:
            fields |= {"file_path"}
        with readable(one.manifest.path):
            for entry in manifest.scan(fields, self._wanted):
                if not one.wants(entry):
                    continue
                data_file = entry["data_file"]
                files += 1
                rows += data_file["record_count"]
                size += data_file["file_size_in_bytes"]
                self._partitions.add(spec.id, data_file, side=side)
                if columns is not None:
                    self._add_file(entry, spec, columns)
        return FileCounts(files, rows, size)

    def _columns_in(self, manifest: Manifest) -> FileColumns:
        return FileColumns(self._table.metadata, manifest, [builder.field.id for builder in self._builders])

    def _add_file(self, entry: Mapping[str, Any], spec: PartitionSpec, columns: FileColumns) -> None:
        data_file = entry["data_file"]
        for builder, column_exists in zip(self._builders, columns.of(entry), strict=True):
            builder.add_file(data_file, spec=spec, column_exists=column_exists)

    def _touch(self, deletes: Sequence[ManifestSlice]) -> None:
        """Rows taken away by new delete files: the ranges of the data files they point at, else unknown."""
        for one in deletes:
            pointed: set[str] = set()
            blind: list[RangeBuilder] = []
            manifest = Manifest.open(self._table.read, one.manifest)
            spec = _spec_of(self._table, manifest)
            for entry in manifest.scan(_DELETE_FIELDS, frozenset({_DELETE_FILE_PATH_ID})):
                if not one.wants(entry):
                    continue
                delete_file = entry["data_file"]
                left = [b for b in self._builders if not b.add_delete_file(delete_file, spec=spec)]
                if left:
                    path = _pointed_at(delete_file)
                    if path is None:
                        blind = left
                    else:
                        pointed.add(path)
            for builder in blind:
                builder.give_up()
            if pointed and not self._add_pointed(one, pointed):
                for builder in self._builders:
                    builder.give_up()

    def _add_pointed(self, one: ManifestSlice, pointed: set[str]) -> bool:
        """Find the data files in the snapshot that the delete file came with. False if one is not found."""
        snapshot = self._table.metadata.snapshots.get(one.snapshot_id or one.manifest.added_snapshot_id)
        if snapshot is None:
            return False
        for file in manifests_of(self._table, snapshot):
            if file.content != DATA or not file.may_have_live or not pointed:
                continue
            manifest = Manifest.open(self._table.read, file)
            columns = self._columns_in(manifest)
            spec = _spec_of(self._table, manifest)
            for entry in manifest.scan(ranges.FILE_FIELDS | {"file_path"}, self._wanted):
                data_file = entry["data_file"]
                path = storage.normal(data_file["file_path"])
                if entry["status"] == Status.DELETED or path not in pointed:
                    continue
                pointed.discard(path)
                self._add_file(entry, spec, columns)
        return not pointed


def _spec_of(table: LoadedTable, manifest: Manifest) -> PartitionSpec:
    """The spec that a manifest's partition tuples are of. One that does not fit must not be filed under wrong names."""
    spec = table.metadata.specs.get(manifest.file.spec_id)
    if spec is None or len(spec.fields) != manifest.partition_width:
        problem = "which the table has not" if spec is None else "which has another number of fields"
        raise MetadataUnreadableError(
            f"is of partition spec {manifest.file.spec_id}, {problem}", where=manifest.file.path
        )
    return spec


def _pointed_at(delete_file: Mapping[str, Any]) -> str | None:
    """The one data file that a delete file is about, if its metadata says so."""
    if delete_file.get("content") != 1:
        return None
    path = delete_file.get("referenced_data_file")
    if path:
        return storage.normal(path)
    lower, upper = (
        (delete_file.get(name) or {}).get(_DELETE_FILE_PATH_ID) for name in ("lower_bounds", "upper_bounds")
    )
    return storage.normal(lower.decode("utf-8")) if lower is not None and lower == upper else None
