"""Shadow mode on real Spark: right batches pass, and whatever is done to the branch behind the planner's back is found."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from icefloe.config import Config
from icefloe.planner import shadow
from icefloe.planner.errors import NotRepeatableError, ShadowMismatchError
from icefloe.planner.inputs import WriteRequest
from icefloe.planner.shadow import Mode
from icefloe.spark.fence import Fence
from icefloe.steps.write import execution
from icefloe.steps.write.shadow_check import UncapturedMovedError
from icefloe.steps.write.write_job import WriteJob
from tests.planner.corpus import BY_NAME, CORPUS
from tests.planner.world import World, fencing, play

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

PLAYED = [
    BY_NAME[name]
    for name in (
        "views per account, country and day",
        "by account",
        "dimension first, facts optional",
    )
]


@pytest.mark.parametrize("mode", ["full", "sample"])
def test_right_batches_pass(
    project_config: Config, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    monkeypatch.setattr(shadow, "SAMPLE_ROWS", 4)
    world = World.make(spark, project_config, 81)
    world.shadow = mode
    assert play(world, PLAYED, 2).failed == {}


@pytest.mark.long
@pytest.mark.parametrize(("mode", "rows"), [("full", 100_000), ("sample", 100_000), ("sample", 4)])
def test_right_batches_of_the_whole_corpus_pass(
    project_config: Config, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, mode: Mode, rows: int
) -> None:
    monkeypatch.setattr(shadow, "SAMPLE_ROWS", rows)
    seed = int(time.time())
    world = World.make(spark, project_config, seed)
    world.shadow = mode
    cases = [case for case in CORPUS if case.runs == "spark" and case.repeatable]
    assert play(world, cases, 4).failed == {}, f"seed {seed}"


class NotPublishedError(Exception):
    """The end of an attempt that was not meant to get further."""


class Tampering:
    """A session in which somebody does something to the attempt's branch after the statements, before they are compared."""

    def __init__(self, spark: SparkSession, act: Callable[[str], object]) -> None:
        self.conf = spark.conf
        self.comparisons: list[str] = []
        self._spark = spark
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def sql(self, text: str) -> Any:
        found = re.search(r"\S+\.branch_attempt_\w+", text)
        if found and " AS missing" in text:
            if not self.comparisons:
                self._act(found[0])
            self.comparisons.append(text)
        return self._spark.sql(text)


BY_KEY = """SELECT account_id, count(*) AS n, sum(CASE WHEN device = 'none' THEN 1 ELSE 0 END) AS z,
            CAST(avg(view_min) AS DOUBLE) AS mean FROM {n}.events WHERE account_id IS NOT NULL GROUP BY account_id"""
BY_PARTITION = """SELECT event_day, account_id, count(*) AS n, sum(CASE WHEN device = 'none' THEN 1 ELSE 0 END) AS z,
            CAST(avg(view_min) AS DOUBLE) AS mean FROM {n}.events GROUP BY event_day, account_id"""
BY_WHOLE_PARTITION = "SELECT event_day, count(*) AS n, 0 AS z, avg(view_min) AS mean FROM {n}.events GROUP BY event_day"


