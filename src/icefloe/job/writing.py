"""Writing a DataFrame to a table. Works on Spark Connect and in a driver alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal
from uuid import uuid4

from icefloe.errors import UsageError

WriteMode = Literal["append", "overwrite", "merge"]


class WriteError(UsageError):
    """A write that cannot be meant."""

    code = "job.write"


def write_frame(
    session: Any,
    data: Any,
    table: str,
    *,
    mode: WriteMode,
    keys: tuple[str, ...],
    where: str | None,
    partition_by: tuple[str, ...],
    admit: Callable[[str], bool],
    log: Callable[[str], None],
) -> bool:
    _check(data, table, mode, keys, where, partition_by)
    if not session.catalog.tableExists(table):
        session.sql(creation(data, table, partition_by))
        log(f"{table} did not exist, and was made")
    if not admit(table):
        return False
    if mode == "append":
        data.writeTo(table).append()
    elif mode == "overwrite" and where is None:
        data.writeTo(table).overwritePartitions()
    elif mode == "overwrite" and where is not None:
        from pyspark.sql.functions import expr

        data.writeTo(table).overwrite(expr(where))
    else:
        view = f"icefloe_{uuid4().hex}"
        data.createOrReplaceTempView(view)
        try:
            session.sql(merge(table, view, keys)).collect()
        finally:
            session.catalog.dropTempView(view)
    return True


def creation(data: Any, table: str, partition_by: tuple[str, ...]) -> str:
    """An empty table for the rows. Not CREATE TABLE AS, which would fill it at once and unprotected."""
    columns = ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in data.schema.fields)
    parts = f" PARTITIONED BY ({', '.join(partition_by)})" if partition_by else ""
    return f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING iceberg{parts}"


def merge(table: str, source: str, keys: tuple[str, ...]) -> str:
    """NULL keys are equal to each other: a row is never added again because one of its keys is NULL."""
    match = " AND ".join(f"t.{quoted(key)} <=> s.{quoted(key)}" for key in keys)
    return (
        f"MERGE INTO {table} AS t USING {source} AS s ON {match} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _check(
    data: Any, table: str, mode: str, keys: tuple[str, ...], where: str | None, partition_by: tuple[str, ...]
) -> None:
    if mode not in ("append", "overwrite", "merge"):
        raise WriteError(f"mode={mode!r} is not known", where=table, hint="choose from: append, overwrite, merge")
    if mode == "merge" and not keys:
        raise WriteError("a merge needs the keys that rows are matched by", where=table, hint="keys=['account_id']")
    if mode != "merge" and keys:
        raise WriteError("keys are for mode='merge'", where=table)
    if where is not None and mode != "overwrite":
        raise WriteError("where= is for mode='overwrite'", where=table)
    columns = {name.lower() for name in data.columns}
    missing = [key for key in keys if key.lower() not in columns]
    if missing:
        known = ", ".join(data.columns)
        raise WriteError(f"the rows have no column {missing[0]!r}", where=table, hint=f"their columns are: {known}")
