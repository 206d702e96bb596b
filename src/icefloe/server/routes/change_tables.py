"""What changed in a table, from its metadata alone, and tables of just that."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from icefloe.server.access import CurrentActor, Operator
from icefloe.server.routes.bodies import Body
from icefloe.server.routes.connection import Project
from icefloe.service.table_changes import changes

router = APIRouter(tags=["tables"])
Table = Annotated[str, Path(max_length=500, examples=["db.playback_daily"])]
Snapshot = Annotated[int | None, Query(ge=0, le=2**63 - 1)]
OnGap = Literal["fail", "full", "diff"]
LAST_SNAPSHOT = 2**63 - 1


class TableChanges(BaseModel):
    """``gap``: the history was lost, and what is shown instead says ``kind``. ``change_table``: what was made of it."""

    table: str
    ref: str
    kind: str
    from_snapshot: int | None
    to_snapshot: int | None
    operations: dict[str, int]
    skipped_operations: dict[str, int]
    append_only: bool
    exact: bool
    added_files: int
    added_rows: int
    added_bytes: int | None
    removed_files: int
    removed_rows: int
    delete_files: int
    gap: dict[str, Any] | None
    ranges: dict[str, Any]
    partitions: list[dict[str, Any]]
    range_filter: str | None
    partition_filter: str | None
    change_table: str | None


class NewChangeTable(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "yesterday", "since": 8171515541323}]})

    name: str = Field(max_length=300)
    since: int | None = Field(None, ge=0, le=LAST_SNAPSHOT)
    until: int | None = Field(None, ge=0, le=LAST_SNAPSHOT)
    ref: str = "main"
    operations: list[str] = Field(["append"])
    columns: list[str] | None = None
    on_gap: OnGap = "fail"


class ListedChangeTable(BaseModel):
    name: str
    source: str
    from_snapshot: int | None
    to_snapshot: int | None
    rows: int
    files: int
    created: str
    location: str


class ChangeTables(BaseModel):
    change_tables: list[ListedChangeTable]


class CleanUp(Body):
    older_than_hours: float = Field(1.0, ge=0, le=1e6, description="Younger leftovers may belong to a running capture.")


class Cleaned(BaseModel):
    removed: list[str]


@router.get("/tables/{table:path}/changes", response_model=TableChanges)
def get_changes(
    table: Table,
    project: Project,
    _actor: CurrentActor,
    since: Snapshot = None,
    until: Snapshot = None,
    ref: str = "main",
    operations: Annotated[
        str, Query(description="What counts, with commas.", examples=["append,overwrite"])
    ] = "append",
    columns: Annotated[str | None, Query(description="Columns to tell ranges of, with commas.")] = None,
    on_gap: Annotated[OnGap, Query(description="When history is lost.")] = "fail",
) -> dict[str, Any]:
    """What happened after the snapshot ``since``, up to ``until``; without ``since`` the table as it is."""
    return changes(
        project.lake, table, since=since, until=until, ref=ref, operations=_words(operations),
        columns=None if columns is None else _words(columns), on_gap=on_gap,
    ).to_dict()  # fmt: skip


@router.post("/tables/{table:path}/change-tables", status_code=201, response_model=TableChanges)
def create_change_table(table: Table, new: NewChangeTable, project: Project, _actor: Operator) -> dict[str, Any]:
    """Make a change table: it shows just what changed, and copies no data."""
    return changes(
        project.lake, table, since=new.since, until=new.until, ref=new.ref, operations=new.operations, columns=new.columns,
        on_gap=new.on_gap, create=new.name,
    ).to_dict()  # fmt: skip


@router.get("/change-tables", response_model=ChangeTables)
def list_change_tables(project: Project, _actor: CurrentActor) -> dict[str, Any]:
    """All of this catalog."""
    return {"change_tables": [table.to_dict() for table in project.lake.change_tables()]}


@router.post("/change-tables/clean", response_model=Cleaned)
def clean_change_tables(clean: CleanUp, project: Project, _actor: Operator) -> dict[str, Any]:
    """Delete what captures that died left behind."""
    removed = project.lake.clean_change_tables(older_than_seconds=clean.older_than_hours * 3600)
    return {"removed": list(removed)}


@router.delete("/change-tables/{name:path}", response_model=ListedChangeTable)
def drop_change_table(name: Annotated[str, Path(max_length=500)], project: Project, _actor: Operator) -> dict[str, Any]:
    """Drop one. The source's files are not touched."""
    return project.lake.drop_change_table(name).to_dict()


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
