from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings

from icefloe.workflow.loading import load
from icefloe.workflow.model import Workflow
from icefloe.workflow.yaml_writer import to_yaml

from .models import workflows

relaxed = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)


@relaxed
@given(workflows())
def test_a_workflow_written_as_yaml_reads_back_as_the_same_workflow(workflow: Workflow) -> None:
    assert load(to_yaml(workflow)).workflow == workflow


@relaxed
@given(workflows())
def test_a_workflow_written_as_json_reads_back_as_the_same_workflow(workflow: Workflow) -> None:
    stored = json.loads(json.dumps(workflow.to_dict()))
    assert Workflow.from_dict(stored) == workflow
    assert Workflow.from_dict(stored).digest() == workflow.digest()
