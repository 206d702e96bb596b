"""Definitions that are not pushed yet: what is wrong with them, how they look, what pushing them would change."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from icefloe.server.access import CurrentActor
from icefloe.server.answers import RequestError
from icefloe.server.routes.bodies import Body
from icefloe.server.routes.connection import Project
from icefloe.service import sent_definitions
from icefloe.service.definitions import installed_types
from icefloe.service.sent_definitions import SentDefinition
from icefloe.workflow.drawing import to_mermaid, to_svg, to_terminal
from icefloe.workflow.model import Workflow
from icefloe.workflow.schema import json_schema
from icefloe.workflow.yaml_writer import to_yaml

router = APIRouter(prefix="/definitions", tags=["definitions"])

EXAMPLE = """\
Workflow:
  id: hello
  WHO: world
  jobs:
    - job: {id: greet, type: Shell, shell: {script: "echo hello ${WHO}"}}
"""


class Definition(Body):
    """``files``: what the definition refers to, as base64, by key: ``file:`` and the path in it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"yaml": EXAMPLE, "name": "hello.yaml"}]})

    yaml: str = Field(description="The definition.")
    name: str = Field("workflow.yaml", min_length=1, max_length=300, description="Its file's name, for messages.")
    files: dict[str, str] = Field({})
    source: str | None = Field(
        None, description="What its author has written, if that is not `yaml`: a pipeline in Python."
    )

    def sent(self) -> SentDefinition:
        files = {}
        for key, content in self.files.items():
            try:
                files[key] = base64.b64decode(content, validate=True)
            except (binascii.Error, ValueError):
                raise RequestError("this is not base64", where=f"body.files.{key[:100]}") from None
        return SentDefinition(self.yaml, self.name, files, self.source)


class Report(BaseModel):
    valid: bool
    workflow: str | None
    problems: list[dict[str, Any]] = Field(
        description="Each with `severity`, `code`, `message`, `file`, `line`, `column` and `hint`."
    )


class Difference(BaseModel):
    workflow: str
    pushed: bool = Field(description="False: it has never been pushed, and all of it is new.")
    changed: bool
    changes: list[dict[str, Any]]
    text: str


@router.post("/validate", response_model=Report)
def validate_definition(definition: Definition, project: Project, _actor: CurrentActor) -> dict[str, Any]:
    """Everything that is wrong with it, and where. 200 whether or not it is valid."""
    return sent_definitions.report(project.config, definition.sent()).to_dict()


@router.post("/diff", response_model=Difference)
def diff_definition(definition: Definition, project: Project, _actor: CurrentActor) -> dict[str, Any]:
    """What pushing it would change."""
    workflow, difference = sent_definitions.difference(project.config, project.workflows, definition.sent())
    if difference is None:
        return {"workflow": workflow, "pushed": False, "changed": True, "changes": [], "text": ""}
    return {"workflow": workflow, "pushed": True, **difference.to_dict(), "text": difference.text}


GraphFormat = Literal["svg", "mermaid", "terminal"]
TEXTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The drawing",
        "content": {
            "image/svg+xml": {"schema": {"type": "string"}},
            "text/plain": {"schema": {"type": "string"}},
        },
    }
}


@router.post("/graph", response_class=Response, responses=TEXTS)
def graph_definition(definition: Definition, _actor: CurrentActor, format: GraphFormat = "svg") -> Response:
    """Its steps and the way they follow each other, as a drawing."""
    return drawing(sent_definitions.usable(definition.sent()), format)


class Converted(BaseModel):
    workflow: str
    yaml: str
    definition: dict[str, Any]


@router.post("/convert")
def convert_definition(definition: Definition, _actor: CurrentActor) -> Converted:
    """It in the canonical form, short forms written out."""
    workflow = sent_definitions.usable(definition.sent())
    return Converted(workflow=workflow.id, yaml=to_yaml(workflow, installed_types()), definition=workflow.to_dict())


@router.get("/schema")
def get_definition_schema(_actor: CurrentActor) -> dict[str, Any]:
    """The JSON Schema of definitions, for editors."""
    return json_schema(installed_types())


def drawing(workflow: Workflow, format: GraphFormat) -> Response:
    if format == "svg":
        return Response(to_svg(workflow), media_type="image/svg+xml")
    text = to_mermaid(workflow) if format == "mermaid" else to_terminal(workflow, 100)
    return Response(text, media_type="text/plain; charset=utf-8")
