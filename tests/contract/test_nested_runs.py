"""Foreach, subworkflows, conditions and run strategies, on both databases."""

from __future__ import annotations

from itertools import pairwise

from tests.projects import Project, wait_until

EACH = """
Workflow:
  id: each
  jobs:
    - foreach:
        id: days
        concurrency: 3
        params: {day: [1, 2, 3, 4, 5, 6, 7]}
        jobs:
          - job:
              id: work
              type: Shell
              retry: {error: 0}
              shell: {script: "echo ${day} >> done; test ! -e fail.${day}"}
          - job: {id: mark, type: Shell, shell: {script: "echo ${day} >> marked"}}
        dag: sequential
    - job: {id: after, type: Shell, shell: {script: "wc -l < marked > total"}}
  dag: sequential
"""


def words(project: Project, name: str) -> list[str]:
    return sorted((project.root / name).read_text().split())


def test_a_foreach_runs_every_iteration_once(project: Project) -> None:
    view = project.execute(project.push(EACH))
    assert view.status == "SUCCEEDED"
    assert words(project, "done") == [str(day) for day in range(1, 8)]
    assert words(project, "total") == ["7"]
    loop = view.steps[0].iterations or {}
    assert (loop["succeeded"], loop["failed"], loop["running"], loop["total"]) == (7, 0, 0, 7)
    child = project.show(f"{view.run_id}:days:2")
    assert (child.status, child.params["day"], child.iteration) == ("SUCCEEDED", 3, 2)


def test_a_failed_iteration_fails_the_foreach_after_the_others_and_a_restart_repeats_only_it(project: Project) -> None:
    (project.root / "fail.3").touch()
    (project.root / "fail.6").touch()
    view = project.execute(project.push(EACH))
    assert view.status == "FAILED"
    assert "2 of 7 iterations failed" in (view.cause or {})["message"]
    (project.root / "fail.3").unlink()
    (project.root / "fail.6").unlink()
    project.client.runs.restart(view.run_id)
    view = project.client.work(view.run_id)
    assert view.status == "SUCCEEDED"
    assert words(project, "done") == sorted([*"1234567", "3", "6"])
    assert words(project, "marked") == [*"1234567"]


def test_a_restart_from_the_beginning_repeats_all_iterations(project: Project) -> None:
    view = project.execute(project.push(EACH))
    project.client.runs.restart(view.run_id, from_beginning=True)
    view = project.client.work(view.run_id)
    assert view.status == "SUCCEEDED"
    assert len(words(project, "done")) == 14


def test_stopping_a_run_stops_the_iterations_under_way_and_starts_no_more(project: Project) -> None:
    text = EACH.replace("test ! -e fail.${day}", "sleep 60")
    run = project.start(project.push(text))
    with project.worker():
        wait_until(lambda: (project.root / "done").exists() and len(words(project, "done")) == 3)
        project.client.runs.stop(run)
        wait_until(lambda: project.show(run).ended)
    assert project.show(run).status == "STOPPED"
    assert len(words(project, "done")) == 3
    assert {project.show(f"{run}:days:{n}").status for n in range(3)} == {"STOPPED"}


NESTED = """
Workflow:
  id: nested
  jobs:
    - foreach:
        id: outer
        params: {x: [1, 2]}
        jobs:
          - foreach:
              id: inner
              params: {y: ["a", "b"]}
              jobs:
                - job: {id: work, type: Shell, shell: {script: "echo ${x}${y} >> done"}}
"""


def test_foreach_inside_foreach_sees_both_loop_parameters(project: Project) -> None:
    assert project.execute(project.push(NESTED)).status == "SUCCEEDED"
    assert words(project, "done") == ["1a", "1b", "2a", "2b"]


def test_a_foreach_over_nothing_succeeds(project: Project) -> None:
    text = EACH.replace("[1, 2, 3, 4, 5, 6, 7]", "[]").replace("wc -l < marked > total", "true")
    assert project.execute(project.push(text)).status == "SUCCEEDED"


REMEDIATION = """
Workflow:
  id: auto.remediation.pipeline
  jobs:
    - subworkflow: {id: normal_workflow, workflow_id: demo.pipeline, failure_mode: IGNORE_FAILURE}
    - job: {id: check_status, type: NoOp}
    - subworkflow: {id: recovery, workflow_id: example.recovery.wf}
    - subworkflow: {id: re_run, workflow_id: demo.pipeline}
    - job: {id: end, type: NoOp}
  dag:
    - normal_workflow -> check_status
    - check_status:
        - "IF params.getFromStep('normal_workflow', 'MAESTRO_STEP_STATUS') == 'COMPLETED_WITH_ERROR'": recovery -> re_run -> end
        - OTHERWISE: end
"""
DEMO = """
Workflow:
  id: demo.pipeline
  jobs:
    - job: {id: load, type: Shell, retry: {error: 0}, shell: {script: "echo x >> loads; test ! -e broken"}}
"""
RECOVERY = """
Workflow:
  id: example.recovery.wf
  jobs:
    - job: {id: repair, type: Shell, shell: {script: "rm broken"}}
"""


