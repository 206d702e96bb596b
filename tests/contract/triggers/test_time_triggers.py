"""Time triggers, on both databases: each fire starts one run, whoever looks and however often."""

from __future__ import annotations

import threading

import pytest

from icefloe.service.runs import DeactivatedError
from tests.contract.triggers.conftest import Stage

NIGHTLY = """
Trigger: {every: 60s%s}
Workflow:
  id: nightly
  run_strategy: {rule: PARALLEL, concurrency: 100}
  jobs:
    - job: {id: one, type: NoOp}
"""


def occasions(stage: Stage, workflow: str = "nightly") -> list[str]:
    return [str(run.initiator["reason"]) for run in stage.runs(workflow)]


def test_a_fire_starts_one_run_and_looking_again_starts_no_other(stage: Stage) -> None:
    stage.project.push(NIGHTLY % "")
    stage.look()
    assert stage.runs("nightly") == []
    stage.hands.pass_by(61)
    stage.look()
    stage.look()
    assert len(stage.runs("nightly")) == 1
    assert stage.do("nightly").status == "SUCCEEDED"
    stage.hands.pass_by(60)
    stage.look()
    assert len(set(occasions(stage))) == 2


@pytest.mark.parametrize(("policy", "expected"), [("last", 1), ("all", 10), ("none", 0)])
def test_after_a_downtime_the_policy_says_what_is_caught_up(stage: Stage, policy: str, expected: int) -> None:
    stage.project.push(NIGHTLY.replace("60s", "600s") % f", catch_up: {policy}")
    stage.look()
    stage.hands.pass_by(6001 + 300)
    stage.look(stage.make_scheduler())
    assert len(set(occasions(stage))) == len(occasions(stage)) == expected


def test_several_schedulers_at_once_start_each_fire_once(stage: Stage) -> None:
    stage.project.push(NIGHTLY % ", catch_up: all")
    schedulers = [stage.make_scheduler() for _ in range(3)]
    for scheduler in schedulers:
        stage.look(scheduler)
    stage.hands.pass_by(60 * 12 + 1)
    threads = [threading.Thread(target=stage.look, args=(scheduler,)) for scheduler in schedulers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(occasions(stage)) == len(set(occasions(stage))) == 12


def test_a_run_for_a_fire_runs_as_of_the_fire_with_the_triggers_parameters(stage: Stage) -> None:
    stage.project.push(
        """
        Trigger: {cron: '0 3 * * *', timezone: Asia/Tokyo, params: {MODE: nightly, '!TWICE': "2 * 21"}}
        Workflow:
          id: nightly
          MODE: hand
          TWICE: 0
          jobs: [{job: {id: one, type: NoOp}}]
        """
    )
    stage.look()
    stage.hands.pass_by(2 * 86400)
    stage.look()
    (run,) = stage.runs("nightly")
    assert run.params["MODE"] == "nightly" and run.params["TWICE"] == 42
    assert (run.params["RUN_TS"] // 1000) % 86400 == 18 * 3600, "03:00 in Tokyo"
    assert run.params["WORKFLOW_CRON_TIMEZONE"] == "Asia/Tokyo"
    assert run.initiator["kind"] == "trigger"


def test_fires_do_not_queue_up_behind_a_run_that_takes_longer(stage: Stage) -> None:
    stage.project.push(NIGHTLY.replace("{rule: PARALLEL, concurrency: 100}", "SEQUENTIAL") % "")
    stage.look()
    for _ in range(20):
        stage.hands.pass_by(60)
        stage.look()
    assert [run.status for run in stage.runs("nightly")] == ["IN_PROGRESS", "CREATED"]


def test_a_paused_workflow_starts_nothing_until_it_is_resumed(stage: Stage) -> None:
    stage.project.push(NIGHTLY % "")
    stage.look()
    stage.project.client.workflows.set_paused("nightly", True)
    stage.hands.pass_by(300)
    stage.look()
    assert stage.runs("nightly") == []
    assert "paused" in stage.verdict("nightly").reason
    stage.project.client.workflows.set_paused("nightly", False)
    stage.look()
    assert len(stage.runs("nightly")) == 1


def test_a_deactivated_workflow_is_started_by_nobody_and_begins_anew_when_activated(stage: Stage) -> None:
    stage.project.push(NIGHTLY % ", catch_up: all")
    stage.look()
    workflows = stage.project.client.workflows
    workflows.set_active("nightly", False)
    stage.hands.pass_by(300)
    stage.look()
    with pytest.raises(DeactivatedError):
        stage.project.start("nightly")
    workflows.set_active("nightly", True)
    stage.look()
    assert stage.runs("nightly") == [], "what passed meanwhile is not caught up"


def test_a_new_version_keeps_the_triggers_place_and_one_that_drops_it_forgets_it(stage: Stage) -> None:
    stage.project.push(NIGHTLY % "")
    stage.look()
    stage.hands.pass_by(61)
    stage.look()
    stage.project.push((NIGHTLY % "").replace("id: one", "id: two"))
    stage.look()
    assert len(stage.runs("nightly")) == 1
    stage.hands.pass_by(60)
    stage.look()
    assert [run.version for run in stage.runs("nightly")] == [1, 2]
    stage.project.push("Workflow: {id: nightly, jobs: [{job: {id: one, type: NoOp}}]}")
    stage.hands.pass_by(600)
    stage.look()
    assert len(stage.runs("nightly")) == 2


def test_a_run_that_cannot_be_made_is_passed_over_and_the_others_go_on(stage: Stage) -> None:
    stage.project.push(NIGHTLY % "")
    stage.project.push(
        (NIGHTLY % ", params: {'!X': \"1 / (Math.random() < 2 ? 0 : 1)\"}").replace("id: nightly", "id: broken")
    )
    stage.look()
    stage.hands.pass_by(61)
    stage.look()
    assert stage.runs("broken") == []
    assert len(stage.runs("nightly")) == 1
