"""A workflow in which everything that the engine can do happens, with effects that count themselves, and its one right end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.projects import Project

CHILD = """
Workflow:
  id: child
  run_strategy: {rule: PARALLEL, concurrency: 100}
  jobs:
    - job: {id: sub_work, type: Shell, shell: {script: "echo $ICEFLOE_RUN_ID/sub_work >> effects; echo sum=$((N + 1)) > $ICEFLOE_OUTPUT"}}
"""

PIPELINE = """
Workflow:
  id: pipeline
  run_strategy: {rule: PARALLEL, concurrency: 100}
  retry: {error: 0, platform: 100, timeout: 0, backoff: {initial: 0.05}}
  jobs:
    - job: {id: first, type: Shell, shell: {script: "echo $ICEFLOE_RUN_ID/first >> effects; echo n=5 > $ICEFLOE_OUTPUT"}}
    - job: {id: join, type: NoOp}
    - job:
        id: stubborn
        type: Shell
        retry: {error: 2, platform: 100, backoff: {initial: 0.02}}
        shell:
          script: |
            echo $ICEFLOE_RUN_ID/stubborn >> effects
            echo x >> tries.$ICEFLOE_RUN_ID
            test $(wc -l < tries.$ICEFLOE_RUN_ID) -ge 2
    - job: {id: hopeless, type: Shell, failure_mode: IGNORE_FAILURE, shell: {script: "echo $ICEFLOE_RUN_ID/hopeless >> effects; exit 3"}}
    - foreach:
        id: each
        concurrency: 2
        params: {x: [1, 2, 3]}
        jobs:
          - job: {id: item, type: Shell, shell: {script: "echo $ICEFLOE_RUN_ID/item >> effects; sleep 0.02"}}
          - job: {id: item_end, type: NoOp}
        dag: sequential
    - subworkflow: {id: sub, workflow_id: child, N: 41}
    - job: {id: recovered, type: Shell, shell: {script: "echo $ICEFLOE_RUN_ID/recovered >> effects; test ${sub__sub_work__sum} = 42"}}
    - job: {id: never, type: Shell, shell: {script: "echo $ICEFLOE_RUN_ID/never >> effects"}}
  dag:
    - first -> join -> stubborn -> each -> sub
    - join -> hopeless
    - hopeless:
        - "IF params.getFromStep('hopeless', 'MAESTRO_STEP_STATUS') == 'COMPLETED_WITH_ERROR'": recovered
        - OTHERWISE: never
    - sub -> recovered
"""

EXPECTED = {
    "first": "SUCCEEDED",
    "join": "SUCCEEDED",
    "stubborn": "SUCCEEDED",
    "hopeless": "COMPLETED_WITH_ERROR",
    "each": "SUCCEEDED",
    "sub": "SUCCEEDED",
    "recovered": "SUCCEEDED",
    "never": "UNSATISFIED",
}


def push(project: Project) -> str:
    project.push(CHILD)
    return project.push(PIPELINE)


def check(project: Project, run_id: str) -> None:
    """The run has ended as it would have without any fault: effects at least once, recorded results exactly once."""
    view = project.show(run_id)
    assert view.status == "SUCCEEDED", (view.cause, {s.id: (s.status, s.cause) for s in view.steps})
    assert {step.id: step.status for step in view.steps} == EXPECTED
    runs = [run_id, *(f"{run_id}:each:{n}" for n in range(3)), f"{run_id}:sub"]
    for run in runs:
        view = project.show(run)
        ends = Counter(event.step for event in view.events if event.status in ("SUCCEEDED", "COMPLETED_WITH_ERROR"))
        assert set(ends.values()) == {1}, (run, ends)
        for step in view.steps:
            good = [attempt for attempt in step.history if attempt.status == "SUCCEEDED"]
            assert len(good) == (step.status == "SUCCEEDED"), (run, step.id, step.history)
    effects = Counter((project.root / "effects").read_text().split())
    steps = [f"{run_id}/{step}" for step in ("first", "stubborn", "hopeless", "recovered")]
    steps += [f"{run_id}:each:{n}/item" for n in range(3)] + [f"{run_id}:sub/sub_work"]
    assert all(effects[step] >= 1 for step in steps), effects
    assert not effects[f"{run_id}/never"]
    assert project.show(f"{run_id}:each:1").params["x"] == 2


def folder_is_clean(project: Project) -> bool:
    attempts: Path = project.config.home / "attempts"
    return not attempts.exists() or not any(attempts.iterdir())
