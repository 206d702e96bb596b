"""Incremental triggers, on both databases: a run when there is cause, one over the union, none without."""

from __future__ import annotations

import pytest

from tests.contract.triggers.conftest import Stage

COPY = """
Trigger:
  incremental: {tables: [db.events]%s}
Workflow:
  id: copy
  retry_policy: {error: 0, platform: 0}
  jobs:
    - job:
        id: look
        type: IpCapture
        ip_capture: {source_tables: [db.events]%s}
    - job:
        id: use
        type: Shell
        shell: {script: "echo ${look__row_count} >> used.txt; test ! -e broken"}
    - job:
        id: commit
        type: IpCommit
        ip_commit: {capture_step: look}
  dag: sequential
"""


def copy(trigger: str = "", capture: str = "") -> str:
    return COPY % (trigger, capture)


def used(stage: Stage) -> list[int]:
    """How many rows each run of the business step was given."""
    file = stage.project.root / "used.txt"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


@pytest.fixture
def events(stage: Stage) -> Stage:
    stage.create("db.events")
    stage.append("db.events", 1, 2)
    return stage


def settled(stage: Stage, trigger: str = "", capture: str = "") -> Stage:
    """The first batch is done: the consumer has a checkpoint at the head."""
    stage.project.push(copy("", capture))
    stage.look()
    assert stage.do("copy").status == "SUCCEEDED"
    stage.project.push(copy(trigger, capture))
    stage.hands.pass_by(3600)
    stage.look()
    assert len(stage.runs("copy")) == 1
    return stage


def test_the_first_run_starts_when_the_table_has_something_and_the_next_when_there_is_more(stage: Stage) -> None:
    stage.create("db.events")
    stage.project.push(copy())
    stage.look()
    assert stage.runs("copy") == []
    stage.append("db.events", 1, 2)
    stage.look()
    stage.look()
    assert len(stage.runs("copy")) == 1
    assert stage.do("copy").status == "SUCCEEDED"
    stage.look()
    stage.look()
    assert len(stage.runs("copy")) == 1, "nothing new: nothing started"
    stage.append("db.events", 3)
    stage.look()
    assert stage.do("copy").status == "SUCCEEDED"
    assert used(stage) == [2, 1]


def test_what_gathers_while_a_run_is_under_way_is_one_run_over_the_union(events: Stage) -> None:
    events.project.push(copy())
    events.look()
    for n in range(5):
        events.append("db.events", 10 + n)
        events.look()
    assert len(events.runs("copy")) == 1
    assert "takes what has gathered" in events.verdict("copy").reason
    events.do("copy")
    events.look()
    assert len(events.runs("copy")) == 1 and used(events) == [7]


def test_a_table_that_does_not_exist_yet_is_waited_for(stage: Stage) -> None:
    stage.project.push(copy())
    stage.look()
    assert "no such table" in stage.verdict("copy").reason
    stage.create("db.events")
    stage.append("db.events", 1)
    stage.look()
    assert len(stage.runs("copy")) == 1


def test_without_tables_the_sources_of_the_captures_are_watched_also_through_parameters(events: Stage) -> None:
    text = (
        copy()
        .replace("{tables: [db.events]}", "{}")
        .replace("source_tables: [db.events]", 'source_tables: ["${SOURCE}"]')
    )
    events.project.push(text.replace("  id: copy", "  id: copy\n  SOURCE: db.events"))
    events.look()
    assert len(events.runs("copy")) == 1


def test_compaction_alone_moves_the_checkpoint_and_starts_nothing(events: Stage) -> None:
    stage = settled(events)
    before = stage.checkpoint("copy/look")
    head = stage.compact("db.events")
    stage.look()
    after = stage.checkpoint("copy/look")
    assert before is not None and after is not None
    assert (after.snapshot_id, stage.version("copy/look")) == (head, 2) and after.snapshot_id != before.snapshot_id
    assert len(stage.runs("copy")) == 1
    stage.append("db.events", 3)
    stage.look()
    stage.do("copy")
    assert used(stage) == [2, 1]


