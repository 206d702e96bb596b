"""Runs from their start to their end, on both databases."""

from __future__ import annotations

import pytest

from icefloe.engine.events import Refused
from icefloe.errors import NotFoundError, UsageError
from tests.projects import Project, wait_until

CHAIN = """
Workflow:
  id: chain
  WHO: world
  jobs:
    - job: {id: a, type: NoOp}
    - job:
        id: b
        type: Shell
        shell:
          script: |
            echo "hello ${WHO}"
            echo '{"n": 3, "names": ["x", "y"]}' > "$ICEFLOE_OUTPUT"
    - job: {id: c, type: Shell, shell: {script: "echo got ${b__n}; test ${b__n} = 3"}}
  dag: sequential
"""


def failing(count_file: str = "count", *, until: int = 99, retries: int = 0) -> str:
    """A step that fails until it was tried often enough, between one that works and one that follows."""
    return f"""
    Workflow:
      id: flaky
      jobs:
        - job: {{id: before, type: Shell, shell: {{script: "echo x >> before"}}}}
        - job:
            id: flaky
            type: Shell
            retry: {{error: {retries}, backoff: {{initial: 0.05}}}}
            shell: {{script: "echo x >> {count_file}; echo trying; test $(wc -l < {count_file}) -ge {until}"}}
        - job: {{id: after, type: Shell, shell: {{script: "echo x >> after"}}}}
      dag: sequential
    """


def lines(project: Project, name: str) -> int:
    file = project.root / name
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_a_chain_runs_to_its_end_with_parameters_outputs_and_logs(project: Project) -> None:
    view = project.execute(project.push(CHAIN), WHO="you")
    assert view.status == "SUCCEEDED"
    assert [(step.status, step.attempts) for step in view.steps] == [("SUCCEEDED", 1)] * 3
    assert project.log(view.run_id, "b") == "hello you\n"
    assert project.log(view.run_id, "c") == "got 3\n"
    assert view.steps[1].outputs == {"n": 3, "names": ["x", "y"]}


def test_every_transition_is_recorded_with_time_and_cause(project: Project) -> None:
    view = project.execute(project.push(CHAIN))
    moves = [(event.step, event.status) for event in view.events if event.step in (None, "b")]
    assert moves == [
        (None, "CREATED"),
        (None, "IN_PROGRESS"),
        ("b", "INITIALIZED"),
        ("b", "STARTING"),
        ("b", "RUNNING"),
        ("b", "SUCCEEDED"),
        (None, "SUCCEEDED"),
    ]
    assert all(a.at <= b.at for a, b in zip(view.events, view.events[1:], strict=False))


def test_a_failed_run_names_its_cause_and_a_restart_does_only_the_rest(project: Project) -> None:
    view = project.execute(project.push(failing(until=2)))
    assert view.status == "FAILED"
    assert "exit code 1" in (view.cause or {})["message"]
    assert [step.status for step in view.steps] == ["SUCCEEDED", "USER_FAILED", "CREATED"]
    project.client.runs.restart(view.run_id)
    view = project.client.work(view.run_id)
    assert view.status == "SUCCEEDED"
    assert (lines(project, "before"), lines(project, "count"), lines(project, "after")) == (1, 2, 1)
    assert [a.status for a in view.steps[1].history] == ["USER_FAILED", "SUCCEEDED"]


def test_errors_are_retried_as_often_as_the_policy_says(project: Project) -> None:
    view = project.execute(project.push(failing(until=3, retries=2)))
    assert view.status == "SUCCEEDED"
    assert view.steps[1].attempts == 3
    assert project.log(view.run_id, "flaky", 2) == "trying\n"


def test_restart_with_changed_parameters_and_with_the_latest_version(project: Project) -> None:
    text = """
    Workflow:
      id: fixable
      GOOD: "no"
      jobs:
        - job: {id: check, type: Shell, retry: {error: 0}, shell: {script: "test ${GOOD} = yes"}}
        - job: {id: broken, type: Shell, retry: {error: 0}, shell: {script: "false"}}
      dag: sequential
    """
    view = project.execute(project.push(text))
    assert view.status == "FAILED"
    project.client.runs.restart(view.run_id, texts={"GOOD": "yes"})
    view = project.client.work(view.run_id)
    assert [step.status for step in view.steps] == ["SUCCEEDED", "USER_FAILED"]
    project.push(text.replace('script: "false"', 'script: "true"').replace("dag:", "dag:"))
    project.client.runs.restart(view.run_id, version="latest")
    view = project.client.work(view.run_id)
    assert (view.status, view.version) == ("SUCCEEDED", 2)


def test_restart_from_a_step_and_from_the_beginning(project: Project) -> None:
    workflow = project.push(failing(until=1))
    view = project.execute(workflow)
    assert view.status == "SUCCEEDED"
    with pytest.raises(Refused, match="nothing to restart"):
        project.client.runs.restart(view.run_id)
    project.client.runs.restart(view.run_id, step="after")
    project.client.work(view.run_id)
    project.client.runs.restart(view.run_id, from_beginning=True)
    project.client.work(view.run_id)
    assert (lines(project, "before"), lines(project, "after")) == (2, 3)


SLOW = """
Workflow:
  id: slow
  jobs:
    - job: {id: long, type: Shell, shell: {script: "echo started; echo x >> started; sleep 60"}}
    - job: {id: after, type: NoOp}
  dag: sequential
"""


