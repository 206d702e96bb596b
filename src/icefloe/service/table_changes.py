"""What changed in a table, from its metadata alone, and change tables of just that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from icefloe.errors import UsageError
from icefloe.lake import ChangeSet, ChangeTable, Lake
from icefloe.lake.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Change:
    """``table``: the change table that was made of it."""

    found: ChangeSet
    table: ChangeTable | None = None

    def to_dict(self) -> dict[str, Any]:
        return self.found.to_dict(change_table=self.table.name if self.table else None)


def changes(
    lake: Lake,
    table: str,
    *,
    since: int | None = None,
    until: int | None = None,
    ref: str = "main",
    operations: Sequence[str] = ("append",),
    columns: Sequence[str] | None = None,
    on_gap: Literal["fail", "full", "diff"] = "fail",
    create: str | None = None,
) -> Change:
    """``columns`` None: those of the partitions. ``create``: also make a change table of this name."""
    loaded = lake.table(table)
    wanted = list(columns) if columns is not None else partition_columns(loaded.metadata)
    found = lake.changes_of(
        loaded, since=since, until=until, ref=ref, operations=operations, columns=wanted, on_gap=on_gap
    )
    if create is None:
        return Change(found)
    return Change(found, lake.create_change_table(found, name=bare_name(create, lake), table=loaded))


def bare_name(name: str, lake: Lake) -> str:
    """A plain name; the namespace is the configured one."""
    prefix = ".".join(lake.change_table_namespace) + "."
    bare = name.removeprefix(f"{lake.tables.name}.").removeprefix(prefix)
    if not bare.isascii() or not bare.replace("_", "a").isalnum() or len(bare) > 200:
        raise UsageError(f"{name[:200]!r} is not a name for a change table", hint="use letters, digits and underscores")
    return bare


def partition_columns(metadata: TableMetadata) -> list[str]:
    columns: dict[str, None] = {}
    for spec in metadata.specs.values():
        for one in spec.fields:
            source = metadata.schema.fields.get(one.source_id)
            if source is not None and one.transform != "void":
                columns[source.name] = None
    return list(columns)
