"""``write:`` from the definition to the published table: real runs on the warm server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from icefloe.config import FILE_NAME, Config
from icefloe.errors import IcefloeError
from icefloe.lake import Lake
from icefloe.planner import choice, search
from icefloe.planner.choice import MANY_SMALL_GROUPS
from icefloe.planner.errors import (
    KeysMissingError,
    KeysNotUniqueError,
    NotASelectError,
    TargetMismatchError,
    UnsoundPatternError,
)
from icefloe.planner.inputs import WriteRequest
from icefloe.planner.plan import FOUND_ROWS, Plan
from icefloe.rows.deletion import Deletion
from icefloe.rows.key_lookup import KeyLookup
from icefloe.service.explain import Explaining
from icefloe.spark.fence import ROUNDS, TargetMovedError
from icefloe.spark.launch import local_cores
from icefloe.spark.session import connect
from icefloe.steps.write import execution
from icefloe.steps.write.key_search import KeySearchRun
from icefloe.steps.write.write_job import WriteJob
from tests.planner.world import World, fencing
from tests.projects import Project as Runs
from tests.spark_server import Project

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

AGGREGATE = """
Description: Minutes watched per account and day, kept exact while late events arrive
Workflow:
  id: {id}
  owner: playback-team
  retry_policy: {{error: 3}}
  TARGET: {n}.playback_agg
  jobs:
    - job:
        id: capture_change
        type: IpCapture
        ip_capture: {{source_tables: [{n}.playback_daily], capture_mode: ICDC, data_operations: [append], columns: [event_day]}}
    - job:
        id: aggregate
        type: Spark
        spark:
          script: |
            {select}
          write: {write}
          shadow: {shadow}
    - job:
        id: commit_checkpoint
        type: IpCommit
        ip_commit: {{capture_step: capture_change}}
  dag: sequential
