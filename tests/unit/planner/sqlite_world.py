"""The corpus on SQLite: plans carried out statement by statement on small random tables, thousands of times without Spark.

SQLite stands in for Spark as far as it understands the SELECTs (sqlglot translates them); days are texts there. What is tested is the
planner's reasoning: whether what it deletes and adds is what has changed. That Spark reads the statements as meant is for the corpus run
on Spark (``python -m tests.planner.run``).
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import sqlglot

from icefloe.planner import choice, statements
from icefloe.planner.analysis import Analysis, analyse
from icefloe.planner.inputs import Column, PartitionContents, PartitionKey, Size, SourceState, TargetState, WriteRequest
from icefloe.planner.plan import FOUND_ROWS, KeySearch, Plan
from icefloe.planner.spans import Span
from tests.planner.corpus import Case

TABLES: dict[str, tuple[tuple[str, str], ...]] = {
    "events": (
        ("id", "long"),
        ("account_id", "long"),
        ("country", "string"),
        ("event_day", "string"),
        ("ts", "long"),
        ("view_min", "int"),
        ("device", "string"),
        ("title_id", "int"),
    ),
    "refunds": (("id", "long"), ("account_id", "long"), ("event_day", "string"), ("amount", "int")),
    "accounts": (("account_id", "long"), ("plan", "string"), ("region", "string")),
}
PARTITIONED = ("events", "refunds")


class NotForSqliteError(Exception):
    """SQLite cannot run this SELECT."""


def translated(text: str) -> str:
    return sqlglot.transpile(text, read="spark", write="sqlite", unsupported_level=sqlglot.ErrorLevel.IGNORE)[0]


class SqliteWorld:
    """Sources, their states before and after a batch, and one target."""

    def __init__(self, case: Case, seed: int) -> None:
        self.random = Random(seed)
        self.case = case
        self.database = sqlite3.connect(":memory:")
        self.text = case.text.format(n="main").replace("main.", "")
        for name, columns in TABLES.items():
            for suffix in ("", "_from", "_delta"):
                self.database.execute(f"CREATE TABLE {name}{suffix} ({', '.join(column for column, _ in columns)})")
        self.next_id = 0
        self.number = 0
        self.days = 3
        for name in TABLES:
            self._insert(name, [self._row(name) for _ in range(self.random.randint(0, 8))])
        self.columns = self._create_target()

    def full(self) -> Counter[tuple[Any, ...]]:
        return Counter(self.database.execute(f"SELECT * FROM ({translated(self.text)})").fetchall())

    def target(self) -> Counter[tuple[Any, ...]]:
        return Counter(self.database.execute("SELECT * FROM target").fetchall())

    def batch(self) -> Plan:
        """Change the sources, plan, and carry the plan out."""
        # Half of the time one table changes alone: what it can touch must then be found through its own columns.
        alone = self.random.choice([*TABLES, None, None, None])
        states = {name: self._changed(name, still=alone not in (None, name)) for name in TABLES}
        # Batches are small here: every other one is planned as if they were not.
        self.number += 1
        few = patch.object(statements, "FEW_ROWS", statements.FEW_ROWS if self.number % 2 else 0)
        large = patch.object(choice, "LARGE_PART", self.random.choice((choice.LARGE_PART, 9.0)))
        with few, large:
            return self.carried_out(self._plan(states, ranges=self.number % 3 == 0))

    def range_alone(self) -> Plan:
        """The sources change, nobody captures them, and a range is written."""
        states = {
            name: SourceState(name, self._changed(name, still=False).columns, total=Size(1, 1, 1)) for name in TABLES
        }
        return self.carried_out(self._plan(states, ranges=True))

    def carried_out(self, plan: Plan) -> Plan:
        if plan.changed_keys is not None:
            found = self.database.execute(translated(plan.changed_keys.sql)).fetchall()
            assert len(found) == len(set(found)), "or each row of a hot key is compared with all of its late rows"
        wanted = plan.statements
        if plan.search is not None:
            self._search(plan.search, plan)
            wanted = (*(one for one in wanted if one.beside), *plan.search.statements)
        # What may be computed ahead is computed before anything else.
        ahead = {one.sql: self._rows_ahead(one.rows) for one in wanted if one.rows}
        for statement in wanted:
            if statement.sql in ahead:
                self._insert("target", ahead[statement.sql])
            else:
                self.database.execute(translated(statement.sql))
        return plan

    def _search(self, search: KeySearch, plan: Plan) -> None:
        """What a step does about it with data files."""
        assert plan.partitions is not None
        of_source, of_target = zip((search.partition, plan.partitions.column), *search.keys, strict=True)
        rows = self.database.execute(f"SELECT {', '.join(of_source)} FROM {search.change_table}").fetchall()
        keys = {row for row in rows if row[0] in plan.partitions.late}
        found = self.database.execute(f"SELECT {', '.join(of_target)}, rowid FROM target").fetchall()
        self.database.executemany(
            "DELETE FROM target WHERE rowid = ?", [row[-1:] for row in found if tuple(row[:-1]) in keys]
        )
        self.database.execute(f"DROP TABLE IF EXISTS {FOUND_ROWS}")
        self.database.execute(f"CREATE TABLE {FOUND_ROWS} ({', '.join(search.columns)})")
        rows = self.database.execute(
            f"SELECT {', '.join(of_source)}, {', '.join(search.columns)} FROM {search.source}"
        ).fetchall()
        self._insert(FOUND_ROWS, [row[len(of_source) :] for row in rows if row[: len(of_source)] in keys])

    def _rows_ahead(self, text: str) -> list[tuple[Any, ...]]:
        found = self.database.execute(translated(text))
        assert tuple(item[0] for item in found.description) == self.columns, "as the target has them"
        return found.fetchall()

    # -- the target --------------------------------------------------------------------------------------------------------------

    def _create_target(self) -> tuple[str, ...]:
        try:
            found = self.database.execute(f"SELECT * FROM ({translated(self.text)}) LIMIT 0")
        except sqlite3.Error as error:
            raise NotForSqliteError(str(error)) from error
        names = tuple(item[0] for item in found.description)
        self.database.execute(f"CREATE TABLE target ({', '.join(names)})")
        self.database.execute(f"INSERT INTO target SELECT * FROM ({translated(self.text)})")
        return names

    def _plan(self, states: dict[str, SourceState], *, ranges: bool = False) -> Plan:
        analysis = analyse(WriteRequest(self.text, "target", self.case.keys), states)
        relation = analysis.influence.relation if analysis.influence else None
        types = tuple(Column(place.name, place.type or "long") for place in relation.columns) if relation else ()
        partitions = [name for name in ("event_day", "day", "country") if name in self.columns]
        span = self._some_range(analysis) if ranges else None
        if span is not None and span.column in partitions[:1]:
            self._damage(span)
        rows = sum(self.target().values())
        target = TargetState(
            "target",
            "target",
            "target",
            exists=True,
            columns=types,
            identity_columns=tuple(partitions[:1]),
            total=Size(1, max(rows, 1), 1),
            scattered=self.random.random() < 0.7,
            format_version=self.random.choice((2, 3)),
        )
        contents, cores = self._contents(analysis, target), self.random.choice((None, 1, 2))
        return choice.plan(analysis, target, contents, columns=self.columns, span=span, cores=cores)

    def _some_range(self, analysis: Analysis) -> Span | None:
        """Between two values that a column of the result has, or had; perhaps without an end."""
        relation = analysis.influence.relation if analysis.influence else None
        kinds = {place.name: place.type for place in relation.columns} if relation else {}
        names = [name for name in self.columns if kinds.get(name) in ("string", "long", "int")]
        if not names:
            return None
        name = self.random.choice(names)
        at = self.columns.index(name)
        values = sorted({row[at] for row in (*self.full(), *self.target()) if row[at] is not None})
        if not values:
            return None
        low, high = sorted(self.random.choices(values, k=2))
        open_end = self.random.choice(["low", "high", None, None])
        return Span(name, str(kinds[name]), None if open_end == "low" else low, None if open_end == "high" else high)

    def _damage(self, span: Span) -> None:
        """Somebody's hand in the target. In the range, which is one of whole partitions: what was there is of no matter."""
        condition = translated(f"SELECT rowid FROM target WHERE {span.condition(span.column)}")
        self.database.execute(f"DELETE FROM target WHERE rowid IN ({condition} ORDER BY rowid LIMIT 2)")
        self.database.execute(
            f"INSERT INTO target SELECT * FROM target WHERE rowid IN ({condition} ORDER BY rowid DESC LIMIT 2)"
        )

    def _contents(self, analysis: Analysis, target: TargetState) -> PartitionContents:
        link = analysis.link(target)
        if link is None or self.random.random() < 0.1:
            return PartitionContents()
        there = self._sizes("target", link.column)
        tables = analysis.changed_tables
        live = self._sizes(tables[0], next(iter(link.sources.values())).column) if len(tables) == 1 else None
        # Whatever metadata says of how much a column tells, the result is right.
        bits = {name: self.random.choice([0.0, 64.0]) for name in sorted(analysis.key_maps)}
        return PartitionContents(there, live, bits)

    def _sizes(self, table: str, column: str) -> dict[Any, Size]:
        found = self.database.execute(f"SELECT {column}, count(*) FROM {table} GROUP BY {column}").fetchall()
        return {value: Size(1, count, count) for value, count in found}

    # -- the sources -------------------------------------------------------------------------------------------------------------

    def _changed(self, name: str, *, still: bool) -> SourceState:
        """The table moves on by a few rows, or stays; what a capture would say of it."""
        before = self._rows(name)
        self.database.execute(f"DELETE FROM {name}_from")
        self._insert(f"{name}_from", before)
        kind = "none" if still else self.random.choice(["append", "append", "append", "none", "delete", "update"])
        if name == "events" and self.random.random() < 0.3:
            self.days += 1
        added = [self._row(name) for _ in range(self.random.randint(1, 4))] if kind != "none" else []
        removed = self.random.sample(before, min(len(before), 2)) if kind in ("delete", "update") else []
        if kind == "delete":
            added = []
        for row in removed:
            condition = " AND ".join(f"{column} IS ?" for column, _ in TABLES[name])
            self.database.execute(
                f"DELETE FROM {name} WHERE rowid = (SELECT rowid FROM {name} WHERE {condition} LIMIT 1)", row
            )
        self._insert(name, added)
        self.database.execute(f"DELETE FROM {name}_delta")
        append_only = not removed
        if append_only:
            self._insert(f"{name}_delta", added)
        columns = tuple(Column(*pair) for pair in TABLES[name])
        state = SourceState(
            name=name,
            columns=columns,
            captured=True,
            changed=bool(added or removed),
            append_only=append_only,
            at_to=name,
            at_from=f"{name}_from",
            change_table=f"{name}_delta",
            nulls={column.name: sum(row[i] is None for row in added) for i, column in enumerate(columns)},
            added=Size(1, len(added), 1),
            total=Size(1, len(before), 1),
        )
        if name not in PARTITIONED:
            return state
        at = [column for column, _ in TABLES[name]].index("event_day")
        counts: dict[Any, int] = {row[at]: 0 for row in removed}
        for row in added:
            counts[row[at]] = counts.get(row[at], 0) + 1
        texts = [f"event_day = '{value}'" if value is not None else "event_day IS NULL" for value in counts]
        return replace(
            state,
            changed_partitions=(PartitionKey("event_day", "string", "identity", counts),) if counts else (),
            partition_filter=f"({' OR '.join(texts)})" if texts else None,
        )

    def _row(self, name: str) -> tuple[Any, ...]:
        chance = self.random

        def maybe(value: Any) -> Any:
            return None if chance.random() < 0.12 else value

        account, day = maybe(chance.randint(1, 4)), maybe(f"d{chance.randint(1, self.days)}")
        if name == "accounts":
            return account, chance.choice(["free", "pro"]), maybe(chance.choice(["EU", "US"]))
        if name == "refunds":
            return chance.randint(1, max(self.next_id, 1)), account, day, chance.randint(1, 4)
        self.next_id += 1
        country = maybe(chance.choice(["DE", "de", "NO"]))
        minutes = maybe(chance.randint(1, 40))
        return (
            self.next_id,
            account,
            country,
            day,
            chance.randint(1, 9),
            minutes,
            chance.choice(["tv", "phone", "bot"]),
            chance.randint(1, 3),
        )

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        return self.database.execute(f"SELECT * FROM {table}").fetchall()

    def _insert(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            marks = ", ".join("?" for _ in rows[0])
            self.database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