def test_a_minimum_is_waited_for_until_the_oldest_change_is_too_old(events: Stage) -> None:
    stage = settled(events, ", min_rows: 10, max_age: 10m")
    stage.append("db.events", 3, 4)
    stage.look()
    assert len(stage.runs("copy")) == 1 and "2 of 10 rows" in stage.verdict("copy").reason
    stage.append("db.events", *range(10, 18))
    stage.look()
    assert len(stage.runs("copy")) == 2
    stage.do("copy")
    stage.append("db.events", 99)
    stage.look()
    assert len(stage.runs("copy")) == 2
    stage.hands.pass_by(601)
    stage.look()
    assert len(stage.runs("copy")) == 3


def test_a_quiet_period_and_at_most_every_hold_a_run_back_for_their_time(events: Stage) -> None:
    stage = settled(events, ", quiet_period: 2m, at_most_every: 1h")
    for n in range(3):
        stage.append("db.events", 10 + n)
        stage.hands.pass_by(60)
        stage.look()
    assert len(stage.runs("copy")) == 1 and "quiet_period" in stage.verdict("copy").reason
    stage.hands.pass_by(120)
    stage.look()
    assert len(stage.runs("copy")) == 2
    stage.do("copy")
    stage.append("db.events", 50)
    stage.look()
    stage.hands.pass_by(200)
    stage.look()
    assert len(stage.runs("copy")) == 2 and "at_most_every" in stage.verdict("copy").reason
    stage.hands.pass_by(3600)
    stage.look()
    assert len(stage.runs("copy")) == 3


def test_only_the_partitions_that_were_named_count(events: Stage) -> None:
    stage = settled(events, ", partitions: {day: ['2026-03-05']}")
    stage.append("db.events", 3, day=4)
    stage.look()
    assert len(stage.runs("copy")) == 1 and "do not count" in stage.verdict("copy").reason
    stage.append("db.events", 4, day=5)
    stage.look()
    assert len(stage.runs("copy")) == 2
    stage.do("copy")
    assert used(stage) == [2, 2]


def test_operations_that_were_not_named_start_nothing(events: Stage) -> None:
    stage = settled(events)
    stage.delete("db.events", 1)
    stage.look()
    assert len(stage.runs("copy")) == 1 and "do not count" in stage.verdict("copy").reason
    stage.project.push(
        copy(", operations: [append, overwrite, delete]", ", data_operations: [append, overwrite, delete]")
    )
    stage.look()
    assert len(stage.runs("copy")) == 2


def test_failed_runs_are_followed_by_longer_and_longer_pauses_and_then_by_none(events: Stage) -> None:
    stage = settled(events)
    (stage.project.root / "broken").touch()
    stage.append("db.events", 3)
    starts = []
    began = stage.hands.now
    for _ in range(400):
        stage.look()
        if stage.runs("copy")[-1].status == "IN_PROGRESS":
            starts.append(stage.hands.now - began)
            assert stage.do("copy").status == "FAILED"
        stage.hands.pass_by(5)
    assert len(starts) == 3
    assert 30 <= starts[1] - starts[0] <= 40 and 60 <= starts[2] - starts[1] <= 70
    verdict = stage.verdict("copy")
    assert "the last 3 runs failed" in verdict.reason and "icefloe resume copy" in (verdict.hint or "")
    stage.append("db.events", 4)
    stage.look()
    assert len(stage.runs("copy")) == 4, "new rows do not end the hold"


