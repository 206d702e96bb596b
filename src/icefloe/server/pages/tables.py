"""Tables: how far each is complete, who reads it and how far behind they are; and one table with its history."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse

from icefloe.errors import IcefloeError
from icefloe.server.access import CurrentActor
from icefloe.server.charts.bars import Bar, bars
from icefloe.server.charts.heat_map import heat_map
from icefloe.server.charts.snapshot_line import SnapshotMark, snapshot_line
from icefloe.server.rendering import capture_address, page, plural
from icefloe.server.routes.connection import Project
from icefloe.service import dry_run, table_lateness, tables
from icefloe.service.dry_run import WouldCapture
from icefloe.service.lateness import LatenessProfile, Unit, coarser, label
from icefloe.service.table_lateness import TableLateness
from icefloe.service.tables import SnapshotView, TableSummary, TableView

router = APIRouter(prefix="/tables")
MOST_CELLS = 400
"""Lines of a chart's table."""
MOST_BARS = 16


@router.get("")
def listing(
    request: Request, project: Project, _actor: CurrentActor, q: str = "", namespace: str | None = None
) -> HTMLResponse:
    problem = None
    wanted = (namespace or "").strip()[:200]
    try:
        found = tables.listing(project, search=q[:200], namespace=wanted or None)
    except IcefloeError as error:
        if not wanted:
            raise
        problem, found = error, tables.listing(project, search=q[:200])
    ordered = sorted(found.tables, key=_urgency)
    return page(request, "tables.html", listing=found, tables=ordered, q=q[:200], namespace=wanted, problem=problem)


def _urgency(one: TableSummary) -> tuple[bool, bool, bool, str]:
    """Late ones first, then those that cannot be read; those that are not there come last."""
    late = one.goal is not None and one.goal.state == "late"
    return not late, one.missing, one.problem is None, one.table


@router.get("/{name:path}")
def table(request: Request, project: Project, _actor: CurrentActor, name: str, look: str | None = None) -> HTMLResponse:
    """``look``: a workflow whose next capture of this table is worked out."""
    canonical = tables.canonical_name(project, name)
    summary = tables.summary_of(project, canonical)
    shown: TableView | None = None
    problem: IcefloeError | None = None
    lateness: TableLateness | None = None
    try:
        shown = tables.show(project, canonical)
        lateness = table_lateness.lateness(project, canonical)
    except IcefloeError as error:
        if shown is None and canonical not in project.definition_tables.known().tables:
            raise  # nothing names it, and it is not there
        problem = error
    workflows = project.definition_tables.known().workflows
    capturing = [one for one, its in workflows.items() if any(watched.table == canonical for watched in its.captured)]
    would, would_not = _would(project, look, canonical) if look in capturing and look else ((), None)
    return page(
        request,
        "table.html",
        table=canonical,
        summary=summary,
        view=shown,
        problem=problem,
        lateness=lateness,
        snapshots=_snapshot_line(canonical, shown) if shown else None,
        heat=_heat(canonical, lateness) if lateness and lateness.map else None,
        cells=list(_cells(lateness))[:MOST_CELLS] if lateness and lateness.map else [],
        late=_late_bars(canonical, lateness.profile) if lateness and lateness.profile else None,
        lag_name=partial(lag_name, unit=lateness.profile.unit) if lateness and lateness.profile else None,
        capturing=capturing,
        look=look,
        would=would,
        would_not=would_not,
    )


def _would(
    project: Project, workflow_id: str, name: str
) -> tuple[list[tuple[WouldCapture, dict[str, object]]], IcefloeError | None]:
    """What captures of a workflow would take of a table, and the first that is in the way."""
    try:
        rehearsed = dry_run.dry_run_of(project, workflow_id)
    except IcefloeError as error:
        return [], error
    found: list[tuple[WouldCapture, dict[str, object]]] = []
    for one in rehearsed.captures:
        if one.problem is not None:
            found.append((one, {}))
        found += [(one, dict(source)) for source in one.sources if source["table"] == name]
    return found, None


def _snapshot_line(name: str, view: TableView) -> Markup:
    shown = [
        SnapshotMark(
            one.at, one.operation, one.added_rows or one.removed_rows or 0, one.run is not None, _told(one), _link(one)
        )
        for one in view.snapshots
    ]
    return snapshot_line(shown, label=f"Snapshots of {name}")


def _told(one: SnapshotView) -> str:
    changed = [
        f"{one.added_rows:,} rows added" if one.added_rows else "",
        f"{one.removed_rows:,} rows removed" if one.removed_rows else "",
    ]
    by = f"run {one.run}" if one.run else "not by Icefloe"
    return ", ".join(part for part in (f"{one.operation} {one.id}", *changed, by) if part)


def _link(one: SnapshotView) -> str | None:
    return capture_address(one.captures[0]) if one.captures else None


def _heat(name: str, lateness: TableLateness) -> Markup:
    assert lateness.map is not None
    unit = lateness.map.unit
    return heat_map(
        lateness.map.cells,
        column=lambda day: label(day, Unit.DAY),
        row=lambda event: label(event, unit),
        label=f"Rows of {name} by the day they arrived and the {unit} they belong to",
        on_time=lambda day: coarser(day, Unit.DAY, unit),
    )


def _cells(lateness: TableLateness) -> Iterator[tuple[str, str, int]]:
    assert lateness.map is not None
    for (day, event), rows in sorted(lateness.map.cells.items(), reverse=True):
        yield label(day, Unit.DAY), label(event, lateness.map.unit), rows


def _late_bars(name: str, profile: LatenessProfile) -> Markup:
    shown = [Bar(lag_name(lag, profile.unit), rows, "good" if lag <= 0 else "warn") for lag, rows in profile.lags]
    if len(shown) > MOST_BARS:
        rest = profile.lags[MOST_BARS - 1 :]
        later = f"{rest[0][0]} to {plural(rest[-1][0], str(profile.unit))} late"
        shown = [*shown[: MOST_BARS - 1], Bar(later, sum(rows for _, rows in rest), "warn")]
    return bars(shown, label=f"How late rows of {name} arrive")


def lag_name(lag: int, unit: Unit) -> str:
    """A distance in words."""
    if lag == 0:
        return f"the same {unit}"
    return f"{plural(lag, str(unit))} late" if lag > 0 else f"{plural(-lag, str(unit))} ahead"
