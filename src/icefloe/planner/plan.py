"""What the planner decides: the pattern, why not a cheaper one, the statements, and what they will read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from icefloe.planner.inputs import Pattern, Size
from icefloe.planner.spans import Span

Role = Literal["delete keys", "delete partitions", "delete range", "delete all", "append"]


@dataclass(frozen=True, slots=True)
class PlannedStatement:
    """One statement, to be run on the attempt's branch of the target."""

    role: Role
    sql: str
    beside: bool = False
    """It touches other partitions than those before it, and may run while they do: whatever comes first, the result is the same."""
    rows: str = ""
    """The end of ``sql`` that gives the rows to append, where they are so few that they are computed, and kept, while the statements
    before it run. It reads nothing that those change."""
    apart: bool = False
    """Reads the change table twice, for late partitions and for new ones."""


@dataclass(frozen=True, slots=True)
class TableRead:
    """What a plan reads of one table, from metadata. ``size`` is an upper bound; ``None``: not known."""

    table: str
    what: str
    size: Size | None


@dataclass(frozen=True, slots=True)
class Cost:
    """What a plan would do, by metadata (:mod:`icefloe.planner.cost`). A table that is read twice counts twice."""

    read: Size
    written: Size
    """Rows and bytes; how many files is not known before."""
    collected: int = 0
    """Rows whose keys are collected, or counted to find those that stand twice."""
    compared: int = 0
    """Rows that are looked through for changed keys."""
    computed: int = 0
    """Rows that go through the SELECT."""
    deleted: int = 0
    """Rows of the target that are deleted one by one. Those of whole files cost nothing."""
    seconds: float = 0.0
    """On a small local server: a measure to compare costs by, not a promise."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "read_rows": self.read.rows,
            "read_bytes": self.read.bytes,
            "written_rows": self.written.rows,
            "written_bytes": self.written.bytes,
            "deleted_rows": self.deleted,
            "collected_rows": self.collected,
            "compared_rows": self.compared,
            "computed_rows": self.computed,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a cheaper pattern was not taken."""

    pattern: Pattern
    reason: str


@dataclass(frozen=True, slots=True)
class Partitions:
    """The target's partitions that are touched, by what is done to them."""

    column: str
    new: tuple[Any, ...] = ()
    late: tuple[Any, ...] = ()
    overwritten: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    """``sql`` gives the values of ``columns`` in all changed rows. ``few``: so few that every executor can hold them."""

    columns: tuple[str, ...]
    sql: str
    few: bool


@dataclass(frozen=True, slots=True)
class KeySearch:
    """Changed keys are looked up in data files by the step itself, in place of two statements of Spark's.

    The target's rows with one of them are deleted, and the source's are handed to ``statements`` under the name :data:`FOUND_ROWS`. These
    take the place of all of the plan's own but those ``beside`` others; where the files turn out not to be plain, the plan's own do it.
    """

    source: str
    change_table: str
    partition: str
    """The column that the source is partitioned by; the target's is that of the plan's partitions."""
    keys: tuple[tuple[str, str], ...]
    """Columns of the source and of the target, without that of the partition."""
    columns: tuple[str, ...]
    """Of the source, that the SELECT may read."""
    statements: tuple[PlannedStatement, ...]


FOUND_ROWS = "icefloe_found_rows"
"""A temporary view; a plan has at most one search."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What is done for later readers once the batch is published: small files of these partitions of ``column`` are joined."""

    column: str
    values: tuple[Any, ...]
    below: int
    """Bytes: larger files stay as they are."""
    statements: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """``statements`` run in order, except for those ``beside`` others; then ``duplicates``, if there is one, must give no row; then the branch is published."""

    pattern: Pattern
    reason: str
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    statements: tuple[PlannedStatement, ...]
    duplicates: str | None
    reads: tuple[TableRead, ...]
    partitions: Partitions | None = None
    partition_by: tuple[str, ...] = ()
    """For a target that does not exist yet."""
    properties: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the session, while the statements run."""
    changed_keys: ChangedKeys | None = None
    """How changed rows of the sources show in the result, if not by whole partitions; with late partitions, in those only."""
    uncaptured: tuple[str, ...] = ()
    """Tables that are read as they are."""
    compaction: Compaction | None = None
    span: Span | None = None
    """The range that is written anew, after what changed; ``None`` also where everything is."""
    search: KeySearch | None = None
    cost: Cost | None = None
    """``None``: metadata does not tell, or there is nothing to do."""
    full_cost: Cost | None = None
    """Of filling the target anew instead."""
    outweighed: Cost | None = None
    """Of the plan by what changed, where a full run was taken because it costs less."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON of ``icefloe explain``."""
        touched = self.partitions
        return {
            "pattern": self.pattern,
            "reason": self.reason,
            "not": {refusal.pattern: refusal.reason for refusal in self.refusals},
            "notes": list(self.notes),
            "keys": list(self.keys),
            "range": {
                "column": self.span.column,
                "from": _shown(self.span.low),
                "to": _shown(self.span.high),
                "condition": self.span.condition(self.span.column),
            }
            if self.span
            else None,
            "partitions": {
                "column": touched.column,
                "new": [_shown(value) for value in touched.new],
                "late": [_shown(value) for value in touched.late],
                "overwritten": [_shown(value) for value in touched.overwritten],
            }
            if touched
            else None,
            "reads": [
                {
                    "table": read.table,
                    "what": read.what,
                    "files": read.size.files if read.size else None,
                    "rows": read.size.rows if read.size else None,
                    "bytes": read.size.bytes if read.size else None,
                }
                for read in self.reads
            ],
            "cost": self.cost.to_dict() if self.cost else None,
            "full_cost": self.full_cost.to_dict() if self.full_cost else None,
            "outweighed_cost": self.outweighed.to_dict() if self.outweighed else None,
            "settings": dict(self.settings),
            "statements": [
                {
                    "role": statement.role,
                    "sql": statement.sql,
                    "beside": statement.beside,
                    "ahead": bool(statement.rows),
                }
                for statement in self.statements
            ],
            "search": {
                "keys": [of_target for _, of_target in self.search.keys],
                "columns": list(self.search.columns),
                "statements": [{"role": statement.role, "sql": statement.sql} for statement in self.search.statements],
            }
            if self.search
            else None,
            "duplicates": self.duplicates,
            "compaction": {
                "column": self.compaction.column,
                "partitions": [_shown(value) for value in self.compaction.values],
                "files_below_bytes": self.compaction.below,
                "statements": list(self.compaction.statements),
            }
            if self.compaction
            else None,
        }


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, int | str) else str(value)
