"""What a plan is made from: the request, and what metadata tells of the sources and the target. Plain values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Pattern = Literal["append", "merge", "key_filter", "range_overwrite", "range", "full", "none"]
PatternOption = Literal["auto", "append", "merge", "key_filter", "range_overwrite", "full"]
FILE_BYTES = 512 * 2**20
"""What Iceberg lets files grow to unless a table says otherwise."""


@dataclass(frozen=True, slots=True)
class Column:
    """``type`` is Iceberg's word: ``int``, ``string``, ``timestamptz``, ``decimal(9,2)``."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Size:
    files: int = 0
    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.files + other.files, self.rows + other.rows, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """``write:`` as the user wrote it, with its SELECT."""

    text: str
    target: str
    keys: tuple[str, ...] = ()
    pattern: PatternOption = "auto"
    partition_by: tuple[str, ...] = ()
    lookup_tables: tuple[str, ...] = ()
    """Tables that are read as they are: a change of theirs recomputes nothing."""
    where: str = "the step"
    rebuild: str | None = None
    """Why the target is to be written anew, whatever has changed."""
    compact: bool = True
    """Small files that batches leave in the target's partitions are joined from time to time."""
    search: bool = True
    """Changed keys may be looked up by the step itself."""


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """What a source is partitioned by: a column as it is, or the day of a date or time."""

    column: str
    column_type: str
    transform: Literal["identity", "day"]
    added: Mapping[Any, int]
    """Each value of the changed partitions, with the rows that were added under it."""

    @property
    def type(self) -> str:
        """The type of the values."""
        return "date" if self.transform == "day" else self.column_type


@dataclass(frozen=True, slots=True)
class SourceState:
    """One table that the SELECT reads.

    ``whole``: the change set is the table as it is, at a first capture or after a gap. ``at_to``, ``at_from`` and
    ``change_table`` are how Spark SQL names the table at both ends of the captured range, and what came in between.
    """

    name: str
    columns: tuple[Column, ...]
    captured: bool = False
    changed: bool = False
    whole: bool = False
    append_only: bool = False
    at_to: str = ""
    at_from: str | None = None
    """``None`` when it cannot be read any more, or under other column names."""
    change_table: str | None = None
    partition_filter: str | None = None
    """Every changed row, before and after, satisfies this; ``TRUE`` and ``None`` say nothing."""
    changed_partitions: tuple[PartitionKey, ...] = ()
    """What all changed partitions are partitioned by, as far as their values are known."""
    nulls: Mapping[str, int] = field(default_factory=dict)
    """Column -> NULLs among the changed rows. What is missing is not known."""
    ignored: Mapping[str, int] = field(default_factory=dict)
    """Operations in the range that the capture was told to pass over."""
    added: Size = Size()
    total: Size = Size()


@dataclass(frozen=True, slots=True)
class TargetState:
    """The target as it is. ``sql_name`` is what statements call it, ``branch_name`` the attempt's own branch."""

    name: str
    sql_name: str
    branch_name: str
    exists: bool = False
    columns: tuple[Column, ...] = ()
    identity_columns: tuple[str, ...] = ()
    """Columns that every partition spec of the target's live files has with the identity transform."""
    total: Size = Size()
    merge_on_read: bool = True
    scattered: bool = False
    """Each task writes its rows to their partitions as they come; nothing brings them together before."""
    format_version: int = 2
    file_bytes: int = FILE_BYTES
    """What a file of it is to grow to."""
    recomputable: bool = False
    """Everything in it is what the SELECT gives, by its history: filled anew it loses nothing."""


@dataclass(frozen=True, slots=True)
class PartitionContents:
    """Live rows by partition value, of the values that were asked for: in the target, and in a source at ``to``.

    ``None`` for a side that is not known. A value that is missing from a side that is known is not there.
    """

    target: Mapping[Any, Size] | None = None
    source: Mapping[Any, Size] | None = None
    bits: Mapping[str, float] = field(default_factory=dict)
    """The target's columns, as far as metadata tells how many bits a value of theirs takes: see ``lake.partition_sizes``."""
    files: Mapping[Any, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    """The bytes of each of the target's files: for each value, in each of the partitions that have it."""
    changed: Mapping[str, Size] = field(default_factory=dict)
    """By source: what lies in its changed partitions at ``to``, where these are not the target's and rows went from them."""
