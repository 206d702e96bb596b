"""One random history: a real table, and the shadow that says what every snapshot of it must hold.

The shadow knows rows by ``rid``, a column that every row has and no two appended rows share. Each snapshot is remembered
with the rows alive in it and, when it is an append, the rows it appended. A row is a mapping from a column's *key* (its
identity through renames) to the value, so that the same row can be spelled in any later schema: a dropped column
vanishes, an added one is NULL, a promoted one keeps its value.

Which rows an operation leaves alive is asked of Spark (``VERSION AS OF``), since only Iceberg knows what a dynamic
overwrite hits; what the values are is never asked: they are the ones the generator drew.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.histories.kinds import KINDS, Kind, comparable, wrong_in_orc

NAMES = [
    "amount",
    "Event Day",
    "select",
    "a.b",
    "tick`mark",
    'double"quote',
    "it's",
    "日付",
    "ünï",
    "order",
    "x-y",
    "UPPER",
    "per%cent",
    "semi;colon",
    "_underscore",
    "1st",
    "naïve/slash",
    "timestamp",
    "c1",
    "c2",
    "c3",
    "c4",
]

Row = dict[int, Any]


class HistoryError(AssertionError):
    """The shadow and Spark disagree: a fault of the generator, not of what is being tested."""


@dataclass(frozen=True)
class Column:
    key: int
    name: str
    kind: Kind

    @property
    def sql(self) -> str:
        return quoted(self.name)


@dataclass(frozen=True)
class PartitionField:
    column: int
    transform: str
    width: int | None = None


@dataclass
class Commit:
    """A snapshot as the shadow remembers it, also after its expiry."""

    id: int
    parent: int | None
    operation: str
    summary: Mapping[str, str]
    live: dict[int, Row]
    appended: dict[int, Row]
    written: frozenset[int]
    """Rids the statement itself named; what else it wrote was carried over from older files."""
    version: int
    columns: tuple[Column, ...]
    """The schema of that moment, which an old snapshot is read in."""

    @property
    def rid_name(self) -> str:
        return next(c.name for c in self.columns if c.key == 1)


@dataclass
class History:
    spark: Any
    catalog: Any
    """The same catalog for PyIceberg, which is the second writer."""
    namespace: str
    table: str
    rng: Random
    properties: dict[str, str]
    version: int
    columns: list[Column] = field(default_factory=list)
    fields: list[PartitionField] = field(default_factory=list)
    past_fields: list[PartitionField] = field(default_factory=list)
    ever_partitioned_by: set[int] = field(default_factory=set)
    commits: dict[int, Commit] = field(default_factory=dict)
    present: set[int] = field(default_factory=set)
    """Snapshots that the table's metadata still has."""
    refs: dict[str, int] = field(default_factory=dict)
    tags: set[str] = field(default_factory=set)
    staged: list[int] = field(default_factory=list)
    transcript: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    first_columns: frozenset[int] = frozenset()
    kinds_ever: set[str] = field(default_factory=set)
    """Kinds of all columns there ever were: old schemas stay in the metadata."""
    next_rid: int = 1
    next_key: int = 1
    next_label: int = 1

    # -- the table ---------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return f"{self.namespace}.{self.table}"

    @property
    def rid(self) -> Column:
        return self.columns[[c.key for c in self.columns].index(1)]

    @property
    def head(self) -> int | None:
        return self.refs.get("main")

    @property
    def branches(self) -> list[str]:
        """Branches that the history made itself; pins are others' business."""
        return sorted(name for name in self.refs if re.fullmatch(r"b\d+", name))

    def column(self, key: int) -> Column:
        return next(c for c in self.columns if c.key == key)

    def sql(self, statement: str) -> list[Any]:
        self.transcript.append(statement)
        return list(self.spark.sql(statement).collect())

    def conf(self, key: str, value: str | None) -> None:
        self.transcript.append(f"SET {key}={value}" if value is not None else f"RESET {key}")
        if value is None:
            self.spark.conf.unset(key)
        else:
            self.spark.conf.set(key, value)

    def label(self, prefix: str) -> str:
        self.next_label += 1
        return f"{prefix}{self.next_label}"

    # -- drawing -----------------------------------------------------------------------------------------------------

    def new_column(self, kind: Kind) -> Column:
        taken = {c.name.lower() for c in self.columns} | {"rid"}
        name = self.rng.choice([n for n in NAMES if n.lower() not in taken])
        return self.named_column(name, kind)

    def named_column(self, name: str, kind: Kind) -> Column:
        self.next_key += 1
        self.kinds_ever.add(kind.name)
        return Column(self.next_key, name, kind)

    def draw_kind(self) -> Kind:
        parquet = self.properties.get("write.format.default", "parquet") == "parquet"
        kinds = [k for k in KINDS.values() if k.since_version <= self.version and (k.name != "variant" or parquet)]
        return self.rng.choice(kinds)

    def draw_rows(self, count: int) -> dict[int, Row]:
        rows = {}
        # NULL-only columns and files are common in life: sometimes a column is NULL in the whole write.
        nullness = {c.key: self.rng.choice([0, 0, 0.2, 0.2, 1]) for c in self.columns}
        for _ in range(count):
            rid, self.next_rid = self.next_rid, self.next_rid + 1
            row: Row = {1: rid}
            for column in self.columns:
                if column.key != 1:
                    null = self.rng.random() < nullness[column.key]
                    row[column.key] = None if null else self.draw_value(column.kind)
            rows[rid] = row
        return rows

    def draw_value(self, kind: Kind) -> Any:
        value = kind.draw(self.rng)
        while self.properties["write.format.default"] == "orc" and wrong_in_orc(value):
            value = kind.draw(self.rng)
        return value

    def values(self, rows: Iterable[Row]) -> str:
        """``SELECT`` that yields these rows in the table's column order."""
        lines = [", ".join(c.kind.sql_of(row.get(c.key)) for c in self.columns) for row in rows]
        names = ", ".join(c.sql for c in self.columns)
        if not lines:
            return f"SELECT {', '.join(f'{c.kind.sql_of(None)} AS {c.sql}' for c in self.columns)} WHERE false"
        return f"SELECT * FROM VALUES {', '.join(f'({line})' for line in lines)} AS v({names})"

    # -- what the shadow expects ----------------------------------------------------------------------------------------

    def chain(self, snapshot: int | None) -> list[int]:
        """The snapshot and its ancestors, newest first, as far as the table's metadata still has them."""
        out = []
        while snapshot is not None and snapshot in self.present:
            out.append(snapshot)
            snapshot = self.commits[snapshot].parent
        return out

    def spelled(self, rows: Iterable[Row]) -> Counter[tuple[Any, ...]]:
        """The rows as a multiset of tuples in the current schema."""
        return Counter(tuple(comparable(row.get(c.key)) for c in self.columns) for row in rows)

    def read(self, relation: str, where: str | None = None) -> Counter[tuple[Any, ...]]:
        """The same multiset, read by Spark from any relation with the current schema."""
        condition = f" WHERE {where}" if where else ""
        return Counter(
            self._tuple(row)
            for row in self.spark.sql(f"SELECT {self.projection()} FROM {relation}{condition}").collect()
        )

    def projection(self) -> str:
        return ", ".join(f"{c.kind.read.format(c.sql)} AS c{i}" for i, c in enumerate(self.columns))

    def _tuple(self, row: Any) -> tuple[Any, ...]:
        return tuple(comparable(value) for value in row)

    # -- looking at what happened --------------------------------------------------------------------------------------

    def observe(self, rows: Mapping[int, Row] | None = None) -> list[Commit]:
        """Take in the snapshots a statement made. ``rows`` are the new or changed rows that may be alive after it."""
        facts = self.spark.sql(
            f"SELECT 'snapshot' AS what, CAST(NULL AS STRING) AS name, snapshot_id, parent_id, operation, summary FROM {self.name}.snapshots"
            f" UNION ALL SELECT type, name, snapshot_id, NULL, NULL, NULL FROM {self.name}.refs"
        ).collect()
        self.refs = {f.name: f.snapshot_id for f in facts if f.what != "snapshot"}
        self.tags = {f.name for f in facts if f.what == "TAG"}
        seen = {f.snapshot_id: f for f in facts if f.what == "snapshot"}
        self.present = set(seen)
        fresh = [f for f in seen.values() if f.snapshot_id not in self.commits]
        made = []
        while fresh:  # parents first
            fact = next(f for f in fresh if f.parent_id is None or f.parent_id in self.commits)
            fresh.remove(fact)
            made.append(self._remember(fact, rows or {}))
        return made

    def _remember(self, fact: Any, rows: Mapping[int, Row]) -> Commit:
        before = self.commits[fact.parent_id].live if fact.parent_id is not None else {}
        candidates = {**before, **rows}
        found = [
            r[0]
            for r in self.spark.sql(
                f"SELECT {self.rid.sql} FROM {self.name} VERSION AS OF {fact.snapshot_id}"
            ).collect()
        ]
        if len(found) != len(set(found)) or not set(found) <= set(candidates):
            raise HistoryError(
                f"snapshot {fact.snapshot_id} ({fact.operation}) holds rids {sorted(found)}, possible are {sorted(candidates)}"
            )
        live = {rid: candidates[rid] for rid in found}
        appended = {rid: row for rid, row in live.items() if rid not in before} if fact.operation == "append" else {}
        commit = Commit(
            fact.snapshot_id,
            fact.parent_id,
            fact.operation,
            dict(fact.summary),
            live,
            appended,
            frozenset(rows),
            self.version,
            tuple(self.columns),
        )
        self.commits[commit.id] = commit
        return commit


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
