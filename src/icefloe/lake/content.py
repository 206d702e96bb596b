"""Which manifests hold the files of a change set, by the manifest lists: as a log, as the table as it is, or as a difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from icefloe.lake import history, storage
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.errors import (
    DiffImpossibleError,
    HistoryLostError,
    UnsupportedTableError,
)
from icefloe.lake.history import Checkpoint
from icefloe.lake.manifests import DATA, UNKNOWN_SNAPSHOT, EntryStatus, Manifest, ManifestFile, read_list
from icefloe.lake.metadata import Snapshot

Kind = Literal["log", "full", "diff"]
Side = Literal["added", "removed", "deletes"]
Which = Literal["added", "deleted", "live"]


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
            fits = status != EntryStatus.DELETED
        else:
            fits = status == (EntryStatus.ADDED if self.which == "added" else EntryStatus.DELETED)
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
class Content:
    kind: Kind
    operations: Mapping[str, int]
    skipped: Mapping[str, int]
    append_only: bool
    exact: bool
    slices: Mapping[Side, tuple[ManifestSlice, ...]]
    holds: tuple[int, ...] = ()


def full(table: LoadedTable, to: int | None) -> Content:
    """The table as it is at ``to``."""
    snapshots = list(history.ancestors(table.metadata, to)) if to is not None else []
    slices: dict[Side, list[ManifestSlice]] = {"added": [], "removed": [], "deletes": []}
    if snapshots:
        for manifest in manifests_of(table, snapshots[0]):
            if manifest.may_have_live:
                slices["added" if manifest.content == DATA else "deletes"].append(ManifestSlice(manifest, "live"))
    operations = Counter(operation_of(table, snapshot) for snapshot in snapshots)
    return Content("full", _ordered(operations), {}, True, True, _frozen(slices))


def log(table: LoadedTable, chain: Sequence[Snapshot], wanted: frozenset[str]) -> Content:
    """What each wanted snapshot of the chain did, in its own manifest list's words."""
    included: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    slices: dict[Side, list[ManifestSlice]] = {"added": [], "removed": [], "deletes": []}
    holds: list[int] = []
    append_only = exact = True
    unheld = False  # files captured since the last hold, which the next removal may take away
    for snapshot in chain:
        operation = operation_of(table, snapshot)
        own = own_manifests(table, snapshot)
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
        added = [slice_ for slice_ in adds if slice_.manifest.content == DATA]
        deletes = [slice_ for slice_ in adds if slice_.manifest.content != DATA]
        append_only = append_only and operation == "append"
        exact = exact and not (added and removes)
        unheld = unheld or bool(added)
        if snapshot.is_cherry_pick:
            added = _without_known(table, added, slices["added"])
        slices["added"] += added
        if operation != "append":
            slices["removed"] += removes
            slices["deletes"] += deletes
    return Content("log", _ordered(included), _ordered(skipped), append_only, exact, _frozen(slices), tuple(holds))


def diff(table: LoadedTable, since: Checkpoint, to: int | None, lost: HistoryLostError) -> Content:
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
    paths_before, paths_after = frozenset().union(*old_paths.values()), frozenset().union(*new_paths.values())
    slices: dict[Side, list[ManifestSlice]] = {"added": [], "removed": [], "deletes": []}
    for manifest in new_only:
        paths = new_paths[manifest.path] - paths_before
        if paths:
            side: Side = "added" if manifest.content == DATA else "deletes"
            slices[side].append(ManifestSlice(manifest, "live", paths, snapshot_id=to))
    undeleted = False
    for manifest in old_only:
        paths = old_paths[manifest.path] - paths_after
        if paths:
            # A delete file that is gone touches rows as one that has come does: after a roll-back they are back.
            undeleted = undeleted or manifest.content != DATA
            side = "removed" if manifest.content == DATA else "deletes"
            slices[side].append(ManifestSlice(manifest, "live", paths, snapshot_id=before.id))
    intact = not slices["removed"] and not undeleted
    return Content(
        "diff",
        {},
        {},
        append_only=intact and not slices["deletes"],
        # With delete files between the two, an added file may hold rows that were only moved there.
        exact=intact and not slices["deletes"],
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
    manifests = read_list(table.read, snapshot.manifest_list)
    if any(manifest.key_metadata for manifest in manifests):
        raise UnsupportedTableError("the table's manifests are encrypted", where=table.name)
    return manifests


def own_manifests(table: LoadedTable, snapshot: Snapshot) -> list[ManifestFile]:
    """Those that the snapshot itself wrote: the others are its ancestors'."""
    manifests = manifests_of(table, snapshot)
    unknown = next((m.path for m in manifests if m.added_snapshot_id == UNKNOWN_SNAPSHOT), None)
    if unknown is not None:
        raise UnsupportedTableError(
            f"the manifest list of snapshot {snapshot.id} does not tell which snapshot wrote {unknown}, as the first writers of v1 did",
            where=table.name,
            hint="run CALL system.rewrite_manifests on the table, and start from the snapshot after that",
        )
    return [m for m in manifests if m.added_snapshot_id == snapshot.id]


def operation_of(table: LoadedTable, snapshot: Snapshot) -> str:
    """The summary's word; a v1 writer may have left it out, and then the manifests tell."""
    if snapshot.operation:
        return snapshot.operation
    own = own_manifests(table, snapshot)
    return "overwrite" if any(m.may_have_deleted for m in own) else "append"


def _without_known(
    table: LoadedTable, added: list[ManifestSlice], known: Iterable[ManifestSlice]
) -> list[ManifestSlice]:
    """A cherry-pick adds files again that a snapshot added before; the log shows them once."""
    known_paths: set[str] = set()
    for slice_ in known:
        known_paths |= _paths(table, slice_)
    out = []
    for slice_ in added:
        fresh = _paths(table, slice_) - known_paths
        if fresh:
            out.append(ManifestSlice(slice_.manifest, slice_.which, frozenset(fresh), slice_.snapshot_id))
    return out


def _paths(table: LoadedTable, slice_: ManifestSlice) -> set[str]:
    manifest = Manifest.open(table.read, slice_.manifest)
    return {storage.normal(entry["data_file"]["file_path"]) for entry in manifest.entries() if slice_.wants(entry)}


def _live_paths(table: LoadedTable, manifest: ManifestFile) -> frozenset[str]:
    return frozenset(_paths(table, ManifestSlice(manifest, "live")))


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


def _frozen(slices: Mapping[Side, list[ManifestSlice]]) -> dict[Side, tuple[ManifestSlice, ...]]:
    return {side: tuple(group) for side, group in slices.items()}


def _ordered(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts)}