class Writes:
    """One target that is kept by a SELECT, batch after batch, without the engine."""

    def __init__(self, world: World, text: str, *keys: str, **more: Any) -> None:
        self.world = world
        self.request = WriteRequest(text.format(n=world.namespace), f"{world.namespace}.target", keys, **more)
        self.mark = 0
        world.capture()
        self.write("off")

    def write(
        self, mode: Mode, act: Callable[[str], object] = lambda branch: None, *, publish: bool = True
    ) -> tuple[list[str], list[str]]:
        """What it said, and the comparisons that it ran. The same mark for every attempt at one batch, and in every run of the test: it decides the sample."""
        said: list[str] = []
        session = Tampering(self.world.spark, act)
        work = WriteJob(self.request, tuple(self.world.sources), shadow=mode)
        fences = fencing(f"batch {self.mark}", "run")
        not_published = nullcontext() if publish else patch.object(Fence, "_move", side_effect=NotPublishedError)
        with suppress(NotPublishedError), not_published:
            execution.run(session, self.world.lake, work, fences, said.append)
        return said, session.comparisons

    def is_found(self, mode: Mode, statement: str) -> bool:
        """Whether a statement that somebody runs on the branch shows as a mismatch. Nothing is published either way."""
        done = []
        try:
            self.write(mode, lambda branch: done.append(self.on(statement)(branch)), publish=False)
        except ShadowMismatchError:
            return True
        assert done, "nothing was compared"
        return False

    def next_batch(self, change: Callable[[], None] | None = None) -> None:
        self.mark += 1
        self.world.commit()
        (change or self.world.late_events)()
        self.world.capture()

    def on(self, statement: str) -> Callable[[str], object]:
        return lambda branch: self.world.spark.sql(statement.format(t=branch)).collect()

    def rows(self) -> list[Any]:
        return list(self.world.spark.sql(f"SELECT * FROM {self.request.target}").collect())

    def head(self) -> tuple[int, set[str]]:
        metadata = self.world.lake.table(self.request.target).metadata
        return metadata.refs["main"].snapshot_id, set(metadata.refs)


def world(config: Config, spark: SparkSession, seed: int = 5, days: int = 5) -> World:
    made = World.make(spark, config, seed, only_appends=True)
    for _ in range(days):
        made.new_day()
    return made


def late_on(made: World, day: int, account: int = 3) -> Callable[[], None]:
    """One late event of one account and day, so that it is known what the batch touches."""
    return lambda: made.sql(
        f"INSERT INTO {made.namespace}.events (id, account_id, event_day, view_min, device) "
        f"VALUES (-1, {account}, DATE'2026-03-{day:02}', 7, 'tv')"
    )


TOUCHED = "event_day = DATE'2026-03-03'"
MODES: tuple[Mode, ...] = ("full", "sample")
FAULTS = {
    "a lost row": "DELETE FROM {{t}} WHERE {some}",
    "a doubled row": "INSERT INTO {{t}} SELECT * FROM {{t}} WHERE {some}",
    "a changed aggregate": "UPDATE {{t}} SET n = n + 1 WHERE {some}",
    "NULL in place of 0": "UPDATE {{t}} SET z = NULL WHERE {some}",
    "0 in place of a mean": "UPDATE {{t}} SET mean = mean + 0.001 WHERE {some}",
    "NaN in place of a mean": "UPDATE {{t}} SET mean = DOUBLE('NaN') WHERE {some}",
    "a row in place of another": "UPDATE {{t}} SET n = -n WHERE {some}",
}


@pytest.fixture(scope="module", params=["keys", "partitions", "whole partitions"])
def faulty(request: pytest.FixtureRequest, project_config: Config, spark: SparkSession) -> Iterator[Writes]:
    made = world(project_config, spark)
    for day in (3, 6):  # an account of which both kinds of rows are known to be there
        late_on(made, day)()
        late_on(made, day, 4)()
    text, keys = {
        "keys": (BY_KEY, ("account_id",)),
        "partitions": (BY_PARTITION, ("event_day", "account_id")),
        "whole partitions": (BY_WHOLE_PARTITION, ("event_day",)),
    }[request.param]
    writes = Writes(made, text, *keys)
    writes.next_batch(late_on(made, 3))
    return writes


def _combinations() -> Iterator[Any]:
    """Every fault in one place and mode, each combination of these in turn; the long form has them all."""
    places: list[tuple[bool, Mode]] = [(True, "full"), (False, "sample"), (True, "sample"), (False, "full")]
    for number, fault in enumerate(FAULTS):
        for turn, (touched, mode) in enumerate(places):
            marks = [] if turn == number % 4 else [pytest.mark.long]
            name = f"{fault}, {'touched' if touched else 'untouched'}, {mode}"
            yield pytest.param(fault, touched, mode, id=name, marks=marks)


