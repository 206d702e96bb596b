"""The two-stage playback pipeline of :mod:`benchmarks.two_stage`: its source, and two ways to keep its targets up to date."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any
from uuid import uuid4

from benchmarks.playback import (
    AGGREGATE,
    FIRST_DAY,
    GROUPED,
    KEYS,
    LATE_DAYS,
    LATE_PERCENT,
    PLAYBACK,
    TUNED,
    Events,
    create_target,
    fingerprint,
    first_of_lookback,
    since,
)
from icefloe.capture import build, snapshot_ranges
from icefloe.capture.build import CaptureOptions
from icefloe.capture.snapshot_ranges import Bounds
from icefloe.capture.sources import Source
from icefloe.config import Config
from icefloe.lake import Lake
from icefloe.lake.change_table import unique_name
from icefloe.planner.inputs import WriteRequest
from icefloe.spark.fence import Fencing, branch_of_round
from icefloe.spark.marks import Mark
from icefloe.steps.write import execution
from icefloe.steps.write.write_job import WriteJob
from icefloe.store.captures import CheckpointRecord


@dataclass
class Pipeline:
    """The source. Rows are a function of their number, so that every way sees the same."""

    spark: Any
    config: Config
    events_per_day: int
    events: Events = PLAYBACK
    namespace: str = "bench"
    accounts: int | None = None
    """Who has events; by default so many that a day's million make some 840,000 rows of the aggregate."""
    last_day: int = -1
    next_id: int = 0

    def __post_init__(self) -> None:
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.namespace}")
        columns = ", ".join(f"{name} {kind}" for name, kind in self.events.columns.items())
        self.spark.sql(
            f"CREATE TABLE {self.source} ({columns}) USING iceberg PARTITIONED BY (event_day) TBLPROPERTIES ({TUNED})"
        )

    @property
    def source(self) -> str:
        return f"{self.namespace}.playback"

    def clean(self, source: str) -> str:
        """Stage 1."""
        return self.events.clean.format(source=source)

    def create_targets(self, daily: str, agg: str, properties: str) -> None:
        """Both stages' tables, without rows."""
        for name, select in ((daily, self.clean(self.source)), (agg, AGGREGATE.format(source=daily))):
            self.spark.sql(create_target(name, select, properties))

    @property
    def today(self) -> date:
        return FIRST_DAY + timedelta(days=self.last_day)

    def recent(self, table: str) -> str:
        """The days that a lookback reads."""
        return since(table, first_of_lookback(self.today))

    def load_day(self) -> None:
        self.last_day += 1
        self._load(self.events_per_day)

    def load_micro_batch(self, events: int, *, new_day: bool) -> None:
        if new_day:
            self.last_day += 1
        self._load(events)

    def load_late(self, events: int, days: int) -> None:
        """Spread over the newest days, the last one among them."""
        self._load(events, f"date_sub(DATE'{self.today}', pmod(hash(id, 2), {days}))")

    def _load(self, events: int, day: str | None = None) -> None:
        back = min(self.last_day, LATE_DAYS)
        late = f"pmod(hash(id, 1), 100) < {LATE_PERCENT}" if back else "false"
        accounts = self.accounts or max(int(self.events_per_day * 0.56), 1)
        day = (
            day
            or f"CASE WHEN {late} THEN date_sub(DATE'{self.today}', 1 + pmod(hash(id, 2), {max(back, 1)})) ELSE DATE'{self.today}' END"
        )
        values = {"event_day": "day"} | {
            name: text.replace("{accounts}", str(accounts)) for name, text in self.events.values.items()
        }
        self.spark.sql(
            f"""INSERT INTO {self.source} SELECT {", ".join(values[name] for name in self.events.columns)}
            FROM (SELECT id, {day} AS day FROM range({self.next_id}, {self.next_id + events}, 1, 2))"""
        )
        self.next_id += events

    def fingerprint(self, table: str) -> tuple[int, int]:
        """Rows, and the sum of the hashes of all columns."""
        return self._fingerprint(f"SELECT * FROM {table}")

    def recomputed(self, aggregate: str = AGGREGATE) -> tuple[int, int]:
        """The fingerprint that stage 2's target is to have."""
        return self._fingerprint(aggregate.format(source=f"({self.clean(self.source)})"))

    def _fingerprint(self, select: str) -> tuple[int, int]:
        (row,) = self.spark.sql(fingerprint(select)).collect()
        return int(row[0]), int(row[1] or 0)

    def read_seconds(self, table: str, timed: Callable[[Callable[[], object]], float]) -> float:
        """What a report over the whole target takes, the best of three."""
        text = f"SELECT country, sum(views), sum(view_min) FROM {table} GROUP BY country"
        return min(timed(lambda: self.spark.sql(text).collect()) for _ in range(3))

    def compact(self, table: str) -> None:
        """Everything that Iceberg's own procedure can do."""
        self.spark.sql(
            f"CALL {self.config.catalog.name}.system.rewrite_data_files(table => '{table}', "
            "options => map('delete-file-threshold', '1', 'min-input-files', '2'))"
        ).collect()

    def files(self, table: str) -> tuple[int, int]:
        """Data files and delete files."""
        rows = self.spark.sql(f"SELECT content, count(*) FROM {table}.files GROUP BY content").collect()
        counts = {row[0]: int(row[1]) for row in rows}
        return counts.get(0, 0), counts.get(1, 0)