"""
SELECT = """SELECT account_id, country, event_day, count(*) AS views, sum(view_min) AS view_min
            FROM {n}.playback_daily GROUP BY account_id, country, event_day"""
WRITE = '{table: "${TARGET}", keys: [account_id, country, event_day], pattern: auto}'


class Bench:
    """One namespace with a playback table, and runs of workflows on it."""

    def __init__(self, project: Project, spark: SparkSession) -> None:
        self.spark = spark
        self.config = project.config
        self.namespace = project.namespace
        self.lake = Lake.open(project.config)
        self.runs = Runs(project.config, project.client())
        spark.sql(
            f"CREATE TABLE {self.namespace}.playback_daily (account_id BIGINT, country STRING, event_day DATE, view_min INT) "
            "USING iceberg PARTITIONED BY (event_day)"
        )
        self.load("(1, 'NO', DATE'2026-03-01', 10), (1, 'NO', DATE'2026-03-01', 5), (2, NULL, DATE'2026-03-01', 7)")

    def load(self, rows: str) -> None:
        self.spark.sql(f"INSERT INTO {self.namespace}.playback_daily VALUES {rows}").collect()

    def push(self, *, select: str = SELECT, write: str = WRITE, shadow: str = "off") -> str:
        own = select.format(n=self.namespace)
        text = AGGREGATE.format(id=f"agg_{self.namespace}", n=self.namespace, select=own, write=write, shadow=shadow)
        return self.runs.push(text)

    def rows(self, table: str = "playback_agg") -> list[tuple[Any, ...]]:
        found = self.spark.sql(f"SELECT * FROM {self.namespace}.{table}").collect()
        return sorted((tuple(row) for row in found), key=str)

    def recomputed(self, select: str = SELECT) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in self.spark.sql(select.format(n=self.namespace)).collect()), key=str)

    def snapshots(self) -> int:
        return len(self.lake.table(f"{self.namespace}.playback_agg").metadata.snapshots)


@pytest.fixture
def bench(project: Project, spark: SparkSession) -> Iterator[Bench]:
    made = Bench(project, spark)
    yield made
    made.runs.client.close()


def cause(view: Any, step: str = "aggregate") -> dict[str, Any]:
    found = next(one for one in view.steps if one.id == step)
    return dict(found.cause or {})


def test_the_design_s_example_is_kept_exact_while_late_events_arrive(bench: Bench) -> None:
    workflow = bench.push()
    first = bench.runs.execute(workflow)
    assert first.status == "SUCCEEDED", cause(first)
    assert bench.rows() == bench.recomputed()
    bench.load("(2, NULL, DATE'2026-03-01', 2), (3, 'DE', DATE'2026-03-02', 3)")
    (explained,) = Explaining(bench.runs.client, bench.lake).explain(workflow)
    assert explained.plan.pattern == "key_filter"
    second = bench.runs.execute(workflow)
    assert second.status == "SUCCEEDED", cause(second)
    assert bench.rows() == bench.recomputed()
    log = bench.runs.log(second.run_id, "aggregate")
    assert "new partitions of event_day: 2026-03-02" in log and "late partitions of event_day: 2026-03-01" in log
    metadata = bench.lake.table(f"{bench.namespace}.playback_agg").metadata
    assert set(metadata.refs) == {"main"}, "the attempt's branch is gone"
    assert metadata.properties["write.delete.mode"] == "merge-on-read"
    third = bench.runs.execute(workflow)
    assert {one.id: one.status for one in third.steps}["aggregate"] == "SKIPPED"


def test_duplicate_keys_publish_nothing_and_name_the_row(bench: Bench) -> None:
    write = '{table: "${TARGET}", keys: [account_id]}'
    view = bench.runs.execute(bench.push(select="SELECT account_id, view_min FROM {n}.playback_daily", write=write))
    assert view.status == "FAILED"
    assert cause(view)["code"] == "planner.keys-not-unique" and "account_id = 1" in cause(view)["message"]
    step = next(one for one in view.steps if one.id == "aggregate")
    assert (step.status, step.attempts) == ("FATALLY_FAILED", 1), "the same rows would be refused again"
    assert bench.rows() == []


class Writes:
    """Planned writes of one capture after the other, in this process: what the step's program does, without the engine."""

    def __init__(self, project: Project, spark: SparkSession) -> None:
        self.world = World.make(spark, project.config, 1, only_appends=True)
        self.world.capture()
        self.write(GROUPED, "account_id", "event_day")

    def write(self, text: str, *keys: str, mark: str | None = None, **more: Any) -> list[str]:
        said: list[str] = []
        request = WriteRequest(text.format(n=self.world.namespace), f"{self.world.namespace}.target", keys, **more)
        fences = fencing(mark or uuid4().hex, "run")
        execution.run(
            self.world.spark, self.world.lake, WriteJob(request, tuple(self.world.sources)), fences, said.append
        )
        return said

    def next_batch(self) -> None:
        self.world.commit()
        self.world.late_events()
        self.world.capture()

    def state(self) -> tuple[list[tuple[Any, ...]], int, set[str]]:
        metadata = self.world.lake.table(f"{self.world.namespace}.target").metadata
        found = self.world.spark.sql(f"SELECT * FROM {self.world.namespace}.target").collect()
        head = metadata.refs["main"].snapshot_id
        return sorted((tuple(row) for row in found), key=str), head, set(metadata.refs)


GROUPED = "SELECT account_id, event_day, count(*) AS n FROM {n}.events GROUP BY account_id, event_day"


@pytest.fixture(scope="module")
def writes(project_config: Config, spark: SparkSession) -> Writes:
    return Writes(Project(project_config, ""), spark)


@pytest.mark.parametrize(
    ("text", "keys", "more", "error"),
    [
        (GROUPED, ("acount_id",), {}, KeysMissingError),
        (GROUPED, (), {"pattern": "append"}, UnsoundPatternError),
        ("SELECT 1; SELECT 2", (), {}, NotASelectError),
        ("INSERT INTO {n}.target SELECT 1", (), {}, NotASelectError),
        ("SELECT account_id, count(*) AS n FROM {n}.events GROUP BY 1", (), {}, TargetMismatchError),
        ("SELECT account_id, event_day, 1 AS n, 2 AS m FROM {n}.events", (), {}, TargetMismatchError),
        ("SELECT account_id, event_day, 'x' AS n FROM {n}.events", (), {}, TargetMismatchError),
        ("SELECT account_id, event_day, 1L AS n, 2L AS n FROM {n}.events", (), {}, TargetMismatchError),
        ("SELECT account_id, event_day, view_min AS n FROM {n}.events", ("account_id",), {}, KeysNotUniqueError),
    ],
)
def test_bad_input_is_refused_before_anything_is_published(
    writes: Writes, text: str, keys: tuple[str, ...], more: dict[str, Any], error: type[IcefloeError]
) -> None:
    writes.next_batch()
    before = writes.state()
    with pytest.raises(error) as caught:
        writes.write(text, *keys, **more)
    assert caught.value.code.startswith("planner.")
    assert writes.state() == before


