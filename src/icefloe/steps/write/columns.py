"""The result's columns against the target's: made from them when the target is new, compared when it is there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icefloe.planner.errors import TargetMismatchError
from icefloe.planner.inputs import Column, TargetState
from icefloe.planner.statements import quote

_ICEBERG = {
    "bigint": "long",
    "smallint": "int",
    "tinyint": "int",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "array": "list",
}
_WIDENED = {("int", "long"), ("float", "double"), ("string", "uuid"), ("binary", "fixed")}


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """``type`` is Spark's own word, as in DDL."""

    name: str
    type: str

    @property
    def iceberg(self) -> str:
        word = re.split(r"[<]", self.type, maxsplit=1)[0]
        return _ICEBERG.get(word, word)


def create_table(
    target: TargetState, columns: Sequence[ResultColumn], partition_by: Sequence[str], properties: Mapping[str, str]
) -> str:
    """DDL. ``partition_by`` are columns, or transforms such as ``days(ts)``."""
    untyped = next((column.name for column in columns if column.type == "void"), None)
    if untyped is not None:
        raise TargetMismatchError(
            f"the column {untyped} is NULL and has no type", where=target.name, hint=f"CAST(NULL AS …) AS {untyped}"
        )
    listed = ", ".join(f"{quote(column.name)} {column.type}" for column in columns)
    parts = ", ".join(_partition(transform, columns) for transform in partition_by)
    partitioned = f" PARTITIONED BY ({parts})" if parts else ""
    settings = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
    return (
        f"CREATE TABLE IF NOT EXISTS {target.sql_name} ({listed}) USING iceberg{partitioned} TBLPROPERTIES ({settings})"
    )


def _partition(text: str, columns: Sequence[ResultColumn]) -> str:
    known = {column.name.lower(): column.name for column in columns}
    if text.lower() in known:
        return quote(known[text.lower()])
    if "(" in text:
        return text
    raise TargetMismatchError(
        f"write.partition_by names {text!r}, which the SELECT does not give",
        hint=f"it gives: {', '.join(known.values())}; or a transform of one: days(ts), bucket(16, id)",
    )


def check(target: TargetState, columns: Sequence[ResultColumn]) -> None:
    """Refuse a target with other columns, or with types that the result's do not fit into."""
    in_target = {column.name.lower(): column for column in target.columns}
    mine = {column.name.lower(): column for column in columns}
    if len(mine) < len(columns):
        twice = next(c.name for i, c in enumerate(columns) if c.name.lower() in {d.name.lower() for d in columns[:i]})
        raise TargetMismatchError(
            f"the SELECT gives two columns named {twice}",
            where=target.name,
            hint="give one of them another name with AS",
        )
    if not target.exists:
        return
    lacking = [column.name for name, column in mine.items() if name not in in_target]
    if lacking:
        added = ", ".join(f"{column.name} {column.type}" for name, column in mine.items() if name not in in_target)
        raise TargetMismatchError(
            f"the target has no column {', '.join(lacking)}",
            where=target.name,
            hint=f"ALTER TABLE {target.name} ADD COLUMNS ({added}), or write to a new table",
        )
    extra = [column.name for name, column in in_target.items() if name not in mine]
    if extra:
        raise TargetMismatchError(
            f"the SELECT does not give the target's column {', '.join(extra)}",
            where=target.name,
            hint=f"add it to the SELECT (CAST(NULL AS …) AS {extra[0]}), or write to a new table",
        )
    for name, column in mine.items():
        if not _fits(column.iceberg, in_target[name]):
            raise TargetMismatchError(
                f"the column {column.name} is {column.type}, and the target's is {in_target[name].type}",
                where=target.name,
                hint=f"CAST({column.name} AS …) in the SELECT, or write to a new table",
            )


def _fits(result: str, target_column: Column) -> bool:
    if result == target_column.type.replace(" ", "") or (result, target_column.type.partition("[")[0]) in _WIDENED:
        return True
    mine, theirs = (
        re.fullmatch(r"decimal\((\d+),(\d+)\)", text.replace(" ", "")) for text in (result, target_column.type)
    )
    return bool(mine and theirs and mine[2] == theirs[2] and int(mine[1]) <= int(theirs[1]))
