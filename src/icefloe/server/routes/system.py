"""The installation: what runs here, tokens, the project's Spark server, the janitor."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

from icefloe.server.access import Admin, CurrentActor, Operator
from icefloe.server.routes.bodies import Body
from icefloe.service.access import Access, Role
from icefloe.service.system import System

router = APIRouter(tags=["system"])


def _system(request: Request) -> System:
    known = request.app.state.system
    assert isinstance(known, System)
    return known


def _access(request: Request) -> Access:
    known = request.app.state.access
    assert isinstance(known, Access)
    return known


Installation = Annotated[System, Depends(_system)]
Tokens = Annotated[Access, Depends(_access)]


class SystemState(BaseModel):
    workers: list[dict[str, Any]] = Field(description="With what went wrong in each without failing a step.")
    schedulers: list[dict[str, Any]]
    spark: dict[str, Any]
    state: dict[str, Any]
    janitor: dict[str, Any]
    versions: dict[str, str]


@router.get("/system", response_model=SystemState)
def show_system(installation: Installation, _actor: CurrentActor) -> dict[str, Any]:
    """Workers, schedulers, Spark server, state database, janitor, versions."""
    return installation.overview().to_dict()


# -- tokens ----------------------------------------------------------------------------------------------------------------


class Token(BaseModel):
    name: str
    role: str
    created_at: float
    created_by: str
    expires_at: float | None
    used_at: float | None
    revoked_at: float | None
    revoked_by: str | None
    valid: bool


class TokenListing(BaseModel):
    tokens: list[Token]


class NewToken(Body):
    name: str = Field(min_length=1, max_length=100, examples=["grafana"])
    role: str = Field(default="viewer", examples=["viewer"])
    days: float | None = Field(default=None, description="How long it is valid; without it until it is revoked.")


class MadeToken(BaseModel):
    name: str
    role: str
    token: str = Field(description="The secret. It is not shown again.")


class Revoked(BaseModel):
    revoked: bool = Field(description="False: it was revoked before.")


@router.get("/tokens", response_model=TokenListing)
def list_tokens(tokens: Tokens, _actor: Admin) -> dict[str, Any]:
    """Names, roles, last use. Never a secret."""
    return {"tokens": [token.to_dict() for token in tokens.tokens()]}


@router.post("/tokens", status_code=201, response_model=MadeToken)
def add_token(token: NewToken, tokens: Tokens, actor: Admin) -> dict[str, Any]:
    """Make a token. Its secret is in this answer alone."""
    secret = tokens.add_token(token.name, token.role, days=token.days, by=actor.name)
    return {"name": token.name, "role": Role(token.role).value, "token": secret}


@router.delete("/tokens/{name:path}", response_model=Revoked)
def revoke_token(name: str, tokens: Tokens, actor: Admin) -> dict[str, bool]:
    """End a token and the logins made with it, at once."""
    return {"revoked": tokens.revoke_token(name, by=actor.name)}


# -- Spark -----------------------------------------------------------------------------------------------------------------


class Spark(BaseModel):
    running: bool
    ready: bool
    in_use: bool
    began: float | None
    idle_minutes: float
    remote: bool = Field(description="Steps use another server, about which nothing is known here.")


class Stopped(BaseModel):
    stopped: bool = Field(description="False: none was running.")


@router.get("/spark", response_model=Spark)
def show_spark(installation: Installation, _actor: CurrentActor) -> dict[str, Any]:
    """The project's own Spark server."""
    return installation.spark().to_dict()


@router.post("/spark/stop", response_model=Stopped)
def stop_spark(installation: Installation, actor: Operator) -> dict[str, bool]:
    """End it. Statements that run on it fail."""
    return {"stopped": installation.stop_spark(actor.name)}


# -- the janitor -----------------------------------------------------------------------------------------------------------


class PrunedKind(BaseModel):
    kind: str
    items: int
    bytes: int
    error: str | None


class Pruning(BaseModel):
    dry_run: bool
    kinds: list[PrunedKind]


class PruneRequest(Body):
    dry_run: bool = Field(default=False, description="Only count what would go.")


@router.post("/janitor/prune", response_model=Pruning)
def prune(wanted: PruneRequest, installation: Installation, actor: Admin) -> dict[str, Any]:
    """Delete what is past its keep time. `icefloe serve` does so by itself, pins and change tables included."""
    kinds = installation.due() if wanted.dry_run else installation.prune(actor.name)
    return {"dry_run": wanted.dry_run, "kinds": [kind.to_dict() for kind in kinds]}
