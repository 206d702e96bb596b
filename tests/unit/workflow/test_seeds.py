"""Every definition that the talk and the deep-dive document show."""

from __future__ import annotations

from pathlib import Path

import pytest

from icefloe.workflow.loading import inspect, load
from icefloe.workflow.model import (
    CronTrigger,
    FailureMode,
    IncrementalTrigger,
    NoOpStep,
    SubworkflowStep,
    Transition,
    TypedStep,
    Workflow,
)
from icefloe.workflow.yaml_writer import to_yaml

SEEDS = sorted((Path(__file__).parent / "seeds").glob("*.yaml"))


def seed(name: str) -> Workflow:
    return load((Path(__file__).parent / "seeds" / f"{name}.yaml").read_bytes()).workflow


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_every_definition_of_the_seeds_loads_as_printed(path: Path) -> None:
    found = inspect(path.read_bytes(), path.name)
    assert found.is_valid, [str(problem) for problem in found.problems]


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_every_definition_of_the_seeds_is_the_same_after_being_written_and_read(path: Path) -> None:
    workflow = load(path.read_bytes()).workflow
    assert load(to_yaml(workflow)).workflow == workflow


@pytest.mark.parametrize("name", ["demo_pipeline", "auto_remediation", "incremental_processing"])
def test_the_slides_bullets_mean_the_same_as_plain_maps(name: str) -> None:
    assert seed(f"{name}_bullets") == seed(name)


def test_the_demo_pipeline_is_a_daily_spark_job_with_a_query_parameter() -> None:
    workflow = seed("demo_pipeline")
    assert workflow.id == "demo.pipeline"
    assert workflow.triggers == (CronTrigger(cron="@daily"),)
    (query,) = workflow.params
    assert query.name == "my_query"
    assert str(query.value).startswith(
        "INSERT OVERWRITE TABLE ${TARGET_TABLE} SELECT USER_ID, DATE_INT, SUM(watch_time)"
    )
    (job,) = workflow.steps
    assert isinstance(job, TypedStep)
    assert (job.id, job.type, job.settings) == ("job.1", "Spark", {"script": "${my_query}"})


def test_parameters_that_the_run_must_give_are_warned_about_and_no_error() -> None:
    path = Path(__file__).parent / "seeds" / "demo_pipeline.yaml"
    warnings = load(path.read_bytes(), path.name).warnings
    assert [warning.code for warning in warnings] == ["param.undefined"] * 2
    assert "'TARGET_TABLE'" in warnings[0].message
    assert "'SOURCE_TABLE'" in warnings[1].message


def test_auto_remediation_branches_on_the_status_of_a_step_whose_failure_is_ignored() -> None:
    workflow = seed("auto_remediation")
    normal, check, _, _, end = workflow.steps
    assert isinstance(normal, SubworkflowStep)
    assert normal.failure_mode is FailureMode.IGNORE_FAILURE
    assert isinstance(check, NoOpStep)
    assert isinstance(end, NoOpStep)
    condition = "params.getFromStep('normal_workflow', 'MAESTRO_STEP_STATUS') == 'COMPLETED_WITH_ERROR'"
    assert workflow.transitions == (
        Transition("normal_workflow", "check_status"),
        Transition("check_status", "recovery", condition),
        Transition("check_status", "end", f"!(({condition}))", otherwise=True),
        Transition("recovery", "re_run"),
        Transition("re_run", "end"),
    )


def test_the_incremental_pipeline_captures_runs_a_subworkflow_and_commits() -> None:
    workflow = seed("incremental_processing")
    capture, inner, commit = workflow.steps
    assert isinstance(capture, TypedStep)
    assert capture.settings == {
        "source_tables": ["membership_table"],
        "capture_mode": "ICDC",
        "data_operations": ["append"],
    }
    assert isinstance(inner, SubworkflowStep)
    assert {param.name: param.value for param in inner.params} == {
        "SOURCE_TABLE": "icdc.membership_table.01",
        "my_query": "$S3{my_script.sql}",
    }
    assert isinstance(commit, TypedStep)
    assert commit.settings == {"capture_step": "capture_change"}
    assert [(edge.source, edge.target) for edge in workflow.transitions] == [
        ("capture_change", "auto.remediation.pipeline"),
        ("auto.remediation.pipeline", "commit_checkpoint"),
    ]


def test_the_deep_dives_short_form_becomes_a_capture_and_a_visible_commit() -> None:
    workflow = seed("playback_daily")
    assert workflow.id == "playback_daily_workflow"
    capture, transform, commit = workflow.steps
    assert isinstance(capture, TypedStep)
    assert (capture.id, capture.type) == ("capture_icdc", "IpCapture")
    assert capture.settings == {"source_tables": ["db.playback_table"], "target_table": "db.playback_icdc_table"}
    assert isinstance(transform, TypedStep)
    assert (transform.type, transform.settings) == ("Spark", {"script": "merge_incremental_spark_job.py"})
    assert isinstance(commit, TypedStep)
    assert (commit.id, commit.type) == ("capture_icdc_commit", "IpCommit")
    assert workflow.transitions == (
        Transition("capture_icdc", "transform_new_data"),
        Transition("transform_new_data", "capture_icdc_commit"),
    )


def test_the_designs_example_has_an_incremental_trigger() -> None:
    workflow = seed("playback_agg")
    assert workflow.triggers == (IncrementalTrigger(tables=("db.playback_daily",), at_most_every=900.0),)
    assert workflow.owner == "playback-team"
