"""Sources that change at random, and the targets of the corpus that follow them by micro-batches, through the real code path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from icefloe.capture import build, snapshot_ranges
from icefloe.capture.build import CaptureOptions
from icefloe.capture.snapshot_ranges import Bounds
from icefloe.capture.sources import Source
from icefloe.config import Config
from icefloe.lake import Lake
from icefloe.lake.change_table import unique_name
from icefloe.planner import choice, compaction, search, statements
from icefloe.planner.inputs import WriteRequest
from icefloe.planner.shadow import Mode
from icefloe.spark.fence import Fencing, branch_of_round
from icefloe.spark.marks import Mark
from icefloe.steps.write import execution
from icefloe.steps.write.ranges import RangeOrder
from icefloe.steps.write.write_job import WriteJob
from icefloe.store.captures import CheckpointRecord
from tests.planner.corpus import Case

WISH = CaptureOptions(
    operations=("append", "overwrite", "delete"),
    on_other_operations="fail",
    on_gap="fail",
    columns={},
    pin="require",
    keep_seconds=3600,
    change_tables=True,
    skip_empty=False,
    alias=None,
)
CAPTURED = ("events", "refunds", "accounts")
FIRST_DAY = 1


def fencing(place: str, run: str) -> Callable[[int], Fencing]:
    """The fences of one attempt, a branch for each round."""
    branch = f"attempt_{uuid4().hex[:8]}"
    return lambda number: Fencing(Mark(place, run), branch_of_round(branch, number))


class MismatchError(AssertionError):
    """A target differs from the full recomputation."""


@dataclass
class World:
    """One namespace with its sources. ``history`` has every statement that changed them, for the report of a failure."""

    spark: Any
    lake: Lake
    config: Config
    namespace: str
    random: Random
    history: list[str] = field(default_factory=list)
    next_id: int = 0
    last_day: int = FIRST_DAY
    only_appends: bool = False
    sources: list[Source] = field(default_factory=list)
    checkpoints: dict[str, CheckpointRecord] = field(default_factory=dict)
    batch: int = 0
    shadow: Mode = "off"
    captured: tuple[str, ...] = CAPTURED
    seed: int = 0
    searching: bool = False
    """Late rows come with every batch, and whatever can be looked up by the step itself is."""

    @classmethod
    def make(cls, spark: Any, config: Config, seed: int, *, only_appends: bool = False) -> World:
        namespace = f"planner_{seed}_{uuid4().hex[:6]}"
        spark.sql(f"CREATE NAMESPACE {namespace}")
        world = cls(spark, Lake.open(config), config, namespace, Random(seed), only_appends=only_appends, seed=seed)
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        mode = world.random.choice(["copy-on-write", "merge-on-read"])
        properties = ", ".join(f"'write.{name}.mode'='{mode}'" for name in ("delete", "update", "merge"))
        world.sql(
            f"CREATE TABLE {namespace}.events (id BIGINT, account_id BIGINT, country STRING, event_day DATE, ts TIMESTAMP, "
            "view_min INT, device STRING, title_id INT, tags ARRAY<STRING>) USING iceberg PARTITIONED BY (event_day) "
            f"TBLPROPERTIES ({properties})"
        )
        world.sql(
            f"CREATE TABLE {namespace}.refunds (id BIGINT, account_id BIGINT, event_day DATE, amount INT) USING iceberg "
            f"PARTITIONED BY (event_day) TBLPROPERTIES ({properties})"
        )
        world.sql(
            f"CREATE TABLE {namespace}.accounts (account_id BIGINT, plan STRING, region STRING) USING iceberg "
            f"TBLPROPERTIES ({properties})"
        )
        world.sql(f"CREATE TABLE {namespace}.devices (device STRING, screen STRING) USING iceberg")
        world.sql(f"INSERT INTO {namespace}.devices VALUES ('tv', 'large'), ('phone', 'small')")
        world.append_accounts()
        for _ in range(3):
            world.last_day += 1
            world.append_events()
        world.append_refunds()
        return world

    def sql(self, text: str) -> None:
        self.history.append(text)
        self.spark.sql(text).collect()

    # -- what can happen to the sources ------------------------------------------------------------------------------------------

    def change(self) -> None:
        """Between one and three changes, whatever they are."""
        rare: list[Callable[[], None]] = [
            self.delete_events,
            self.overwrite_day,
            self.update_events,
            self.merge_events,
            self.delete_day,
            self.update_accounts,
            self.delete_accounts,
            self.delete_refunds,
        ]
        usual: list[Callable[[], None]] = [
            self.new_day,
            self.late_events,
            self.late_events,
            self.append_refunds,
            self.append_accounts,
            self.compact,
        ]
        choices = usual if self.only_appends else [*usual, *rare]
        for _ in range(self.random.randint(1, 3)):
            self.random.choice(choices)()
        if self.searching:
            self.late_events()

    def new_day(self) -> None:
        self.last_day += 1
        self.append_events()

    def late_events(self) -> None:
        self.append_events(late=True)

    def append_events(self, *, late: bool = False) -> None:
        rows = [self._event(late) for _ in range(self.random.randint(1, 12))]
        self.sql(f"INSERT INTO {self.namespace}.events VALUES {', '.join(rows)}")

    def append_refunds(self) -> None:
        rows = []
        for _ in range(self.random.randint(1, 5)):
            day, account = self._day(True), self._account()
            rows.append(f"({self.random.randint(0, self.next_id)}, {account}, {day}, {self.random.randint(1, 5)})")
        self.sql(f"INSERT INTO {self.namespace}.refunds VALUES {', '.join(rows)}")

    def append_accounts(self) -> None:
        rows = [
            f"({self.random.randint(1, 12)}, '{self.random.choice(['free', 'pro'])}', '{self.random.choice(['EU', 'US'])}')"
            for _ in range(self.random.randint(1, 3))
        ]
        self.sql(f"INSERT INTO {self.namespace}.accounts VALUES {', '.join(rows)}")

    def delete_events(self) -> None:
        self.sql(
            f"DELETE FROM {self.namespace}.events WHERE id % 5 = {self.random.randint(0, 4)} AND {self._some_days()}"
        )

    def delete_day(self) -> None:
        self.sql(f"DELETE FROM {self.namespace}.events WHERE event_day = {self._day(True, null=False)}")

    def update_events(self) -> None:
        column = self.random.choice(
            ["view_min = view_min + 1", f"country = {self._country()}", f"account_id = {self._account()}"]
        )
        self.sql(f"UPDATE {self.namespace}.events SET {column} WHERE id % 4 = {self.random.randint(0, 3)}")

    def merge_events(self) -> None:
        rows = [self._event(True) for _ in range(3)]
        rows += [self._event(True, self.random.randint(0, self.next_id)) for _ in range(2)]
        names = "id, account_id, country, event_day, ts, view_min, device, title_id, tags"
        self.sql(
            f"MERGE INTO {self.namespace}.events t USING (SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY ts) "
            f"AS rn FROM VALUES {', '.join(rows)} AS v({names})) WHERE rn = 1) s ON t.id = s.id "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = s.{name}' for name in names.split(', '))} "
            f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({', '.join(f's.{name}' for name in names.split(', '))})"
        )

    def overwrite_day(self) -> None:
        day = self._day(True, null=False)
        rows = [self._event(True, day=day) for _ in range(3)]
        self.sql(f"INSERT OVERWRITE {self.namespace}.events VALUES {', '.join(rows)}")

    def update_accounts(self) -> None:
        self.sql(
            f"UPDATE {self.namespace}.accounts SET region = '{self.random.choice(['EU', 'US', 'ASIA'])}' "
            f"WHERE account_id = {self.random.randint(1, 12)}"
        )

    def delete_accounts(self) -> None:
        self.sql(f"DELETE FROM {self.namespace}.accounts WHERE account_id = {self.random.randint(1, 12)}")

    def delete_refunds(self) -> None:
        self.sql(f"DELETE FROM {self.namespace}.refunds WHERE amount = {self.random.randint(1, 5)}")

    def compact(self) -> None:
        self.sql(
            f"CALL {self.config.catalog.name}.system.rewrite_data_files(table => '{self.namespace}.events', "
            "options => map('min-input-files', '2'))"
        )

    def _event(self, late: bool, known: int | None = None, day: str | None = None) -> str:
        if known is None:
            self.next_id += 1
        number = known if known is not None else self.next_id
        minutes = "NULL" if self.random.random() < 0.1 else str(self.random.randint(1, 40))
        day = day or self._day(late)
        hour = self.random.randint(0, 23)
        device = self.random.choice(["tv", "phone", "bot"])
        tags = self.random.choice(["array('a', 'b')", "array('a')", "array()", "NULL"])
        return (
            f"({number}, {self._account()}, {self._country()}, {day}, "
            f"TIMESTAMP'2026-03-{self.random.randint(1, 28):02} {hour:02}:00:00', {minutes}, '{device}', "
            f"{self.random.randint(1, 4)}, CAST({tags} AS ARRAY<STRING>))"
        )

    def _account(self) -> str:
        return "NULL" if self.random.random() < 0.1 else str(self.random.randint(1, 12))

    def _country(self) -> str:
        return "NULL" if self.random.random() < 0.1 else self.random.choice(["'DE'", "'de'", "'NO'", "'US'"])

    def _day(self, late: bool, *, null: bool = True) -> str:
        if null and self.random.random() < 0.04:
            return "NULL"
        number = self.random.randint(FIRST_DAY, self.last_day) if late else self.last_day
        return f"DATE'2026-03-{number:02}'"

    def _some_days(self) -> str:
        return f"event_day <= {self._day(True, null=False)}"

    # -- micro-batches -----------------------------------------------------------------------------------------------------------

    def capture(self) -> None:
        """All sources from their checkpoints to their heads, as a capture step does it."""
        self.batch += 1
        name = f"c{self.batch}{uuid4().hex[:8]}"
        self.sources = []
        for short in self.captured:
            table = f"{self.namespace}.{short}"
            planned = snapshot_ranges.plan(
                self.lake, table, ref="main", checkpoint=self.checkpoints.get(table), start=None, bounds=Bounds()
            )
            changes = build.find_changes(self.lake, planned, WISH)
            pinned = build.pin(
                self.lake, planned, changes, WISH, consumer="corpus", capture_id=name, log=lambda line: None
            )
            named = replace(pinned, change_table=".".join((*self.lake.change_table_namespace, unique_name(table))))
            self.sources.append(build.build(self.lake, named, changes))

    def commit(self) -> None:
        for source in self.sources:
            assert source.end is not None
            end = source.end
            self.checkpoints[source.table] = CheckpointRecord(
                "corpus",
                source.table,
                source.ref,
                end.table_uuid,
                end.snapshot_id,
                end.sequence_number,
                end.schema_id,
                "c",
                0.0,
            )
            self.lake.set_checkpoint_tag(source.table, consumer="corpus", snapshot_id=end.snapshot_id)

    def write(self, case: Case, said: list[str]) -> None:
        """One planned write of the current capture."""
        # Batches are small here, and few: every other one is planned as if they were not, and files are joined much sooner.
        few = patch.object(statements, "FEW_ROWS", statements.FEW_ROWS if self.batch % 2 else 0)
        alone = patch.object(choice, "LOOKED_THROUGH", 0 if self.batch % 2 else choice.LOOKED_THROUGH)
        here = patch.object(search, "MOST_FOUND", search.MOST_FOUND if self.searching or self.batch % 4 != 2 else -1)
        # A few late rows are a large part of a partition here: by their keys all the same, in every other batch.
        by_keys = self.searching or self.batch % 2 == 0
        large = patch.object(choice, "LARGE_PART", 9.0 if by_keys else choice.LARGE_PART)
        joined = patch.multiple(compaction, SMALL_FILES=2, WEIGHT=1)
        with few, alone, here, large, joined:
            execution.run(self.spark, self.lake, self.work(case), self.fencing(case), said.append)

    def work(self, case: Case) -> WriteJob:
        return WriteJob(
            request=WriteRequest(
                text=self.text(case),
                target=self.target(case),
                keys=case.keys,
                partition_by=case.partition_by,
            ),
            sources=tuple(self.sources),
            properties={"format-version": self.version(case)},
            shadow=self.shadow if case.repeatable else "off",
            range=self.some_range(case) if case.repeatable and self.batch % 3 == 0 and not self.searching else None,
        )

    def some_range(self, case: Case) -> RangeOrder:
        """Between two values that a column of the result has; perhaps without an end, perhaps everything."""
        chance = Random(f"{self.batch} {self.next_id} {case.name}")
        fields = self.spark.sql(self.text(case)).schema.fields
        names = [one.name for one in fields if one.dataType.simpleString() in ("date", "int", "bigint", "string")]
        if not names or chance.random() < 0.1:
            return RangeOrder("all")
        name = chance.choice(names)
        found = self.spark.sql(
            f"SELECT DISTINCT `{name}` FROM ({self.text(case)}) WHERE `{name}` IS NOT NULL"
        ).collect()
        values = sorted(row[0] for row in found)
        low, high = sorted(chance.choices(values, k=2)) if values else (None, None)
        ends = chance.choice([(low, high), (low, high), (low, None), (None, high)]) if values else None
        if ends is None:
            return RangeOrder("all")
        return RangeOrder(f"`{name}` {'..'.join('' if end is None else repr(str(end)) for end in ends)}")

    def fencing(self, case: Case) -> Callable[[int], Fencing]:
        return fencing(f"batch {self.batch} of {case.name}", "corpus")

    def version(self, case: Case) -> str:
        """Deletes are positions in version 2 and bitmaps in version 3: each history has targets of both, each SELECT in turns."""
        return "3" if self.searching else str(2 + (self.seed + len(case.name)) % 2)

    def target(self, case: Case) -> str:
        return f"{self.namespace}.t_{''.join(c if c.isalnum() else '_' for c in case.name)}"

    def compare(self, case: Case) -> None:
        """The target against the SELECT over the sources as they are."""
        wanted, there = (
            Counter(map(_row, self.spark.sql(text).collect())) for text in (self.text(case), self.reading(case))
        )
        if wanted != there:
            missing, strange = list((wanted - there).items())[:5], list((there - wanted).items())[:5]
            raise MismatchError(f"{case.name}: missing {missing}, not to be there {strange}")

    def text(self, case: Case) -> str:
        return case.text.format(n=self.namespace)

    def reading(self, case: Case) -> str:
        return f"SELECT * FROM {self.target(case)}"


def _row(row: Any) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in row)


def _searches(said: Sequence[str]) -> list[str]:
    told = [line.removeprefix("search: ") for line in said if line.startswith("search: ")]
    return ["here" if " found among " in line else line for line in told]


@dataclass
class Played:
    """What came of a history: the patterns that were used, with how often, and the SELECTs that failed, with their story. ``searches``:
    whether batches looked their keys up themselves (``here``), or tried to and left it to Spark, with the reason."""

    patterns: Counter[str] = field(default_factory=Counter)
    searches: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)


def play(world: World, cases: Sequence[Case], batches: int, tell: Callable[[str], None] = lambda line: None) -> Played:
    """Micro-batches for all cases. The first batch finds the tables as they are. A SELECT that failed is left out of the rest."""
    played = Played()
    for number in range(batches):
        if number:
            world.change()
        world.capture()
        for case in cases:
            if case.name in played.failed:
                continue
            said: list[str] = []
            try:
                world.write(case, said)
                if case.repeatable:
                    world.compare(case)
            except Exception as error:
                log, story = "\n".join(said), ";\n".join(world.history)
                played.failed[case.name] = f"batch {number}, {case.name}: {error}\n{log}\n\n{story}"
                continue
            pattern = next((line.split()[1].rstrip(":") for line in said if line.startswith("pattern")), "?")
            played.patterns[pattern] += 1
            played.searches.update(_searches(said))
            tell(f"  batch {number}  {pattern:<16} {case.name}")
        world.commit()
    return played