def test_a_target_is_made_in_version_3_unless_the_project_or_the_step_says_otherwise(writes: Writes) -> None:
    world = writes.world

    def made(**properties: str) -> int:
        request = WriteRequest(GROUPED.format(n=world.namespace), f"{world.namespace}.made_{uuid4().hex[:6]}")
        work = WriteJob(request, tuple(world.sources), properties)
        execution.run(world.spark, world.lake, work, fencing(uuid4().hex, "run"), lambda line: None)
        return world.lake.table(request.target).metadata.format_version

    setting = f"spark.sql.catalog.{world.lake.tables.name}.table-default.format-version"
    assert (made(), made(**{"format-version": "2"})) == (3, 2)
    world.spark.conf.set(setting, "2")
    try:
        assert (made(), made(**{"format-version": "3"})) == (2, 3)
    finally:
        world.spark.conf.unset(setting)


def test_a_batch_that_is_published_is_not_written_again(writes: Writes) -> None:
    writes.next_batch()
    writes.write(GROUPED, "account_id", "event_day", mark="the same work")
    before = writes.state()
    said = writes.write(GROUPED, "account_id", "event_day", mark="the same work")
    assert "published already" in said[0]
    assert writes.state() == before


@pytest.mark.parametrize(
    "meanwhile",
    [
        "INSERT INTO {n}.target VALUES (99, DATE'2026-01-01', 1)",
        "ALTER TABLE {n}.target ADD PARTITION FIELD bucket(4, account_id)",
    ],
)
def test_a_target_that_somebody_changes_meanwhile_is_planned_again_not_published_over(
    project_config: Config, spark: SparkSession, meanwhile: str
) -> None:
    own = Writes(Project(project_config, ""), spark)
    own.next_batch()
    somebody = connect(project_config)  # without our mark on what it commits
    busy = Busy(spark, lambda: somebody.sql(meanwhile.format(n=own.world.namespace)).collect(), times=1)
    own.world.spark = busy
    said = own.write(GROUPED, "account_id", "event_day")
    somebody.stop()
    own.world.spark = spark
    assert any("computed again on the new head (2 of" in line for line in said)
    rows, _, refs = own.state()
    expected = [tuple(row) for row in spark.sql(GROUPED.format(n=own.world.namespace)).collect()]
    foreign = [row for row in rows if row[0] == 99]
    assert len(foreign) == meanwhile.startswith("INSERT")
    assert sorted((row for row in rows if row[0] != 99), key=str) == sorted(expected, key=str)
    assert refs == {"main"}


def test_a_target_that_never_rests_is_given_up_after_some_rounds(project_config: Config, spark: SparkSession) -> None:
    own = Writes(Project(project_config, ""), spark)
    own.next_batch()
    somebody = connect(project_config)
    text = f"INSERT INTO {own.world.namespace}.target VALUES (99, DATE'2026-01-01', 1)"
    own.world.spark = Busy(spark, lambda: somebody.sql(text).collect(), times=99)
    with pytest.raises(TargetMovedError) as caught:
        own.write(GROUPED, "account_id", "event_day")
    assert caught.value.retryable
    somebody.stop()
    own.world.spark = spark
    rows, _, refs = own.state()
    assert refs == {"main"}
    assert sum(row[0] == 99 for row in rows) == ROUNDS


