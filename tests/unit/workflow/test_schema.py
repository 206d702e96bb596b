"""The JSON Schema for editors accepts what the loader accepts."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from icefloe.workflow.model import Workflow
from icefloe.workflow.schema import json_schema
from icefloe.workflow.yaml_writer import to_yaml

from .models import workflows

SEEDS = sorted(path for path in (Path(__file__).parent / "seeds").glob("*.yaml") if "bullets" not in path.name)
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_the_seeds_fit_the_schema(path: Path) -> None:
    VALIDATOR.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=30)
@given(workflows())
def test_what_icefloe_writes_fits_the_schema(workflow: Workflow) -> None:
    VALIDATOR.validate(yaml.safe_load(to_yaml(workflow)))


@pytest.mark.parametrize(
    "text",
    [
        "Workflo: {id: x}",
        "Workflow: {id: 5}",
        "Workflow: {id: x, run_strategy: sometimes}",
        "Workflow: {id: x, jobs: {a: b}}",
        "Workflow: {id: x, jobs: [{job: {id: a, type: Spark, spark: {script: x, colour: red}}}]}",
        "Workflow: {id: x, jobs: [{job: {id: a, type: IpCapture, ip_capture: {source_tables: [t], on_gap: guess}}}]}",
        "Workflow: {id: x, jobs: [{job: {type: NoOp}}]}",
        "Workflow: {id: x, retry: {error: -1}}",
    ],
)
def test_an_editor_marks_these(text: str) -> None:
    assert not VALIDATOR.is_valid(yaml.safe_load(text))
