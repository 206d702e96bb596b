"""Sees the writes of a PySpark driver, as :mod:`icefloe.spark.write_interceptor` does those of a Connect client.

A driver talks to its JVM through Python methods, a handful of which write. For the length of a step each of them asks the fence
first. What reaches the JVM on other ways (``df._jdf``, a streaming query, a library in Java) is not seen: such tables belong
under ``targets:``, which are protected before the script starts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from icefloe.spark.fence import Fence
from icefloe.spark.statements import Statement
from icefloe.spark.targets import Effect, Write, parse

_NOTHING = "SELECT 'published already' AS icefloe WHERE false"
_TABLE = "_icefloe_table"


@contextmanager
def watched(fence: Fence) -> Iterator[None]:
    """Within this, what a classic session writes is fenced."""
    from pyspark.sql.classic.dataframe import DataFrame
    from pyspark.sql.merge import MergeIntoWriter
    from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2
    from pyspark.sql.session import SparkSession

    def effects(of: type, names: tuple[str, ...], effect: Effect) -> list[tuple[type, str, Callable[..., Any]]]:
        return [(of, name, _asking(fence, getattr(of, name), effect)) for name in names]

    replacements = [
        (SparkSession, "sql", _sql(fence, SparkSession.sql)),
        (DataFrame, "writeTo", _naming(DataFrame.writeTo)),
        (DataFrame, "mergeInto", _naming(DataFrame.mergeInto)),
        *effects(DataFrameWriterV2, ("append", "overwrite", "overwritePartitions"), Effect.ROWS),
        *effects(DataFrameWriterV2, ("create", "replace", "createOrReplace"), Effect.TABLE),
        *effects(MergeIntoWriter, ("merge",), Effect.ROWS),
        (DataFrameWriter, "mode", _moded(DataFrameWriter.mode)),
        (DataFrameWriter, "insertInto", _named(fence, DataFrameWriter.insertInto, lambda mode: Effect.ROWS)),
        (DataFrameWriter, "saveAsTable", _named(fence, DataFrameWriter.saveAsTable, _of_mode)),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replacements]
    for owner, name, replacement in replacements:
        setattr(owner, name, replacement)
    try:
        yield
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)


def _sql(fence: Fence, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def sql(self: Any, sqlQuery: str, *args: Any, **kwargs: Any) -> Any:  # noqa: N803 - PySpark's own name
        writes = parse(sqlQuery, where="spark.sql")
        if len(writes) != 1:
            return original(self, sqlQuery, *args, **kwargs)
        if not fence.admit(writes[0]):
            return original(self, _NOTHING)
        try:
            return original(self, sqlQuery, *args, **kwargs)
        finally:
            fence.ended(writes[0])

    return sql


def _naming(original: Callable[..., Any]) -> Callable[..., Any]:
    """``writeTo`` and ``mergeInto`` do not remember in Python what they write to."""

    @functools.wraps(original)
    def method(self: Any, table: str, *args: Any, **kwargs: Any) -> Any:
        writer = original(self, table, *args, **kwargs)
        setattr(writer, _TABLE, table)
        return writer

    return method


def _asking(fence: Fence, original: Callable[..., Any], effect: Effect) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _guarded(fence, getattr(self, _TABLE, None), effect, lambda: original(self, *args, **kwargs))

    return method


def _named(fence: Fence, original: Callable[..., Any], effect: Callable[[str | None], Effect]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        mode = kwargs.get("mode") or getattr(self, "_icefloe_mode", None)
        return _guarded(fence, name, effect(mode), lambda: original(self, name, *args, **kwargs))

    return method


def _moded(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def mode(self: Any, saveMode: str | None) -> Any:  # noqa: N803 - PySpark's own name
        self._icefloe_mode = saveMode
        return original(self, saveMode)

    return mode


def _of_mode(mode: str | None) -> Effect:
    return Effect.ROWS if mode == "append" else Effect.TABLE


def _guarded(fence: Fence, table: str | None, effect: Effect, write: Callable[[], Any]) -> Any:
    if table is None:
        return write()
    guarded = Write(Statement(f"write to {table}", 1, 1), table, effect)
    if not fence.admit(guarded):
        return None
    try:
        return write()
    finally:
        fence.ended(guarded)