def test_auto_remediation_recovers_and_runs_again_when_the_normal_workflow_failed(project: Project) -> None:
    for text in (DEMO, RECOVERY):
        project.push(text)
    workflow = project.push(REMEDIATION)
    (project.root / "broken").touch()
    view = project.execute(workflow)
    assert view.status == "SUCCEEDED"
    assert {step.id: step.status for step in view.steps} == {
        "normal_workflow": "COMPLETED_WITH_ERROR",
        "check_status": "SUCCEEDED",
        "recovery": "SUCCEEDED",
        "re_run": "SUCCEEDED",
        "end": "SUCCEEDED",
    }
    assert len(words(project, "loads")) == 2
    assert project.show(f"{view.run_id}:normal_workflow").status == "FAILED"


def test_auto_remediation_goes_straight_to_the_end_when_all_is_well(project: Project) -> None:
    for text in (DEMO, RECOVERY):
        project.push(text)
    view = project.execute(project.push(REMEDIATION))
    assert view.status == "SUCCEEDED"
    assert {step.id: step.status for step in view.steps} == {
        "normal_workflow": "SUCCEEDED",
        "check_status": "SUCCEEDED",
        "recovery": "UNSATISFIED",
        "re_run": "UNSATISFIED",
        "end": "SUCCEEDED",
    }


def test_a_failed_subworkflow_is_restarted_inside_when_its_parent_is(project: Project) -> None:
    project.push(
        DEMO.replace("jobs:", "jobs:\n    - job: {id: first, type: Shell, shell: {script: echo x >> firsts}}")
        + "  dag: sequential\n"
    )
    parent = project.push(
        "Workflow:\n  id: parent\n  jobs:\n    - subworkflow: {id: sub, workflow_id: demo.pipeline}\n"
    )
    (project.root / "broken").touch()
    view = project.execute(parent)
    assert view.status == "FAILED"
    (project.root / "broken").unlink()
    project.client.runs.restart(view.run_id)
    assert project.client.work(view.run_id).status == "SUCCEEDED"
    assert len(words(project, "firsts")) == 1
    assert len(words(project, "loads")) == 2


def test_an_asynchronous_subworkflow_is_a_run_of_its_own(project: Project) -> None:
    project.push(DEMO)
    parent = project.push(
        "Workflow:\n  id: parent\n  jobs:\n    - subworkflow: {id: sub, workflow_id: demo.pipeline, sync: false}\n"
    )
    with project.worker():
        run = project.start(parent)
        wait_until(lambda: project.show(run).status == "SUCCEEDED")
        child = str(project.show(run).steps[0].outputs["run_id"])
        wait_until(lambda: project.show(child).status == "SUCCEEDED")


def test_subworkflow_parameters_are_handed_over_and_its_results_come_back(project: Project) -> None:
    project.push(
        """
        Workflow:
          id: child
          N: 1
          jobs:
            - job: {id: add, type: Shell, shell: {script: "echo sum=$((N + 1)) > $ICEFLOE_OUTPUT"}}
        """
    )
    view = project.execute(
        project.push(
            """
            Workflow:
              id: parent
              jobs:
                - subworkflow: {id: sub, workflow_id: child, N: 41}
                - job: {id: use, type: Shell, shell: {script: "test ${sub__add__sum} = 42"}}
              dag: sequential
            """
        )
    )
    assert view.status == "SUCCEEDED", view.cause


def strategy(rule: str, more: str = "") -> str:
    return f"""
    Workflow:
      id: strategy
      run_strategy: {rule}
      {more}
      jobs:
        - job: {{id: work, type: Shell, retry: {{error: 0}}, shell: {{script: "while [ ! -e go ]; do sleep 0.02; done; test ! -e bad"}}}}
    """


def all_statuses(project: Project) -> list[str]:
    return [view.status for view in reversed(project.client.runs.listing())]


def test_sequential_runs_one_after_the_other(project: Project) -> None:
    workflow = project.push(strategy("SEQUENTIAL"))
    for _ in range(3):
        project.start(workflow)
    assert all_statuses(project) == ["IN_PROGRESS", "CREATED", "CREATED"]
    (project.root / "go").touch()
    with project.worker():
        wait_until(lambda: all_statuses(project) == ["SUCCEEDED"] * 3)
    runs = list(reversed(project.client.runs.listing()))
    assert all((a.ended_at or 0) <= (b.started_at or 0) for a, b in pairwise(runs))


