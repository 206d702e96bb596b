"""Other ways to keep the two-stage pipeline's targets up to date, as their users would write them, for :mod:`benchmarks.two_stage`."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import Any, ClassVar

from benchmarks.playback import AGGREGATE, KEYS, TUNED
from benchmarks.playback_pipeline import Consumer, Pipeline
from icefloe.lake import Lake

_MERGE_ON_READ = ", ".join(f"'write.{name}.mode'='merge-on-read'" for name in ("delete", "update", "merge"))


@dataclass
class Recipe:
    """Targets of its own, filled once as a whole. Stage 1 appends what is new unless a recipe says otherwise."""

    pipeline: Pipeline
    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        self.daily, self.agg = (f"{self.pipeline.namespace}.{kind}_{self.name}" for kind in ("daily", "agg"))
        self._lake = Lake.open(self.pipeline.config)
        self._source = Consumer(self._lake, self.pipeline.source)

    def create(self) -> None:
        self.pipeline.create_targets(self.daily, self.agg, f"{TUNED}, {_MERGE_ON_READ}")

    def start(self) -> None:
        self.create()
        self._source.commit(self._source.capture())
        self.sql(f"INSERT INTO {self.daily} {self.pipeline.clean(self.pipeline.source)}")
        self.sql(f"INSERT INTO {self.agg} {AGGREGATE.format(source=self.daily)}")
        self.before = self._head(self.daily)

    def stage1(self) -> None:
        captured = self._source.capture()
        self.before = self._head(self.daily)
        self.sql(f"INSERT INTO {self.daily} {self.pipeline.clean(self.full(captured.change_table))}")
        self._source.commit(captured)

    def stage2(self) -> None:
        raise NotImplementedError

    def changes(self) -> str:
        """A change table of what stage 1 has added to the daily table."""
        made = self._lake.create_change_table(self._lake.changes(self.daily, since=self.before, details=False))
        return self.full(made.name)

    def merge(self, rows: str) -> None:
        self.sql(self.merging(rows))

    def merging(self, rows: str) -> str:
        same = " AND ".join(f"t.{key} <=> s.{key}" for key in KEYS)
        return f"MERGE INTO {self.agg} t USING ({rows}) s ON {same} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"

    def changed(self, keys: str, source: str) -> str:
        same = " AND ".join(f"d.{key} <=> k.{key}" for key in KEYS)
        return (
            f"(SELECT d.* FROM {source} d LEFT SEMI JOIN (SELECT DISTINCT {', '.join(KEYS)} FROM {keys}) k ON {same})"
        )

    def sql(self, text: str) -> None:
        self.pipeline.spark.sql(text).collect()

    def full(self, table: str | None) -> str:
        return f"{self.pipeline.config.catalog.name}.{table}"

    def _head(self, table: str) -> int:
        found = self._lake.checkpoint(table)
        assert found is not None
        return found.snapshot_id


class Seeds(Recipe):
    """As in the published design: MERGE for the days before, by the changed keys; the current day by INSERT OVERWRITE."""

    name = "seeds"

    def stage2(self) -> None:
        today = f"DATE'{self.pipeline.today}'"
        late = f"(SELECT * FROM {self.changes()} WHERE event_day < {today})"
        before = f"(SELECT * FROM {self.daily} WHERE event_day < {today})"
        self.merge(AGGREGATE.format(source=self.changed(late, before)))
        current = f"(SELECT * FROM {self.daily} WHERE event_day = {today})"
        self.sql(f"INSERT OVERWRITE {self.agg} {AGGREGATE.format(source=current)}")


class Merge(Recipe):
    """One MERGE of all changed keys."""

    name = "merge"

    def stage2(self) -> None:
        self.merge(AGGREGATE.format(source=self.changed(self.changes(), self.daily)))


class Changelog(Recipe):
    """``create_changelog_view`` tells the changed keys, then one MERGE."""

    name = "changelog"

    def stage2(self) -> None:
        catalog = self.pipeline.config.catalog.name
        self.sql(
            f"CALL {catalog}.system.create_changelog_view(table => '{self.daily}', changelog_view => 'bench_changes', "
            f"options => map('start-snapshot-id', '{self.before}'))"
        )
        self.merge(AGGREGATE.format(source=self.changed("bench_changes", self.daily)))


class Dbt(Recipe):
    """dbt's incremental model with a lookback: the last days by the load's own days, ``insert_overwrite``."""

    name = "dbt"

    def stage1(self) -> None:
        self.sql(f"INSERT OVERWRITE {self.daily} {self.pipeline.clean(self.pipeline.recent(self.pipeline.source))}")

    def stage2(self) -> None:
        self.sql(f"INSERT OVERWRITE {self.agg} {AGGREGATE.format(source=self.pipeline.recent(self.daily))}")


@dataclass
class Streaming(Recipe):
    """Structured Streaming: stage 1 appends, stage 2 merges the changed keys of each batch with foreachBatch."""

    name: ClassVar[str] = "streaming"
    folder: Any = field(default_factory=lambda: tempfile.TemporaryDirectory(prefix="icefloe-bench-stream-"))

    def start(self) -> None:
        self.create()
        self.stage1()
        self.stage2()

    def stage1(self) -> None:
        spark = self.pipeline.spark
        spark.readStream.table(self.pipeline.source).createOrReplaceTempView("bench_events")
        self._run(spark.sql(self.pipeline.clean("bench_events")).writeStream, "one", self.daily)

    def stage2(self) -> None:
        statement = self.merging(AGGREGATE.format(source=self.changed("bench_batch", self.daily)))

        def merge(frame: Any, number: int) -> None:
            frame.createOrReplaceTempView("bench_batch")
            frame.sparkSession.sql(statement).collect()

        self._run(self.pipeline.spark.readStream.table(self.daily).writeStream.foreachBatch(merge), "two", None)

    def _run(self, writer: Any, place: str, target: str | None) -> None:
        """One pass over everything that is new."""
        ready = writer.option("checkpointLocation", f"{self.folder.name}/{place}").trigger(availableNow=True)
        query = ready.toTable(target) if target is not None else ready.start()
        query.awaitTermination()


RECIPES: dict[str, type[Recipe]] = {recipe.name: recipe for recipe in (Seeds, Merge, Changelog, Streaming, Dbt)}
