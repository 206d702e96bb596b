"""Signals and watermarks, on both databases: published once, waited for by triggers and steps."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime

import pytest

from icefloe.service.triggers import Triggers
from icefloe.workflow.matching import MomentError, moment
from tests.contract.triggers.conftest import Stage
from tests.projects import wait_until

ON_SIGNAL = """
Trigger: {signal: {name: upstream_done, match_params: {region: eu, rows: {value: 10, operator: '>='}}%s}}
Workflow:
  id: follower
  run_strategy: {rule: PARALLEL, concurrency: 100}
  REGION: none
  jobs:
    - job: {id: one, type: Shell, shell: {script: "echo ${ROWS} >> seen.txt"}, '!ROWS': "params.getFromSignal('upstream_done', 'rows')"}
"""


def triggers(stage: Stage) -> Triggers:
    return Triggers(stage.project.config, stage.project.client.database, lambda: stage.hands.now)


def test_each_signal_that_fits_starts_one_run_that_sees_its_parameters(stage: Stage) -> None:
    stage.project.push(ON_SIGNAL % "")
    stage.look()
    publish = triggers(stage)
    for rows, region in ((5, "eu"), (10, "eu"), (20, "us"), (30, "eu")):
        publish.signal("upstream_done", {"rows": rows, "region": region})
    publish.signal("upstream_done", {"region": "eu"})
    publish.signal("another", {"rows": 50, "region": "eu"})
    stage.look()
    stage.look(stage.make_scheduler())
    assert len(stage.runs("follower")) == 2
    for run in stage.runs("follower"):
        assert stage.project.client.work(run.run_id).status == "SUCCEEDED"
    assert (stage.project.root / "seen.txt").read_text().split() == ["10", "30"]


def test_the_same_id_twice_is_one_signal(stage: Stage) -> None:
    stage.project.push(ON_SIGNAL % "")
    stage.look()
    publish = triggers(stage)
    assert publish.signal("upstream_done", {"rows": 10, "region": "eu"}, signal_id="load-7") == ("load-7", True)
    assert publish.signal("upstream_done", {"rows": 99, "region": "eu"}, signal_id="load-7") == ("load-7", False)
    stage.look()
    assert len(stage.runs("follower")) == 1


def test_conditions_and_deduplication_see_the_signals_parameters(stage: Stage) -> None:
    more = """, condition: "params.getFromSignal('upstream_done', 'rows') < 100", dedup: "params.getFromSignal('upstream_done', 'day')" """
    stage.project.push(ON_SIGNAL % more)
    stage.look()
    publish = triggers(stage)
    for rows, day in ((10, "mon"), (11, "mon"), (500, "tue"), (12, "tue"), (13, "mon")):
        publish.signal("upstream_done", {"rows": rows, "region": "eu", "day": day})
    stage.look()
    assert len(stage.runs("follower")) == 2


def test_several_signals_start_one_run_when_all_have_come_since_it_last_started(stage: Stage) -> None:
    stage.project.push(
        """
        Trigger: {signal: {signals: [left, right]}}
        Workflow: {id: both, run_strategy: {rule: PARALLEL, concurrency: 9}, jobs: [{job: {id: one, type: NoOp}}]}
        """
    )
    stage.look()
    publish = triggers(stage)
    for name, runs in (("left", 0), ("left", 0), ("right", 1), ("right", 2), ("right", 2), ("left", 3)):
        publish.signal(name, {})
        stage.look()
        assert len(stage.runs("both")) == runs, name


def test_signals_from_before_the_push_start_nothing(stage: Stage) -> None:
    triggers(stage).signal("upstream_done", {"rows": 10, "region": "eu"})
    stage.hands.pass_by(1)
    stage.project.push(ON_SIGNAL % "")
    stage.look()
    assert stage.runs("follower") == []


def test_two_schedulers_and_several_publishers_lose_and_double_nothing(stage: Stage) -> None:
    stage.project.push(ON_SIGNAL % "")
    stage.look()
    publish = triggers(stage)

    def publisher(number: int) -> None:
        for n in range(5):
            publish.signal("upstream_done", {"rows": 10 + n, "region": "eu"}, signal_id=f"{number}-{n}")

    threads = [threading.Thread(target=publisher, args=(number,)) for number in range(3)]
    schedulers = [stage.scheduler, stage.make_scheduler()]

    def schedule(index: int) -> None:
        for _ in range(60):
            schedulers[index].look()

    threads += [threading.Thread(target=schedule, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(30):
        stage.scheduler.look()
    reasons = [run.initiator["signals"]["upstream_done"]["rows"] for run in stage.runs("follower")]
    assert sorted(reasons) == sorted([10 + n for n in range(5)] * 3)


WAITER = """
Workflow:
  id: waiter
  DAY: 20260301
  jobs:
    - job:
        id: hold
        type: NoOp
        signal_dependencies: [{name: ready, match_params: {day: "${DAY}"}}]
        watermark_dependencies: [{table: db.events, reached: "${DAY}"}]
    - job:
        id: after
        type: Shell
        signal_dependencies: [{name: ready, match_params: {day: "${DAY}"}}]
        '!ROWS': "params.getFromSignalDependency('ready', 'rows')"
        shell: {script: "echo ${ROWS} > rows.txt"}
  dag: sequential