WISH = CaptureOptions(
    operations=("append",),
    on_other_operations="fail",
    on_gap="fail",
    columns={},
    pin="require",
    keep_seconds=3600,
    change_tables=True,
    alias=None,
    skip_empty=True,
)


@dataclass
class Consumer:
    """One table's reading by one way: what a capture step does, without the engine around it."""

    lake: Lake
    table: str
    wish: CaptureOptions = WISH
    checkpoint: CheckpointRecord | None = None
    number: int = 0

    def capture(self) -> Source:
        self.number += 1
        capture_id = f"b{self.number}{uuid4().hex[:8]}"
        planned = snapshot_ranges.plan(
            self.lake, self.table, ref="main", checkpoint=self.checkpoint, start=None, bounds=Bounds()
        )
        changes = build.find_changes(self.lake, planned, self.wish)
        pinned = build.pin(
            self.lake, planned, changes, self.wish, consumer="bench", capture_id=capture_id, log=lambda line: None
        )
        name = ".".join((*self.lake.change_table_namespace, unique_name(self.table)))
        return build.build(self.lake, replace(pinned, change_table=name), changes)

    def commit(self, source: Source) -> None:
        end = source.end
        assert end is not None
        self.lake.set_checkpoint_tag(self.table, consumer="bench", snapshot_id=end.snapshot_id)
        self.checkpoint = CheckpointRecord(
            "bench", self.table, "main", end.table_uuid, end.snapshot_id, end.sequence_number, end.schema_id, "", 0.0
        )


@dataclass
class Incremental:
    """The write planner: capture, plan, statements, publication and checkpoint of each stage."""

    pipeline: Pipeline
    properties: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    name: str = "inc"
    compact: bool = True
    aggregate: str = AGGREGATE
    keys: tuple[str, ...] = KEYS

    def __post_init__(self) -> None:
        self.daily, self.agg = (f"{self.pipeline.namespace}.{kind}_{self.name}" for kind in ("daily", "agg"))
        self._lake = Lake.open(self.pipeline.config)
        self._source = Consumer(self._lake, self.pipeline.source)
        # Stage 1 may have had to delete, too: its target is read with everything that happened to it.
        self._daily = Consumer(self._lake, self.daily, replace(WISH, operations=("append", "overwrite", "delete")))

    def start(self) -> None:
        self.stage1()
        self.stage2()

    def stage1(self) -> None:
        text = self.pipeline.clean(self.pipeline.source)
        self._run(self._source, WriteRequest(text, self.daily, partition_by=("event_day",), compact=self.compact))

    def stage2(self) -> None:
        text = self.aggregate.format(source=self.daily)
        self._run(self._daily, WriteRequest(text, self.agg, keys=self.keys, compact=self.compact))

    def _run(self, consumer: Consumer, request: WriteRequest) -> None:
        source = consumer.capture()
        mark = Mark(request.target, f"snapshot {source.end.snapshot_id if source.end else 0}")
        branch = f"attempt_{uuid4().hex[:8]}"
        execution.run(
            self.pipeline.spark,
            self._lake,
            WriteJob(request, (source,), properties=self.properties),
            lambda number: Fencing(mark, branch_of_round(branch, number)),
            self.said.append,
        )
        consumer.commit(source)


@dataclass
class Lookback:
    """The last 14 days overwritten each run, as is usual."""

    pipeline: Pipeline
    tuned: bool = True

    def __post_init__(self) -> None:
        self.daily, self.agg = (f"{self.pipeline.namespace}.{name}_lookback" for name in ("daily", "agg"))

    def start(self) -> None:
        self.pipeline.create_targets(self.daily, self.agg, TUNED if self.tuned else "'format-version'='2'")
        self._overwrite(self.daily, self.pipeline.clean(self.pipeline.source))
        self._overwrite(self.agg, AGGREGATE.format(source=self.daily), grouped=self.tuned)

    def stage1(self) -> None:
        self._overwrite(self.daily, self.pipeline.clean(self.pipeline.recent(self.pipeline.source)))

    def stage2(self) -> None:
        self._overwrite(self.agg, AGGREGATE.format(source=self.pipeline.recent(self.daily)), grouped=self.tuned)

    def _overwrite(self, target: str, select: str, *, grouped: bool = False) -> None:
        conf = self.pipeline.spark.conf
        for name in GROUPED if grouped else ():
            conf.set(name, "true")
        try:
            self.pipeline.spark.sql(f"INSERT OVERWRITE {target} {select}").collect()
        finally:
            for name in GROUPED if grouped else ():
                conf.unset(name)