class Busy:
    """A session beside which somebody else is busy: after the first statement of each of some rounds."""

    def __init__(self, spark: SparkSession, act: Callable[[], object], *, times: int) -> None:
        self.conf = spark.conf
        self._spark = spark
        self._act = act
        self._left = times
        self._round = ""

    def sql(self, text: str) -> Any:
        found = re.search(r"branch_(attempt_\w+)", text)
        if text.startswith(("INSERT", "DELETE")) and found and found[1] != self._round and self._left:
            self._round = found[1]
            self._left -= 1
            self._act()
        return self._spark.sql(text)


def test_a_run_and_explain_plan_for_the_cores_of_the_server(
    bench: Bench, project: Project, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int | None] = []
    plan = choice.plan

    def listening(*given: Any, cores: int | None = None, **more: Any) -> Plan:
        asked.append(cores)
        return plan(*given, cores=cores, **more)

    writes = Writes(project, spark)
    writes.next_batch()
    monkeypatch.setattr(choice, "plan", listening)
    writes.write(GROUPED, "account_id", "event_day")
    Explaining(bench.runs.client, bench.lake).explain(bench.push())
    cores = local_cores(project.config.spark.master)
    assert cores is not None and len(asked) >= 2 and set(asked) == {cores}


def test_explain_on_the_command_line_shows_pattern_reasons_and_sql(bench: Bench) -> None:
    workflow = bench.push()
    command = [
        sys.executable,
        "-m",
        "icefloe.cli.main",
        "--config",
        str(bench.config.root / FILE_NAME),
        "explain",
        workflow,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "full" in done.stdout and "the target has no rows yet" in done.stdout and "INSERT INTO" in done.stdout
    told = json.loads(subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=True).stdout)
    assert told[0]["step"] == "aggregate" and told[0]["statements"][0]["role"] == "append"


