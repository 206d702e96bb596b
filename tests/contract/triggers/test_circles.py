"""Workflows that would start themselves are refused, unless their definition allows so many rounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from icefloe.triggers.cycles import CycleError
from tests.contract.triggers.conftest import Stage

STAGE = """
Trigger: {{incremental: {{tables: [{source}]{more}}}}}
Workflow:
  id: {id}
  TARGET: {target}
  jobs:
    - job: {{id: write, type: Spark, spark: {{script: "INSERT INTO ${{TARGET}} SELECT * FROM {source}"}}}}
"""


def stage_of(id: str, source: str, target: str, more: str = "") -> str:
    return STAGE.format(id=id, source=source, target=target, more=more)


def test_a_workflow_that_writes_what_it_watches_is_refused(stage: Stage) -> None:
    with pytest.raises(CycleError, match=r"a -> db\.x -> a") as error:
        stage.project.push(stage_of("a", "db.x", "lake.db.x"))
    assert "allow_cycle" in (error.value.hint or "")
    stage.project.push(stage_of("a", "db.x", "db.x", ", allow_cycle: 2"))


def test_a_circle_through_other_workflows_is_refused_when_it_would_be_closed(stage: Stage) -> None:
    stage.project.push(stage_of("a", "db.x", "db.y"))
    stage.project.push(stage_of("b", "db.y", "db.z"))
    (stage.project.root / "back.sql").write_text("MERGE INTO db.x USING db.z ON true WHEN NOT MATCHED THEN INSERT *")
    closing = "Trigger: {incremental: {tables: [db.z]}}\nWorkflow: {id: c, jobs: [{job: {id: w, type: Spark, spark: {script: back.sql}}}]}"
    with pytest.raises(CycleError, match=r"c -> db\.x -> a -> db\.y -> b -> db\.z -> c"):
        stage.project.push(closing)
    stage.project.push(closing.replace("{tables: [db.z]}", "{tables: [db.z], allow_cycle: 1}"))


def test_a_pipeline_without_a_circle_is_fine(stage: Stage) -> None:
    stage.project.push(stage_of("a", "db.x", "db.y"))
    stage.project.push(stage_of("b", "db.y", "db.z"))
    stage.project.push(stage_of("c", "db.x", "db.z"))


def mark(stage: Stage, table: str, run: str) -> None:
    """Make the table's last commit one of a run's, as the steps of Icefloe mark them."""
    metadata = stage.lake.table(table).metadata
    raw: dict[str, Any] = json.loads(json.dumps(metadata.raw))
    for snapshot in raw["snapshots"]:
        if snapshot["snapshot-id"] == raw["current-snapshot-id"]:
            snapshot["summary"]["icefloe.run"] = run
    stage.replace_metadata(table, raw)


SELF = """
Trigger: {incremental: {tables: [db.events]%s}}
Workflow:
  id: self
  jobs:
    - job: {id: look, type: IpCapture, ip_capture: {source_tables: [db.events]}}
    - job: {id: commit, type: IpCommit, ip_commit: {capture_step: look}}
  dag: sequential
"""


@pytest.mark.parametrize("allowed", [0, 2])
def test_a_circle_that_no_definition_shows_goes_as_many_rounds_as_are_allowed(stage: Stage, allowed: int) -> None:
    stage.create("db.events")
    stage.append("db.events", 1)
    stage.project.push(SELF % (f", allow_cycle: {allowed}" if allowed else ""))
    stage.look()
    for number in range(6):
        before = len(stage.runs("self"))
        assert stage.do("self").status == "SUCCEEDED"
        stage.append("db.events", 100 + number)
        mark(stage, "db.events", f"self-{before}")
        stage.look()
        if len(stage.runs("self")) == before:
            break
    assert len(stage.runs("self")) == 1 + allowed
    assert "own output" in stage.verdict("self").reason
    stage.append("db.events", 7)
    stage.look()
    assert len(stage.runs("self")) == 2 + allowed, "what comes from outside starts it as ever"
