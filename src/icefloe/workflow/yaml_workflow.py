"""A whole YAML definition as a workflow.

Three notations load into the one model, and may be mixed: the canonical one (``Description``, ``Trigger``, ``Workflow``
with ``jobs`` and ``dag``), Maestro's own (one top key ``workflow``, everything inside), and the short one with
``steps: [{name, type, …, dependsOn}]`` whose steps carry their settings flat.
"""

from __future__ import annotations

from icefloe.workflow.document import MapNode, Node, describe
from icefloe.workflow.fields import Fields
from icefloe.workflow.identifiers import MAX_LENGTH, is_workflow_id
from icefloe.workflow.model import Param, Trigger, Workflow
from icefloe.workflow.parameters import base_name, read_params
from icefloe.workflow.places import Places
from icefloe.workflow.problems import Findings
from icefloe.workflow.step_types import StepTypes
from icefloe.workflow.values import clip
from icefloe.workflow.yaml_policies import read_alerting, read_retry, read_run_strategy
from icefloe.workflow.yaml_steps import StepReader
from icefloe.workflow.yaml_triggers import read_triggers


def read_workflow(root: Node, types: StepTypes, findings: Findings, places: Places) -> Workflow | None:
    """The workflow in a document; None when there is none to speak of."""
    if not isinstance(root, MapNode):
        findings.error(
            "definition.wrong-type",
            f"a definition must be a map, this is {describe(root)}",
            root.position,
            "begin with Workflow:",
        )
        return None
    document = Fields(root, "document", findings)
    node = document.map("workflow")
    if node is None:
        if "workflow" not in document:
            findings.error("definition.missing-key", "there is no 'Workflow'", root.position, "begin with Workflow:")
        return None
    outer = _properties(document, node)
    fields = Fields(outer, "workflow", findings)
    places.workflow = node.position
    workflow_id = _id(fields)
    steps, transitions = StepReader(types, findings, places).read_body(fields)
    if workflow_id is None:
        return None
    values = {
        **fields.values(Workflow),
        "id": workflow_id,
        "name": fields.text("name") if "id" in fields else None,
        "description": _description(document, fields),
    }
    return Workflow(
        **values,
        run_strategy=read_run_strategy(fields),
        retry=read_retry(fields),
        alerting=read_alerting(fields),
        params=_params(fields, places),
        steps=steps,
        transitions=transitions,
        triggers=_triggers(document, fields, places),
    )


def _properties(document: Fields, node: MapNode) -> MapNode:
    """Maestro keeps owner, run strategy and the like in ``properties`` beside the workflow."""
    properties = document.map("properties")
    if properties is None:
        return node
    return MapNode(node.position, {**properties.entries, **node.entries})


def _id(fields: Fields) -> str | None:
    key = "id" if "id" in fields else "name"
    workflow_id = fields.text(key)
    if workflow_id is None:
        if key not in fields:
            fields.error("definition.missing-key", "the workflow needs an id", fields.position, "add id:")
        return None
    if not is_workflow_id(workflow_id):
        fields.error(
            "workflow.id",
            f"'{clip(workflow_id)}' cannot be a workflow's id",
            fields.at(key),
            f"letters, digits, _ . - (at most {MAX_LENGTH})",
        )
        return None
    return workflow_id


def _description(document: Fields, fields: Fields) -> str | None:
    outer = document.text("description")
    inner = fields.text("description")
    if outer is not None and inner is not None:
        fields.error(
            "definition.duplicate-key", "the description is given twice", fields.at("description"), "remove one of them"
        )
    return outer if outer is not None else inner


def _params(fields: Fields, places: Places) -> tuple[Param, ...]:
    nested = fields.map("params")
    entries = [*fields.params, *(nested.entries.values() if nested is not None else ())]
    for entry in entries:
        places.params.setdefault((None, base_name(entry.key)), entry.position)
    return read_params(entries, fields.findings)


def _triggers(document: Fields, fields: Fields, places: Places) -> tuple[Trigger, ...]:
    nodes = [node for node in (document.get("trigger"), fields.get("trigger")) if node is not None]
    return tuple(trigger for node in nodes for trigger in read_triggers(node, fields.findings, places))
