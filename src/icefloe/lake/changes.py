"""Change sets: what happened to a table in (from, to] along one ref, from metadata alone.

There are three kinds. A *log* is the usual one: the files that each wanted snapshot added (and, where overwrites and
deletes were asked for, removed), as they were when it was committed. A *full* one is the table as it is at ``to``, with its
deletes applied: the first capture, or ``on_gap: full``. A *diff* compares the live files of two snapshots whose chain is
broken.

Which manifests hold those files is told by the manifest lists; the manifests themselves are opened only for what needs
them: ranges, partitions and bytes (``details``), and manifests without counts. No data file is ever opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from icefloe.errors import UsageError
from icefloe.lake import content, history, predicates
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.content import Kind, ManifestSlice, Side, refuse_unsupported
from icefloe.lake.errors import (
    HistoryLostError,
)
from icefloe.lake.history import Checkpoint
from icefloe.lake.partitions import PartitionChange
from icefloe.lake.ranges import Range
from icefloe.lake.survey import FileCounts, Survey

OPERATIONS = ("append", "overwrite", "delete")
OnGap = Literal["fail", "full", "diff"]


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
            "ranges": {name: range_.to_dict() for name, range_ in self.ranges.items()},
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
        delta = content.full(table, to)
    else:
        try:
            chain = history.between(metadata, since, to, ref=ref, table=table.name, until_given=until is not None)
            delta = content.log(table, chain, wanted)
        except HistoryLostError as lost:
            if on_gap == "fail":
                raise
            gap = lost
            if on_gap == "full":
                # The table as it is holds again what was captured before: nobody may append it.
                delta = replace(content.full(table, to), append_only=False, exact=False)
            else:
                delta = content.diff(table, since, to, lost)
    survey = Survey(table, fields)
    survey.look(delta, details=details)
    return ChangeSet(
        table=table.name,
        table_uuid=metadata.uuid,
        ref=ref,
        kind=delta.kind,
        from_snapshot=since.snapshot_id if since else None,
        to_snapshot=to,
        operations=delta.operations,
        skipped_operations=delta.skipped,
        append_only=delta.append_only,
        exact=delta.exact,
        added=survey.counts["added"],
        removed=survey.counts["removed"],
        delete_files=survey.counts["deletes"].files,
        ranges=survey.ranges,
        partitions=survey.partitions if details else None,
        range_filter=predicates.range_filter(
            [(field, survey.ranges[field.name]) for field in fields],
            anything_changed=survey.anything,
            specs=metadata.specs.values(),
        )
        if fields
        else None,
        partition_filter=predicates.partition_filter(survey.partitions, metadata.specs, metadata.schema)
        if details
        else None,
        gap=gap,
        holds=delta.holds,
        slices=delta.slices,
    )


def _checked_operations(operations: Sequence[str]) -> frozenset[str]:
    unknown = [name for name in operations if name not in OPERATIONS]
    if unknown or not operations:
        reason = f"{unknown[0]!r} is no data operation" if unknown else "no data operation was named"
        if "replace" in unknown:
            reason = "'replace' is compaction: it changes no row, so there is nothing to capture"
        raise UsageError(reason, hint=f"choose from: {', '.join(OPERATIONS)}")
    return frozenset(operations)
