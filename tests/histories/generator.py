"""The random walk: which operation comes next, and the table it starts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.histories import evolution, maintenance, writes
from tests.histories.history import Column, History
from tests.histories.kinds import KINDS


@dataclass(frozen=True)
class Operation:
    run: Callable[[History], None]
    weight: float
    possible: Callable[[History], Any] = lambda h: True

    @property
    def name(self) -> str:
        return self.run.__name__


OPERATIONS = [
    Operation(writes.append, 9),
    Operation(writes.append_nothing, 0.5),
    Operation(writes.append_by_second_writer, 2, writes.second_writer_can),
    Operation(writes.overwrite_partitions, 1.5),
    Operation(writes.overwrite_statically, 0.5),
    Operation(writes.delete, 2, lambda h: h.head),
    Operation(writes.update, 2, lambda h: h.head),
    Operation(writes.merge, 2, lambda h: h.head),
    Operation(writes.merge_of_new_keys, 1.5),
    Operation(writes.merge_insert_only, 1, lambda h: h.head),
    Operation(writes.delete_whole_files, 1, lambda h: h.head),
    Operation(writes.truncate, 0.3, lambda h: h.head),
    Operation(writes.write_to_branch, 5, lambda h: h.branches),
    Operation(writes.stage, 1.2),
    Operation(writes.replace_table, 0.5),
    Operation(maintenance.compact, 1.5, lambda h: h.head),
    Operation(maintenance.rewrite_manifests, 1.2, lambda h: h.head),
    Operation(maintenance.rewrite_delete_files, 0.5, lambda h: h.head and h.version > 1),
    Operation(maintenance.expire, 1.5, lambda h: len(h.present) > 4),
    Operation(maintenance.roll_back, 0.8, lambda h: len(h.chain(h.head)) > 2),
    Operation(maintenance.set_current, 0.4, lambda h: h.head),
    Operation(maintenance.cherry_pick, 8, lambda h: h.staged and h.head),
    Operation(maintenance.create_branch, 1.2, lambda h: h.head and len(h.branches) < 3),
    Operation(maintenance.create_tag, 0.4, lambda h: h.head),
    Operation(maintenance.fast_forward, 4, lambda h: h.head and h.branches),
    Operation(maintenance.drop_branch, 0.2, lambda h: h.branches),
    Operation(evolution.add_column, 1.2, lambda h: len(h.columns) < 9),
    Operation(evolution.drop_column, 0.7, lambda h: len(evolution.droppable(h)) > 1),
    Operation(evolution.readd_column, 0.5, evolution.droppable),
    Operation(evolution.rename_column, 1),
    Operation(evolution.reorder_columns, 0.5, lambda h: len(h.columns) > 2),
    Operation(evolution.promote_column, 2, evolution.promotable),
    Operation(evolution.add_partition_field, 1, lambda h: len(h.fields) < 3),
    Operation(evolution.drop_partition_field, 0.7, lambda h: h.fields),
    Operation(evolution.replace_partition_field, 0.8, lambda h: h.fields),
    Operation(evolution.upgrade, 1.2, lambda h: h.version < 3),
    Operation(evolution.change_metrics, 0.5),
    Operation(evolution.change_sort_order, 0.3),
]


def start(spark: Any, catalog: Any, namespace: str, seed: int) -> History:
    """A fresh table: two to five random columns beside ``rid``, up to two partition fields, any format version."""
    rng = Random(seed)
    version = rng.choice([1, 2, 2, 3])
    properties = {
        "format-version": str(version),
        "write.format.default": rng.choice(["parquet"] * 6 + ["orc", "avro"]),
        "write.distribution-mode": rng.choice(["none", "hash"]),
        "write.spark.fanout.enabled": "true",
        "commit.manifest.min-count-to-merge": rng.choice(["2", "3", "100"]),
        # Iceberg's default of 4 retries waits; nothing else writes here.
        "commit.retry.num-retries": "0",
    }
    history = History(spark, catalog, namespace, f"t{seed}", rng, properties, version)
    history.columns = [Column(1, "rid", KINDS[rng.choice(["bigint", "bigint", "int"])])]
    for _ in range(rng.randint(2, 5)):
        history.columns.append(history.new_column(history.draw_kind()))
    history.first_columns = frozenset(c.key for c in history.columns)
    for _ in range(rng.choice([0, 1, 1, 2])):
        field = evolution.draw_field(history)
        if field:
            history.fields.append(field)
            history.ever_partitioned_by.add(field.column)
    columns = ", ".join(f"{c.sql} {c.kind.sql}" for c in history.columns)
    by = ", ".join(evolution.spelled(history, f) for f in history.fields)
    pairs = ", ".join(f"'{k}'='{v}'" for k, v in properties.items())
    history.sql(
        f"CREATE TABLE {history.name} ({columns}) USING iceberg"
        + (f" PARTITIONED BY ({by})" if by else "")
        + f" TBLPROPERTIES ({pairs})"
    )
    writes.append(history)
    history.done["append"] += 1
    return history


def step(history: History) -> str:
    """One random operation; returns its name."""
    able = [op for op in OPERATIONS if op.possible(history)]
    operation = history.rng.choices(able, weights=[op.weight for op in able])[0]
    history.transcript.append(f"-- {operation.name}")
    operation.run(history)
    history.done[operation.name] += 1
    return operation.name