@pytest.mark.parametrize("act", ["resume", "push", "restart"])
def test_a_hold_ends_by_resume_push_or_restart(events: Stage, act: str) -> None:
    stage = settled(events)
    (stage.project.root / "broken").touch()
    stage.append("db.events", 3)
    for _ in range(3):
        stage.look()
        stage.do("copy")
        stage.hands.pass_by(1000)
    stage.look()
    assert len(stage.runs("copy")) == 4
    (stage.project.root / "broken").unlink()
    if act == "resume":
        stage.project.client.workflows.set_paused("copy", False)
    elif act == "push":
        stage.project.push(copy(", min_files: 1"))
    else:
        stage.project.client.runs.restart(stage.runs("copy")[-1].run_id)
    stage.look()
    assert stage.do("copy").status == "SUCCEEDED"
    stage.append("db.events", 4)
    stage.look()
    assert stage.do("copy").status == "SUCCEEDED"
    assert used(stage)[-2:] == [1, 1]
    assert len(stage.runs("copy")) == (5 if act == "restart" else 6)


def test_a_stopped_run_holds_its_trigger_until_somebody_acts(events: Stage) -> None:
    stage = settled(events)
    stage.append("db.events", 3)
    stage.look()
    stage.project.client.runs.stop(stage.runs("copy")[-1].run_id)
    stage.hands.pass_by(10_000)
    stage.look()
    assert len(stage.runs("copy")) == 2 and "was stopped" in stage.verdict("copy").reason


def test_lost_history_starts_nothing_and_says_what_to_type(events: Stage) -> None:
    stage = settled(events)
    stage.catalog.drop_table("db.events")
    stage.create("db.events")
    stage.append("db.events", 1)
    stage.look()
    verdict = stage.verdict("copy")
    assert len(stage.runs("copy")) == 1 and "lost" in verdict.reason and "on_gap" in (verdict.hint or "")
    stage.project.push(copy("", ", on_gap: full"))
    stage.look()
    assert len(stage.runs("copy")) == 2


def test_a_trigger_without_a_capture_remembers_itself_what_it_started_runs_for(events: Stage) -> None:
    events.project.push(
        """
        Trigger: {incremental: {tables: [db.events]}}
        Workflow:
          id: notify
          retry_policy: {error: 0, platform: 0}
          jobs: [{job: {id: tell, type: Shell, shell: {script: "echo 1 >> used.txt; test ! -e broken"}}}]
        """
    )
    events.look()
    assert events.do("notify").status == "SUCCEEDED"
    events.look()
    assert len(events.runs("notify")) == 1
    events.append("db.events", 3)
    (events.project.root / "broken").touch()
    events.look()
    assert events.do("notify").status == "FAILED"
    (events.project.root / "broken").unlink()
    events.look()
    events.hands.pass_by(60)
    events.look()
    assert events.do("notify").status == "SUCCEEDED", "the change that the failed run was for is not lost"
    events.hands.pass_by(3600)
    events.look()
    assert len(events.runs("notify")) == 3


def test_a_run_that_does_not_commit_is_not_started_again_and_again(events: Stage) -> None:
    text = copy()
    events.project.push(text[: text.index("    - job:\n        id: commit")] + "  dag: sequential\n")
    for _ in range(3):
        events.look()
        events.hands.pass_by(3600)
    events.do("copy")
    for _ in range(3):
        events.look()
        events.hands.pass_by(3600)
    assert len(events.runs("copy")) == 1 and "did not move the checkpoint" in events.verdict("copy").reason


def test_two_schedulers_start_one_run_for_one_change(events: Stage) -> None:
    events.project.push(copy())
    other = events.make_scheduler()
    for scheduler in (events.scheduler, other):
        scheduler.look()
        scheduler.tables.look()
    for scheduler in (events.scheduler, other, events.scheduler):
        events.look(scheduler)
    assert len(events.runs("copy")) == 1


def test_an_idle_look_opens_no_file(events: Stage) -> None:
    stage = settled(events)
    stage.look()
    loads = stage.scheduler.tables.loads
    for _ in range(5):
        stage.hands.pass_by(5)
        stage.look()
    assert stage.scheduler.tables.loads == loads