"""


def test_a_step_waits_until_its_signals_and_watermarks_have_come(stage: Stage) -> None:
    stage.project.push(WAITER)
    publish = triggers(stage)
    publish.signal("ready", {"day": "20260228"})
    run = stage.project.start("waiter")
    with stage.project.worker():
        wait_until(lambda: stage.project.statuses(run)["hold"] == "WAITING_FOR_SIGNALS")
        publish.signal("ready", {"day": "20260301", "rows": 17})
        publish.set_watermark("db.events", "2026-02-28T23:59:59Z")
        wait_until(stage.project.client.workers)
        assert stage.project.statuses(run)["hold"] == "WAITING_FOR_SIGNALS"
        publish.set_watermark("lake.db.events", "20260301")
        wait_until(lambda: stage.project.show(run).ended)
    assert stage.project.show(run).status == "SUCCEEDED"
    assert (stage.project.root / "rows.txt").read_text().strip() == "17", "the step sees what it waited for"


def test_a_steps_signals_are_published_with_its_success_and_not_with_its_failure(stage: Stage) -> None:
    stage.project.push(
        """
        Workflow:
          id: teller
          retry_policy: {error: 0, platform: 0}
          jobs:
            - job:
                id: tell
                type: Shell
                shell: {script: "test ! -e broken; echo n=7 > $ICEFLOE_OUTPUT"}
                signal_outputs: [{name: upstream_done, params: {region: eu, '!rows': "params.getFromStep('tell', 'n') + 3"}}]
        """
    )
    stage.project.push(ON_SIGNAL % "")
    stage.look()
    assert stage.project.execute("teller").status == "SUCCEEDED", stage.project.show("teller-1")
    (signal,) = triggers(stage).signals("upstream_done")
    assert signal.publisher == "run teller-1, step tell"
    stage.look()
    (stage.project.root / "broken").touch()
    assert stage.project.execute("teller").status == "FAILED"
    stage.look()
    assert len(triggers(stage).signals("upstream_done")) == 1


def test_a_watermark_starts_a_run_for_each_boundary_that_it_passes(stage: Stage) -> None:
    stage.create("db.events")
    publish = triggers(stage)
    publish.set_watermark("db.events", "2026-03-01T12:00:00Z")
    stage.hands.pass_by(1)
    stage.project.push(
        """
        Trigger: {watermark: {table: db.events, every: 1d, timezone: Europe/Berlin}}
        Workflow: {id: daily, run_strategy: {rule: PARALLEL, concurrency: 9}, jobs: [{job: {id: one, type: NoOp}}]}
        """
    )
    stage.look()
    assert stage.runs("daily") == []
    publish.set_watermark("db.events", "2026-03-01T22:59:00Z")
    stage.look()
    assert stage.runs("daily") == []
    assert not publish.set_watermark("db.events", "2026-02-01")[1], "it goes forward only"
    table = stage.catalog.load_table("db.events")
    with table.transaction() as change:
        change.set_properties({"icefloe.valid-through": "2026-03-03T23:30:00Z"})
    stage.look()
    stage.look()
    times = [run.params["RUN_TS"] for run in stage.runs("daily")]
    assert times == [moment(f"2026-03-0{day}T23:00:00Z") * 1000 for day in (1, 2, 3)], "midnights in Berlin"


@pytest.mark.parametrize("text", ["soon", "2026-13-01", ""])
def test_a_moment_that_is_none_is_refused(stage: Stage, text: str) -> None:
    with pytest.raises(MomentError):
        triggers(stage).set_watermark("db.events", text)


def set_property(stage: Stage, text: str) -> None:
    with stage.catalog.load_table("db.events").transaction() as change:
        change.set_properties({"icefloe.valid-through": text})


@pytest.mark.parametrize(
    "waiter",
    [
        "Trigger: {watermark: {table: db.events, every: 1d}}\nWorkflow: {id: waiter, jobs: [{job: {id: one, type: NoOp}}]}",
        "Workflow: {id: waiter, jobs: [{job: {id: one, type: NoOp, watermark_dependencies: [{table: db.events, reached: 20260301}]}}]}",
    ],
    ids=["trigger", "step"],
)
def test_a_table_that_says_nonsense_of_itself_is_an_incident_until_it_is_mended(stage: Stage, waiter: str) -> None:
    stage.create("db.events")
    stage.project.push(waiter)
    stage.look()
    publish = triggers(stage)
    assert publish.incidents() == []
    set_property(stage, "when it is ready")
    stage.look()
    (incident,) = publish.incidents("waiter")
    assert (incident.kind, incident.subject, incident.closed_at) == ("watermark", "db.events", None)
    assert "'when it is ready' is no moment" in incident.message
    found = publish.why("waiter")
    assert "'when it is ready' is no moment" in found.remarks[0]
    assert "ALTER TABLE db.events SET TBLPROPERTIES" in found.remarks[0]
    assert found.incidents == (incident,)
    assert all(one.verdict.kind.value == "held" and one.verdict.hint for one in found.triggers)
    set_property(stage, "2026-03-02")
    stage.look()
    stage.look()
    (incident,) = publish.incidents("waiter")
    assert incident.closed_at is not None
    assert publish.watermarks("db.events")[0].valid_through == moment("2026-03-02")
    if found.triggers:
        assert len(stage.runs("waiter")) == 1, "it starts for what the table says now"


def test_a_table_that_cannot_be_looked_at_ends_no_incident(stage: Stage) -> None:
    stage.create("db.events")
    stage.project.push(
        "Trigger: {watermark: {table: db.events}}\nWorkflow: {id: waiter, jobs: [{job: {id: one, type: NoOp}}]}"
    )
    set_property(stage, "soon")
    stage.look()
    location = stage.catalog.load_table("db.events").metadata_location
    stage.catalog.drop_table("db.events")
    stage.look()
    assert [one.closed_at for one in triggers(stage).incidents("waiter")] == [None]
    stage.catalog.register_table("db.events", location)
    set_property(stage, "20260301")
    stage.look()
    assert None not in [one.closed_at for one in triggers(stage).incidents("waiter")]


@pytest.mark.parametrize("mode", ["FAIL_AFTER_RUNNING", "IGNORE_FAILURE"])
def test_a_step_that_waits_for_a_moment_that_is_none_fails_instead_of_waiting_for_ever(stage: Stage, mode: str) -> None:
    stage.project.push(
        f"""
        Workflow:
          id: waiter
          DAY: soon
          jobs:
            - job: {{id: hold, type: NoOp, failure_mode: {mode}, watermark_dependencies: [{{table: db.events, reached: "${{DAY}}"}}]}}
            - job: {{id: after, type: NoOp}}
          dag: sequential
        """
    )
    run = stage.project.execute("waiter")
    assert run.status == ("FAILED" if mode == "FAIL_AFTER_RUNNING" else "SUCCEEDED")
    hold = run.steps[0]
    assert hold.status == ("FATALLY_FAILED" if mode == "FAIL_AFTER_RUNNING" else "COMPLETED_WITH_ERROR")
    assert "'soon' is no moment" in f"{hold.cause}"
    assert stage.project.execute("waiter", DAY="nonsense").steps[0].status != "WAITING_FOR_SIGNALS"


def test_random_words_on_a_tables_completeness_never_move_it_back(stage: Stage) -> None:
    chance = random.Random(7)
    publish = triggers(stage)
    highest = float("-inf")
    for _ in range(60):
        at = float(chance.randint(-(10**9), 4 * 10**9))
        text = datetime.fromtimestamp(at, UTC).isoformat()
        held, moved = publish.set_watermark("db.events", text)
        assert moved == (at > highest)
        highest = max(highest, at)
        assert held.valid_through == highest