def test_parallel_runs_as_many_as_it_says(project: Project) -> None:
    workflow = project.push(strategy("{rule: PARALLEL, concurrency: 2}"))
    for _ in range(3):
        project.start(workflow)
    assert all_statuses(project) == ["IN_PROGRESS", "IN_PROGRESS", "CREATED"]


def test_first_only_stops_newcomers_and_last_only_stops_the_older(project: Project) -> None:
    workflow = project.push(strategy("FIRST_ONLY"))
    project.start(workflow)
    project.start(workflow)
    assert all_statuses(project) == ["IN_PROGRESS", "STOPPED"]
    workflow = project.push(strategy("LAST_ONLY").replace("id: strategy", "id: last"))
    with project.worker():
        first = project.start(workflow)
        wait_until(lambda: project.statuses(first)["work"] == "RUNNING")
        second = project.start(workflow)
        wait_until(lambda: project.show(first).status == "STOPPED")
        wait_until(lambda: project.show(second).status == "IN_PROGRESS")
        (project.root / "go").touch()
        wait_until(lambda: project.show(second).status == "SUCCEEDED")


def test_strict_sequential_blocks_after_a_failure_until_restarted_or_unblocked(project: Project) -> None:
    workflow = project.push(strategy("STRICT_SEQUENTIAL"))
    (project.root / "go").touch()
    (project.root / "bad").touch()
    first = project.execute(workflow)
    assert first.status == "FAILED"
    second = project.start(workflow)
    assert project.show(second).status == "CREATED"
    (project.root / "bad").unlink()
    project.client.runs.restart(first.run_id)
    with project.worker():
        wait_until(lambda: project.show(second).status == "SUCCEEDED")
        (project.root / "bad").touch()
        third = project.start(workflow)
        wait_until(lambda: project.show(third).status == "FAILED")
        (project.root / "bad").unlink()
        fourth = project.start(workflow)
        assert project.show(fourth).status == "CREATED"
        project.client.runs.unblock(workflow)
        wait_until(lambda: project.show(fourth).status == "SUCCEEDED")


FAN = """
Workflow:
  id: fan
  {more}
  jobs:
    - job: {{id: a, type: Shell, shell: {{script: "{script}"}}}}
    - job: {{id: b, type: Shell, shell: {{script: "{script}"}}}}
    - job: {{id: c, type: Shell, shell: {{script: "{script}"}}}}
    - job: {{id: d, type: Shell, shell: {{script: "{script}"}}}}
  dag: parallel
"""
# Each step writes how many it sees at work, itself included.
COUNT = "touch at.$ICEFLOE_STEP_ID; ls at.* | wc -l >> seen; sleep 0.15; rm at.$ICEFLOE_STEP_ID"


def test_a_workflow_bounds_how_many_of_its_steps_run_at_once(project: Project) -> None:
    view = project.execute(project.push(FAN.format(more="step_concurrency: 2", script=COUNT)))
    assert view.status == "SUCCEEDED"
    assert max(int(n) for n in words(project, "seen")) <= 2


def test_a_step_type_is_bounded_over_all_workers(project: Project) -> None:
    limited = project.config.model_copy(
        update={"engine": project.config.engine.model_copy(update={"limits": {"shell": 1}})}
    )
    bounded = Project(limited, project.client)
    run = project.start(project.push(FAN.format(more="", script=COUNT)))
    with bounded.worker(), bounded.worker():
        wait_until(lambda: project.show(run).ended)
    assert project.show(run).status == "SUCCEEDED"
    assert max(int(n) for n in words(project, "seen")) == 1


def test_what_the_steps_of_a_foreach_published_is_an_array_over_its_iterations(project: Project) -> None:
    text = """
    Workflow:
      id: gathers
      jobs:
        - foreach:
            id: days
            params: {day: [1, 2, 3, 4]}
            jobs:
              - job: {id: work, type: Shell, shell: {script: 'echo "{\\"rows\\": $((day * 10))}" > "$ICEFLOE_OUTPUT"'}}
        - job:
            id: after
            type: Shell
            '!rows<array<long>>': "params.getFromForeach('days', 'work', 'rows')"
            shell: {script: 'echo "${rows}" > gathered'}
      dag: sequential
    """
    view = project.execute(project.push(text))
    assert view.status == "SUCCEEDED", [step.cause for step in view.steps]
    assert words(project, "gathered") == sorted(["[10,", "20,", "30,", "40]"])
