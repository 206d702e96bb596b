from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings

from icefloe.workflow.loading import load
from icefloe.workflow.model import NoOpStep, Param, Workflow
from icefloe.workflow.values import ParamType
from icefloe.workflow.yaml_writer import to_yaml

from .models import workflows

relaxed = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)


@relaxed
@given(workflows())
def test_a_workflow_written_as_yaml_reads_back_as_the_same_workflow(workflow: Workflow) -> None:
    assert load(to_yaml(workflow)).workflow == workflow


@pytest.mark.parametrize(
    "text",
    [
        "\x85",
        "a\x85b",
        "x\n\x85y",
        "\u2028",
        "\u2029 x",
        "\ufeff",
        "\r",
        "a\r\nb",
        "\x7f",
        "\t",
        "a\t\nb",
        "\n",
        "x\n\n",
        " x\ny",
        "x\n ",
        "- a\n# b\n",
        "yes",
        "1_000",
        "2024-01-01",
        "=",
        "<<",
        "~",
        "0x1F",
        "1e3",
        "'",
        '"',
        "*a",
        "&a",
        "!x",
    ],
)
def test_odd_texts_survive_being_written_and_read(text: str) -> None:
    workflow = Workflow(
        id="w", criticality=text, params=(Param("p", ParamType.STRING, value=text),), steps=(NoOpStep(id="s"),)
    )
    assert load(to_yaml(workflow)).workflow == workflow


@relaxed
@given(workflows())
def test_a_workflow_written_as_json_reads_back_as_the_same_workflow(workflow: Workflow) -> None:
    stored = json.loads(json.dumps(workflow.to_dict()))
    assert Workflow.from_dict(stored) == workflow
    assert Workflow.from_dict(stored).digest() == workflow.digest()
