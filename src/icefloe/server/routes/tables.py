"""Tables: what is known of all of them, of one, and how late its rows arrive."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from icefloe.server.access import CurrentActor
from icefloe.server.routes.connection import Project
from icefloe.service import table_lateness, tables

router = APIRouter(tags=["tables"])


@router.get("/tables")
def list_tables(
    project: Project,
    _actor: CurrentActor,
    search: Annotated[str, Query(max_length=200)] = "",
    namespace: Annotated[str | None, Query(max_length=200)] = None,
) -> dict[str, Any]:
    """Every table that definitions, consumers or watermarks name. ``namespace``: others that the catalog lists there are named in
    ``elsewhere``. ``cut`` says why there are more."""
    return tables.listing(project, search=search, namespace=namespace).to_dict()


@router.get("/tables/{name:path}")
def get_table(project: Project, _actor: CurrentActor, name: str) -> dict[str, Any]:
    """One table: its snapshots, schema, references, and who reads it and how far behind they are."""
    return tables.show(project, name).to_dict()


@router.get("/lateness/{name:path}")
def get_lateness(project: Project, _actor: CurrentActor, name: str) -> dict[str, Any]:
    """How late a table's rows arrive, from the metadata of its newest appends; and which lookback would have been needed."""
    return table_lateness.lateness(project, name).to_dict()
