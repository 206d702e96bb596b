"""A random source table: its schema, and what happens to it between two micro-batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Sql = Callable[[str], list[Any]]

KEY_KINDS = {
    "BIGINT": "CAST(pmod(hash(id, {salt}), {spread}) AS BIGINT)",
    "INT": "CAST(pmod(hash(id, {salt}), {spread}) AS INT)",
    "STRING": "concat('k', pmod(hash(id, {salt}), {spread}))",
    "DATE": "date_add(DATE'2025-01-01', CAST(pmod(hash(id, {salt}), {spread}) AS INT))",
}
PARTITIONS = ("day", "months(day)", "bucket(4, {key}), day", "truncate(2, {key}), day", "days(day)")


@dataclass
class Source:
    """``keys`` and ``amount`` follow renames. ``rewrites``: rows may be changed and deleted, not only appended."""

    sql: Sql
    name: str
    chance: random.Random
    rewrites: bool
    keys: list[str] = field(default_factory=list)
    amount: str = "amount"
    log: list[str] = field(default_factory=list)
    _kinds: list[str] = field(default_factory=list)
    _extra: list[str] = field(default_factory=list)
    _next: int = 0
    _renames: int = 0

    def create(self) -> None:
        self._kinds = [self.chance.choice(list(KEY_KINDS)) for _ in range(self.chance.randint(1, 3))]
        self.keys = [f"key{number}" for number in range(len(self._kinds))]
        partition = self.chance.choice(PARTITIONS)
        if "truncate" in partition and self._kinds[0] == "DATE":
            partition = "day"
        columns = ", ".join(f"{key} {kind}" for key, kind in zip(self.keys, self._kinds, strict=True))
        version = self.chance.choice((1, 2, 2, 3)) if not self.rewrites else self.chance.choice((2, 2, 3))
        mode = self.chance.choice(("copy-on-write", "merge-on-read")) if version > 1 else "copy-on-write"
        properties = {"format-version": version} | {
            f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")
        }
        listed = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
        self._do(
            f"CREATE TABLE {self.name} ({columns}, day DATE, amount BIGINT) USING iceberg "
            f"PARTITIONED BY ({partition.format(key=self.keys[0])}) TBLPROPERTIES ({listed})"
        )
        self.append()

    def live_a_little(self) -> None:
        """Between one and four things happen; at least one of them brings rows."""
        acts: list[Callable[[], None]] = [
            self.append,
            self.append,
            self.append,
            self.compact,
            self.rename,
            self.add_column,
        ]
        if self.rewrites:
            acts += [self.delete, self.update, self.overwrite]
        for act in self.chance.choices(acts, k=self.chance.randint(0, 3)):
            act()
        self.append()

    def append(self) -> None:
        rows = self.chance.choice((1, 5, 40))
        late = self.chance.choice((0, 0, 3, 20))
        values = [
            KEY_KINDS[kind].format(salt=number, spread=self.chance.choice((3, 10, 50)))
            for number, kind in enumerate(self._kinds)
        ]
        day = f"date_add(DATE'2026-03-01', CAST({self._next // 40} - pmod(hash(id, 9), {late + 1}) AS INT))"
        amount = "IF(pmod(hash(id, 7), 11) = 0, NULL, pmod(hash(id, 8), 1000))"
        extra = ["CAST(id AS STRING)"] * len(self._extra)
        selected = ", ".join((*values, day, amount, *extra))
        self._do(f"INSERT INTO {self.name} SELECT {selected} FROM range({self._next}, {self._next + rows}, 1, 1)")
        self._next += rows

    def delete(self) -> None:
        self._do(
            f"DELETE FROM {self.name} WHERE pmod(hash({self.keys[0]}, {self.amount}), 5) = {self.chance.randint(0, 4)}"
        )

    def update(self) -> None:
        self._do(
            f"UPDATE {self.name} SET {self.amount} = coalesce({self.amount}, 0) + 1 "
            f"WHERE pmod(hash({self.keys[-1]}), 4) = {self.chance.randint(0, 3)}"
        )

    def overwrite(self) -> None:
        """One partition of the newest rows, rewritten with half of them."""
        self._do(
            f"INSERT OVERWRITE {self.name} SELECT * FROM {self.name} "
            f"WHERE day = (SELECT max(day) FROM {self.name}) AND pmod(hash({self.amount}), 2) = 0"
        )

    def compact(self) -> None:
        self._do(f"CALL system.rewrite_data_files(table => '{self.name}', options => map('rewrite-all', 'true'))")

    def expire(self) -> None:
        """Everything that no reference holds."""
        self._do(
            f"CALL system.expire_snapshots(table => '{self.name}', older_than => TIMESTAMP'2100-01-01 00:00:00', retain_last => 1)"
        )

    def rename(self) -> None:
        self._renames += 1
        new = f"amount{self._renames}"
        self._do(f"ALTER TABLE {self.name} RENAME COLUMN {self.amount} TO {new}")
        self.amount = new

    def add_column(self) -> None:
        name = f"extra{len(self._extra)}"
        self._do(f"ALTER TABLE {self.name} ADD COLUMN {name} STRING")
        self._extra.append(name)

    def _do(self, statement: str) -> None:
        self.log.append(statement)
        self.sql(statement)