class Ordered:
    """A session in which one kind of statement is not begun before another has committed, and one may fail."""

    def __init__(self, session: SparkSession, last: str, first: str, *, failing: str = "") -> None:
        self._session, self._last, self._first, self._failing = session, last, first, failing
        self._first_is_done = threading.Event()
        self.done: list[str] = []
        self.settings: list[dict[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def sql(self, text: str) -> Any:
        kind = "delete" if text.startswith("DELETE") else "late" if execution.ROWS_AHEAD in text else "new"
        kind = "found" if FOUND_ROWS in text else kind
        if not text.startswith(("DELETE", "INSERT")):
            kind = "rows" if text.startswith("SELECT q.") else ""
        if kind and kind == self._failing:
            raise RuntimeError("no")
        if kind in ("", "rows"):
            return self._session.sql(text)
        self.settings.append({name: self.conf.get(name) for name in MANY_SMALL_GROUPS})
        # A statement that writes has been carried out when this returns.
        return self.in_order(kind, lambda: self._session.sql(text))

    def in_order(self, kind: str, work: Callable[[], Any]) -> Any:
        if kind == self._last:
            assert self._first_is_done.wait(60), f"the {self._first} statement did not end"
        found = work()
        self.done.append(kind)
        if kind == self._first:
            self._first_is_done.set()
        return found


def with_late_and_new(config: Config, spark: SparkSession) -> Writes:
    """A target with rows, and a batch with late rows for one of its days and with rows of a day that it does not have."""
    own = Writes(Project(config, ""), spark)
    own.world.commit()
    insert = f"INSERT INTO {own.world.namespace}.events (id, account_id, event_day, view_min, device) VALUES "
    own.world.sql(insert + ", ".join(f"(-{n}, {n}, DATE'2026-03-01', 7, 'tv')" for n in range(1, 60)))
    own.world.capture()
    own.write(GROUPED, "account_id", "event_day")
    own.world.commit()
    own.world.sql(insert + "(-60, 3, DATE'2026-03-01', 7, 'tv'), (-61, 3, DATE'2027-01-01', 7, 'tv')")
    own.world.capture()
    return own


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are looked up by Spark, as on a cluster."""
    monkeypatch.setattr(search, "MOST_FOUND", -1)


@pytest.mark.usefixtures("by_spark")
@pytest.mark.parametrize(("last", "first"), [("delete", "new"), ("new", "late"), ("new", "delete")])
def test_a_new_partition_is_appended_before_or_after_the_delete_in_others(
    project_config: Config, spark: SparkSession, last: str, first: str
) -> None:
    own = with_late_and_new(project_config, spark)
    ordered: Any = Ordered(spark, last, first)
    own.world.spark = ordered
    own.write(GROUPED, "account_id", "event_day")
    own.world.spark = spark
    assert sorted(ordered.done) == ["delete", "late", "new"]
    assert ordered.done.index(first) < ordered.done.index(last)
    assert ordered.done.index("delete") < ordered.done.index("late"), "or it would take the new rows away, too"
    assert ordered.settings == [MANY_SMALL_GROUPS] * 3, "each row of the source makes a group of its own here"
    assert {name: spark.conf.get(name) for name in MANY_SMALL_GROUPS} != MANY_SMALL_GROUPS, "and not afterwards"
    expected = [tuple(row) for row in spark.sql(GROUPED.format(n=own.world.namespace)).collect()]
    assert own.state()[0] == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("last", "first"),
    [
        ("delete", "new"),
        ("delete", "found"),
        ("new", "found"),
        ("new", "delete"),
        ("found", "new"),
        ("found", "delete"),
    ],
)
def test_what_was_found_here_is_deleted_and_appended_in_any_order(
    project_config: Config, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, last: str, first: str
) -> None:
    own = with_late_and_new(project_config, spark)
    ordered: Any = Ordered(spark, last, first)
    commit = Deletion.commit
    monkeypatch.setattr(Deletion, "commit", lambda *given: ordered.in_order("delete", lambda: commit(*given)))
    own.world.spark = ordered
    own.write(GROUPED, "account_id", "event_day")
    own.world.spark = spark
    assert sorted(ordered.done) == ["delete", "found", "new"]
    assert ordered.done.index(first) < ordered.done.index(last)
    expected = [tuple(row) for row in spark.sql(GROUPED.format(n=own.world.namespace)).collect()]
    assert own.state()[0] == sorted(expected, key=str)


@pytest.mark.parametrize(
    "failing", [(KeyLookup, "keys"), (KeyLookup, "rows"), (KeySearchRun, "hand_over"), (Deletion, "commit")]
)
def test_a_search_that_fails_publishes_nothing(
    project_config: Config, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, failing: tuple[type, str]
) -> None:
    own = with_late_and_new(project_config, spark)
    before = own.state()

    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("no")

    with monkeypatch.context() as broken:
        broken.setattr(*failing, fails)
        with pytest.raises(RuntimeError, match="no"):
            own.write(GROUPED, "account_id", "event_day")
    assert own.state() == before, "rows, head and branches are as they were"
    said = own.write(GROUPED, "account_id", "event_day")
    assert any(" found among " in line for line in said)


def test_what_is_not_plain_is_written_by_spark_and_said(project_config: Config, spark: SparkSession) -> None:
    own = with_late_and_new(project_config, spark)
    own.world.sql(f"ALTER TABLE {own.world.namespace}.events SET TBLPROPERTIES ('write.format.default'='orc')")
    own.world.sql(
        f"INSERT INTO {own.world.namespace}.events (id, account_id, event_day) VALUES (-62, 4, DATE'2026-03-01')"
    )
    own.world.capture()
    said = own.write(GROUPED, "account_id", "event_day")
    assert [line for line in said if line.startswith("search: by Spark, since") and "orc" in line.lower()]
    expected = [tuple(row) for row in spark.sql(GROUPED.format(n=own.world.namespace)).collect()]
    assert own.state()[0] == sorted(expected, key=str)


@pytest.mark.usefixtures("by_spark")
def test_a_statement_that_fails_beside_others_publishes_nothing(project_config: Config, spark: SparkSession) -> None:
    own = with_late_and_new(project_config, spark)
    before = own.state()
    for failing in ("new", "delete", "rows", "late"):
        session: Any = Ordered(spark, "", "", failing=failing)
        own.world.spark = session
        with pytest.raises(RuntimeError, match="no"):
            own.write(GROUPED, "account_id", "event_day")
        own.world.spark = spark
        assert own.state() == before, "rows, head and branches are as they were"