def test_stop_ends_a_running_step_and_the_run_can_be_restarted(project: Project) -> None:
    run = project.start(project.push(SLOW))
    with project.worker():
        wait_until(lambda: project.statuses(run)["long"] == "RUNNING")
        with pytest.raises(Refused, match="only a run that has ended"):
            project.client.runs.restart(run)
        project.client.runs.stop(run)
        wait_until(lambda: project.show(run).ended)
    assert project.statuses(run) == {"long": "STOPPED", "after": "CREATED"}
    assert project.show(run).status == "STOPPED"
    with pytest.raises(Refused, match="has ended already"):
        project.client.runs.stop(run)
    project.client.runs.restart(run)
    assert project.show(run).status == "IN_PROGRESS"


def test_kill_fails_a_run_at_once_and_its_processes_end(project: Project) -> None:
    run = project.start(project.push(SLOW.replace("sleep 60", "trap '' TERM; sleep 60; sleep 61")))
    with project.worker():
        wait_until((project.root / "started").exists)
        project.client.runs.kill(run)
        assert project.show(run).status == "FAILED"
        wait_until(lambda: not processes_of(run))


def processes_of(run_id: str) -> list[int]:
    from icefloe.engine import processes

    return [
        pid
        for attempt in (1, 2, 3)
        for pid in processes._carrying(f"ICEFLOE_ATTEMPT={run_id}/long/1/{attempt}".encode())
    ]


def test_pause_starts_nothing_new_and_resume_goes_on(project: Project) -> None:
    text = SLOW.replace("sleep 60", "while [ ! -e go ]; do sleep 0.02; done")
    run = project.start(project.push(text))
    with project.worker():
        wait_until((project.root / "started").exists)
        project.client.runs.pause(run)
        (project.root / "go").touch()
        wait_until(lambda: project.statuses(run)["long"] == "SUCCEEDED")
        assert project.show(run).status == "PAUSED"
        assert project.statuses(run)["after"] == "CREATED"
        project.client.runs.resume(run)
        wait_until(lambda: project.show(run).status == "SUCCEEDED")


def test_skip_lets_a_failed_run_go_on_and_ends_a_running_step(project: Project) -> None:
    view = project.execute(project.push(failing()))
    project.client.runs.skip(view.run_id, "flaky")
    view = project.client.work(view.run_id)
    assert (view.status, view.steps[1].status) == ("SUCCEEDED", "SKIPPED")
    run = project.start(project.push(SLOW))
    with project.worker():
        wait_until(lambda: project.statuses(run)["long"] == "RUNNING")
        project.client.runs.skip(run, "long")
        wait_until(lambda: project.show(run).status == "SUCCEEDED")
    assert project.statuses(run)["long"] == "SKIPPED"


def test_a_step_that_takes_too_long_is_ended_and_fails_by_timeout(project: Project) -> None:
    text = SLOW.replace("type: Shell, shell", "type: Shell, timeout: 0.3s, shell")
    view = project.execute(project.push(text))
    assert (view.status, view.steps[0].status) == ("FAILED", "TIMEOUT_FAILED")


def test_a_run_that_takes_too_long_is_timed_out(project: Project) -> None:
    view = project.execute(project.push(SLOW.replace("id: slow", "id: slow\n  timeout: 1s")))
    assert (view.status, view.steps[0].status) == ("TIMED_OUT", "TIMED_OUT")


def test_an_unchanged_push_makes_no_new_version_and_two_pushes_at_once_make_two(project: Project) -> None:
    project.push(CHAIN)
    project.push(CHAIN)
    assert project.client.workflows.show("chain").version == 1
    project.push(CHAIN.replace("world", "moon"))
    assert project.client.workflows.show("chain").version == 2


def test_a_run_reads_only_the_files_that_were_pushed(project: Project) -> None:
    (project.root / "job.sh").write_text("echo as pushed; echo ${HOME:-none}\n")
    text = "Workflow:\n  id: files\n  jobs:\n    - job: {id: a, type: Shell, shell: {script: job.sh}}\n"
    workflow = project.push(text)
    (project.root / "job.sh").write_text("echo changed since\n")
    view = project.execute(workflow)
    assert project.log(view.run_id, "a").startswith("as pushed\n")


def test_wrong_asks_are_told_at_once(project: Project) -> None:
    with pytest.raises(NotFoundError):
        project.start("nowhere")
    with pytest.raises(NotFoundError):
        project.client.runs.show("nowhere-1")
    workflow = project.push(CHAIN.replace("WHO: world", "N: 3").replace("${WHO}", "${N}"))
    with pytest.raises(UsageError, match="N"):
        project.client.runs.start(workflow, texts={"N": "many"})


def test_one_occasion_starts_one_run(project: Project) -> None:
    project.push(CHAIN)
    first = project.client.runs.start("chain", occasion="cron:2026-01-01")
    again = project.client.runs.start("chain", occasion="cron:2026-01-01")
    assert (first.run_id, first.created, again.run_id, again.created) == ("chain-1", True, "chain-1", False)
    assert [view.run_id for view in project.client.runs.listing()] == ["chain-1"]


def test_pausing_a_workflow_is_remembered_and_touches_no_run(project: Project) -> None:
    workflow = project.push(CHAIN)
    project.client.workflows.set_paused(workflow, True)
    assert project.client.workflows.show(workflow).paused
    assert project.execute(workflow).status == "SUCCEEDED"
    project.client.workflows.set_paused(workflow, False)
    assert not project.client.workflows.show(workflow).paused


def test_a_list_of_runs_by_something_that_is_not_there_says_so(project: Project) -> None:
    listing = project.client.runs.listing
    with pytest.raises(UsageError, match="no status of a run") as unknown:
        listing(status="NOPE")
    assert "TIMED_OUT" in (unknown.value.hint or "")
    with pytest.raises(NotFoundError, match="no workflow 'nosuch'"):
        listing("nosuch")
    with pytest.raises(NotFoundError, match="no run 'nosuch'"):
        listing(before="nosuch")
    assert listing(status="SUCCEEDED") == []