@pytest.mark.parametrize(("fault", "touched", "mode"), list(_combinations()))
def test_a_fault_is_found_and_nothing_is_published(faulty: Writes, fault: str, touched: bool, mode: Mode) -> None:
    by_key = "account_id" in faulty.request.keys and "event_day" not in faulty.request.keys
    if by_key:
        some = f"account_id = {3 if touched else 4}"
    elif touched:
        some = TOUCHED
    else:
        days = _untouched_in_sample(faulty) if mode == "sample" else ["2026-03-06"]
        some = f"event_day = DATE'{days[0]}'"
    before = faulty.head()
    with pytest.raises(ShadowMismatchError) as caught:
        faulty.write(mode, faulty.on(FAULTS[fault].format(some=some)))
    error = caught.value
    assert error.code == "planner.shadow-mismatch" and error.fatal and not error.retryable
    assert "pattern" in (error.hint or "") and "should have" in error.detail
    assert faulty.head() == before, "main has not moved, and the attempt's branch is gone"


def _untouched_in_sample(writes: Writes) -> list[str]:
    """By the SQL that the sample runs."""
    _, texts = writes.write("sample", publish=False)
    days = [set(re.findall(r"DATE'([\d-]+)'", text)) for text in texts]
    return sorted(set().union(*days) - {"2026-03-03"})


def test_a_stale_key_that_no_source_row_has_is_found(project_config: Config, spark: SparkSession) -> None:
    made = world(project_config, spark, days=2)
    made.sql(f"DELETE FROM {made.namespace}.events WHERE account_id IS NULL")
    late_on(made, 3)()
    writes = Writes(made, BY_PARTITION, "event_day", "account_id")
    writes.next_batch(late_on(made, 3))
    untouched = _untouched_in_sample(writes)[0]
    rows = (f"DATE'{untouched}', 999L, 1L, 0L, 1D", "DATE'2026-03-03', NULL, 3L, 0L, NULL")
    for mode, row in zip(MODES, rows, strict=True):
        with pytest.raises(ShadowMismatchError) as caught:
            writes.write(mode, writes.on(f"INSERT INTO {{t}} VALUES ({row})"))
        assert "0 rows are missing and 1 are extra" in str(caught.value)
    said, _ = writes.write("full")
    assert any("rows compared and equal" in line for line in said), "without it the same batch passes"


def test_by_partitions_a_sample_finds_exactly_the_faults_that_lie_in_it(
    project_config: Config, spark: SparkSession
) -> None:
    made = world(project_config, spark, days=5)
    made.sql(f"DELETE FROM {made.namespace}.events WHERE event_day IS NULL")
    late_on(made, 3)()
    writes = Writes(made, BY_PARTITION, "event_day", "account_id")
    writes.next_batch(late_on(made, 3))
    inside = {"2026-03-03", *_untouched_in_sample(writes)}
    days = {str(row["event_day"]) for row in writes.rows()}
    assert len(inside) == 1 + shadow.SAMPLE_PARTITIONS < len(days)
    lose = "DELETE FROM {{t}} WHERE event_day = DATE'{day}'"
    tried = inside | set(sorted(days - inside)[:2])
    assert {day for day in tried if writes.is_found("sample", lose.format(day=day))} == inside


