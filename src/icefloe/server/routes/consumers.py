"""Consumers: how far workflows have read their sources, and moving that by hand. What moves something shows first what it would do."""

from __future__ import annotations

import math
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from icefloe.server.access import CurrentActor, Operator
from icefloe.server.answers import RequestError
from icefloe.server.routes.bodies import Body
from icefloe.server.routes.connection import Project
from icefloe.server.routes.listings import After, Limit, page_model, page_of
from icefloe.server.routes.preconditions import IfMatch, seen_number, tag
from icefloe.service.access import Actor
from icefloe.service.consumer_positions import ConsumerPosition
from icefloe.service.consumers import CaptureView, ConsumerView
from icefloe.service.interventions import Preview
from icefloe.service.preconditions import refuse_if_changed

router = APIRouter(prefix="/consumers", tags=["consumers"])
Name = Annotated[str, Path(max_length=500, examples=["playback.agg/capture_change"])]


class ConsumerPage(BaseModel):
    """One entry for each consumer and source. ``lag_…`` null: unknown, see ``problem``."""

    consumers: list[ConsumerPosition]
    next: str | None
    count: str | None = None


class Deed(Body):
    yes: bool = Field(False, description="Do it. Without it, only what would happen is shown.")
    why: str = Field("", max_length=2000, description="The reason, for the record; needed with `yes`.")
    agreed: str | None = Field(
        None, description="`digest` of the preview that was agreed to: what it showed is done, or nothing."
    )


class Shift(Deed):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"to": "2026-03-01T00:00:00Z", "yes": True, "why": "a bad load"}]}
    )

    to: str | int = Field(description="`earliest`, `latest`, a snapshot id, or a time.")
    table: str | None = Field(None, description="Only this source; without it all of them.")


class Rename(Deed):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"new": "playback.agg/look", "yes": True, "why": "renamed step"}]}
    )

    new: str = Field(max_length=500)


class PreviewAnswer(BaseModel):
    """``done``: it has been done. ``digest``: for ``agreed``."""

    verb: str
    consumer: str
    moves: list[dict[str, Any]]
    abandons: str | None
    renamed_to: str | None
    warnings: list[str]
    done: bool
    version: int
    digest: str

    @classmethod
    def of(cls, preview: Preview) -> PreviewAnswer:
        return cls(**preview.to_dict(), digest=preview.digest)


@router.get("", response_model=ConsumerPage)
def list_consumers(
    request: Request,
    response: Response,
    project: Project,
    _actor: CurrentActor,
    limit: Limit = 100,
    after: After = None,
) -> dict[str, Any]:
    """By name; ``limit`` counts consumers, of which each has an entry for every source."""
    names = project.consumers.names(after, limit + 1)
    page = page_of(request, response, "consumers", names, limit, lambda name: name)
    return {**page, "consumers": project.consumers.listing(after, limit)}


@router.get("/{name:path}")
def get_consumer(name: Name, project: Project, response: Response, _actor: CurrentActor) -> ConsumerView:
    """One consumer: its sources and targets, its newest captures."""
    view = project.consumers.show(name)
    tag(response, view.version)
    return view


@router.post("/{name:path}/rewind")
def rewind_consumer(
    name: Name, shift: Shift, project: Project, actor: Operator, if_match: IfMatch = None
) -> PreviewAnswer:
    """Move a checkpoint back: what lies between is captured again."""

    def act(**deed: Any) -> Preview:
        return project.consumers.rewind(name, shift.to, table=shift.table, **deed)

    return _act(act, shift, actor, if_match, f"consumer {name}")


@router.post("/{name:path}/fast-forward")
def fast_forward_consumer(
    name: Name, shift: Shift, project: Project, actor: Operator, if_match: IfMatch = None
) -> PreviewAnswer:
    """Move a checkpoint on: what lies between is never captured."""

    def act(**deed: Any) -> Preview:
        return project.consumers.fast_forward(name, shift.to, table=shift.table, **deed)

    return _act(act, shift, actor, if_match, f"consumer {name}")


@router.post("/{name:path}/rename")
def rename_consumer(
    name: Name, rename: Rename, project: Project, actor: Operator, if_match: IfMatch = None
) -> PreviewAnswer:
    """Let a checkpoint go on under another name."""
    return _act(
        lambda **deed: project.consumers.rename(name, rename.new, **deed), rename, actor, if_match, f"consumer {name}"
    )


@router.post("/{name:path}/remove")
def remove_consumer(
    name: Name, deed: Deed, project: Project, actor: Operator, if_match: IfMatch = None
) -> PreviewAnswer:
    """Forget how far it has read."""
    return _act(lambda **told: project.consumers.remove(name, **told), deed, actor, if_match, f"consumer {name}")


def _act(verb: Any, deed: Deed, actor: Actor, if_match: str | None, what: str) -> PreviewAnswer:
    agreed = deed.agreed
    if (version := seen_number(if_match)) is not None:
        before = verb(yes=False)
        refuse_if_changed(what, before.version, version)
        agreed = agreed or before.digest  # from here on it is held: what was seen is done, or nothing
    return PreviewAnswer.of(verb(yes=deed.yes, why=deed.why, by=actor.name, agreed=agreed))


# -- captures ----------------------------------------------------------------------------------------------------------------

captures = APIRouter(prefix="/captures", tags=["captures"])
CaptureId = Annotated[str, Path(max_length=300, examples=["3f2a9c41d7e8"])]


@captures.get("", response_model=page_model("captures", CaptureView))
def list_captures(
    request: Request,
    response: Response,
    project: Project,
    _actor: CurrentActor,
    consumer: str | None = None,
    state: str | None = None,
    limit: Limit = 20,
    after: After = None,
) -> dict[str, Any]:
    """Newest first. ``state``: planned, pinned, built, committed, abandoned, …"""
    found = project.consumers.captures(consumer, limit + 1, before=_place(after), state=state)
    return page_of(request, response, "captures", found, limit, lambda capture: f"{capture.created_at!r}:{capture.id}")


@captures.get("/{capture_id}")
def get_capture(capture_id: CaptureId, project: Project, _actor: CurrentActor) -> CaptureView:
    """The range of each source, its change tables, where its batch was published."""
    return project.consumers.capture(capture_id)


@captures.post("/{capture_id}/abandon")
def abandon_capture(capture_id: CaptureId, deed: Deed, project: Project, actor: Operator) -> PreviewAnswer:
    """Give up an open capture: the checkpoint stays, the next run captures anew."""
    return _act(
        lambda **told: project.consumers.abandon(capture_id, **told), deed, actor, None, f"capture {capture_id}"
    )


def _place(after: str | None) -> tuple[float, str] | None:
    if after is None:
        return None
    at, separator, capture_id = after.partition(":")
    try:
        place = float(at)
    except ValueError:
        separator = ""
    if not separator or not math.isfinite(place):
        raise RequestError("this is not a cursor of this listing", where="after", hint="send `next` of the page before")
    return place, capture_id
