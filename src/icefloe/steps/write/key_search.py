"""A plan's search, carried out: changed keys looked up in data files, the target's rows deleted, the source's handed to Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from icefloe.faults import fault
from icefloe.lake import Lake, history
from icefloe.lake.catalog import LoadedTable
from icefloe.lake.errors import CommitConflictError
from icefloe.planner.plan import FOUND_ROWS, KeySearch, Partitions
from icefloe.rows import NotPlainError
from icefloe.rows.deletion import Deletion
from icefloe.rows.files import live_files
from icefloe.rows.key_lookup import KeyLookup
from icefloe.rows.reads import Reads
from icefloe.spark.fence import TargetMovedError

MOST_ROWS = 1_000_000
"""Rows of the source: more are left to Spark, however few were expected."""
MOST_BYTES = 64 * 2**20
"""Likewise: they go to Spark in one piece."""


@dataclass(frozen=True)
class KeySearchRun:
    """``base``: the snapshot of the target that is looked at; ``end``: that of the source. ``branch`` stands on ``base``, and nothing on it
    has touched a file of the late partitions."""

    session: Any
    lake: Lake
    search: KeySearch
    touched: Partitions
    target: str
    base: int
    end: int
    branch: str
    properties: Mapping[str, str]
    """Of the snapshot that deletes."""
    threads: int
    log: Callable[[str], None]
    reads: Reads = field(default_factory=Reads)
    """What has been decoded so far, also of a search that is given up."""

    def find(self) -> FoundRows:
        """Raises :class:`NotPlainError` where it is not for us; nothing was written then."""
        began = time.monotonic()
        search, late = self.search, self.touched.late
        changes, source, target = (self.lake.table(name) for name in (search.change_table, search.source, self.target))
        of_source, of_target = [own for own, _ in search.keys], [own for _, own in search.keys]
        in_changes, in_source = (
            KeyLookup(table, of_source, most=MOST_ROWS, reads=self.reads) for table in (changes, source)
        )
        in_target = KeyLookup(target, of_target, most=MOST_ROWS, reads=self.reads)
        if not in_changes.key_types == in_source.key_types == in_target.key_types:
            raise NotPlainError("the keys are of other types by now")
        new = live_files(changes, _head(changes), search.partition, late)
        old = live_files(target, self.base, self.touched.column, late)
        wanted = live_files(source, self.end, search.partition, late)
        keys = in_changes.keys(new, self.threads)
        positions = in_target.positions(old, keys, self.threads)
        rows = in_source.rows(wanted, keys, search.columns, self.threads, partition=search.partition)
        if rows.nbytes > MOST_BYTES:
            raise NotPlainError(f"the rows of {search.source} with a changed key take {rows.nbytes >> 20:,} MB")
        looked = sum(file.rows for file in (*old, *wanted))
        self.log(f"search: {rows.num_rows:,} rows found among {looked:,}: {time.monotonic() - began:.1f} s")
        fault("search.found")
        deleted = {file: positions[file.path] for file in old if file.path in positions}
        return FoundRows(rows, Deletion(self.lake.tables, target, self.base, deleted))

    def hand_over(self, rows: FoundRows) -> None:
        """The rows, to the session, as the view that the append reads."""
        frame(self.session, rows.rows).createOrReplaceTempView(FOUND_ROWS)

    def delete(self, rows: FoundRows) -> None:
        """What was found in the target, from the attempt's branch. None of it: no snapshot."""
        began = time.monotonic()
        try:
            rows.deletion.commit(self.branch, self.properties)
        except CommitConflictError as error:
            raise TargetMovedError(error.message, where=self.target, hint="the step is repeated") from error
        self.log(f"delete keys: {time.monotonic() - began:.1f} s")


@dataclass(frozen=True)
class FoundRows:
    """Rows of the source, and what is to be deleted from the target."""

    rows: pa.Table
    deletion: Deletion


def frame(session: Any, rows: pa.Table) -> Any:
    """Rows of Arrow's, as Spark reads them from a table."""
    from pyspark.sql.types import StructField, StructType

    schema = StructType([StructField(field.name, _spark_type(field.type)) for field in rows.schema])
    return session.createDataFrame(rows, schema=schema)


def _spark_type(kind: pa.DataType) -> Any:
    """Said, and not left to PySpark: it takes a time without a zone for one of the session's (4.1)."""
    from pyspark.sql import types

    if pa.types.is_decimal(kind):
        return types.DecimalType(kind.precision, kind.scale)
    return {
        pa.bool_(): types.BooleanType(),
        pa.int32(): types.IntegerType(),
        pa.int64(): types.LongType(),
        pa.float32(): types.FloatType(),
        pa.float64(): types.DoubleType(),
        pa.date32(): types.DateType(),
        pa.timestamp("us"): types.TimestampNTZType(),
        pa.timestamp("us", tz="UTC"): types.TimestampType(),
        pa.string(): types.StringType(),
        pa.binary(): types.BinaryType(),
    }[kind]


def _head(table: LoadedTable) -> int:
    head = history.head(table.metadata, "main", table=table.name)
    if head is None:
        raise NotPlainError(f"{table.name} has no rows")
    return head