def test_by_keys_a_sample_finds_exactly_the_faults_that_lie_in_it(
    project_config: Config, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "SAMPLE_ROWS", 3)
    made = world(project_config, spark)
    for account in range(1, 9):
        late_on(made, 3, account)()
    writes = Writes(made, BY_KEY, "account_id")
    writes.next_batch(late_on(made, 3))
    said, texts = writes.write("sample", publish=False)
    thinned = re.search(r"pmod\(xxhash64\(q\.`account_id`\), (\d+)L\) = (\d+)", texts[-1])
    assert thinned is not None and any("changed account_id" in line for line in said)
    every, remainder = thinned.groups()
    inside = {3} | {
        row[0]
        for row in spark.sql(
            f"SELECT account_id FROM {made.namespace}.target WHERE account_id < 9 AND pmod(xxhash64(account_id), {every}L) = {remainder}"
        ).collect()
    }
    assert 1 < len(inside) < 8
    change = "UPDATE {{t}} SET n = n + 1 WHERE account_id = {account}"
    tried = {3, *sorted(inside - {3})[:1], *sorted(set(range(1, 9)) - inside)[:2]}
    found = {account for account in tried if writes.is_found("sample", change.format(account=account))}
    assert found == inside & tried and len(found) == 2


# -- tables beside the captured ones ----------------------------------------------------------------------------------------------

LOOKUP = """SELECT e.account_id, e.event_day, count(*) AS n, max(d.screen) AS screen FROM {n}.events e
            LEFT JOIN {n}.devices d ON e.device = d.device GROUP BY e.account_id, e.event_day"""


def test_a_lookup_table_that_changes_is_no_mismatch_and_a_fault_beside_it_is(
    project_config: Config, spark: SparkSession
) -> None:
    made = world(project_config, spark, days=2)
    late_on(made, 3)()
    lookup = f"{made.namespace}.devices"
    writes = Writes(made, LOOKUP, "account_id", "event_day", lookup_tables=(lookup,))
    made.sql(f"UPDATE {lookup} SET screen = 'wide' WHERE device = 'tv'")
    writes.next_batch(late_on(made, 3))
    change = "UPDATE {t} SET screen = 'large' WHERE account_id = 3 AND event_day = DATE'2026-03-03'"
    for mode in MODES:
        assert writes.is_found(mode, change), "the recomputed row does not see the lookup table as it is"
    said, _ = writes.write("full")
    assert any("changed account_id, event_day in 1 partition: 1 rows equal" in line for line in said)


def test_a_table_that_changes_while_it_is_compared_repeats_the_step(
    project_config: Config, spark: SparkSession
) -> None:
    made = world(project_config, spark, days=1)
    writes = Writes(made, LOOKUP, "account_id", "event_day")
    writes.next_batch(late_on(made, 3))
    change = f"INSERT INTO {made.namespace}.devices VALUES ('tv', 'zoom')"
    with pytest.raises(UncapturedMovedError) as caught:
        writes.write("full", writes.on(change))
    assert caught.value.retryable


def test_a_stale_dimension_is_found_where_late_dimension_rows_arrive(
    project_config: Config, spark: SparkSession
) -> None:
    made = world(project_config, spark, days=1)
    late_on(made, 3)()
    made.sql(f"INSERT INTO {made.namespace}.accounts VALUES (3, 'pro', 'EU'), (4, 'pro', 'EU')")
    text = BY_NAME["left join by key with late dimension rows"].text
    writes = Writes(made, text, "id")
    writes.next_batch(lambda: made.sql(f"INSERT INTO {made.namespace}.accounts VALUES (3, 'pro', 'ZZ')"))
    for mode in MODES:
        assert writes.is_found(mode, "UPDATE {t} SET region = 'EU' WHERE account_id = 3")
        assert not writes.is_found(mode, "DELETE FROM {t} WHERE account_id = -7")


def test_a_select_that_is_not_repeatable_is_refused_before_anything_is_written(
    project_config: Config, spark: SparkSession
) -> None:
    made = world(project_config, spark, days=1)
    writes = Writes(made, BY_KEY, "account_id")
    writes.next_batch()
    before = writes.head()
    writes.request = replace(writes.request, text=writes.request.text.replace("count(*)", "CAST(rand() AS BIGINT)"))
    with pytest.raises(NotRepeatableError):
        writes.write("full")
    assert writes.head() == before
