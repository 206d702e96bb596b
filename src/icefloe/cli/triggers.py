"""``why``, ``signal``, ``signals``, ``watermark``, ``incidents``, ``activate``, ``deactivate``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from icefloe.cli.clients import open_client
from icefloe.cli.moments import ago, clock, span
from icefloe.cli.output import Output, OutputOption, console, note, print_json
from icefloe.errors import UsageError

WorkflowArgument = Annotated[str, typer.Argument(help="The workflow's id.")]
_COLOURS = {"start": "green", "wait": "cyan", "nothing": "", "held": "yellow"}


def register(app: typer.Typer) -> None:
    for command in (why, signal, signals, watermark, incidents, activate, deactivate):
        app.command()(command)


def why(workflow: WorkflowArgument, output: OutputOption = Output.text) -> None:
    """Say why a workflow has not started, and when or after what it will."""
    with open_client() as client:
        found = client.triggers.why(workflow)
    if output is Output.json:
        print_json(found.to_dict())
        return
    for one in found.triggers:
        line = Text(f"{one.text}: ")
        line.append(one.verdict.kind.value, style=_COLOURS[one.verdict.kind.value])
        line.append(f"  {one.verdict.reason}")
        if one.verdict.after is not None:
            line.append(f" (in {span(max(0.0, one.verdict.after))})")
        console.print(line)
        for fire in one.next_fires:
            console.print(Text(f"  {clock(fire)} UTC"))
        if one.problem:
            console.print(Text(f"  the last occasion: {one.problem}"))
        if one.last_run:
            console.print(Text(f"  it last started {one.last_run}"))
        if one.verdict.hint:
            note(f"  → {one.verdict.hint}")
    for incident in found.incidents:
        console.print(Text(f"incident: {incident.kind}, since {ago(incident.opened_at)}: {incident.message}"))
    for remark in found.remarks:
        note(remark)


def signal(
    name: Annotated[str, typer.Argument(help="The signal's name.")],
    params: Annotated[list[str] | None, typer.Argument(help="Its parameters: name=value.")] = None,
    signal_id: Annotated[
        str | None, typer.Option("--id", help="The same id twice is one signal (default: a new one).")
    ] = None,
    output: OutputOption = Output.text,
) -> None:
    """Publish a signal: triggers and steps that wait for it go on."""
    values = {}
    for item in params or []:
        key, separator, text = item.partition("=")
        if not separator or not key:
            raise UsageError(f"{item!r} is not name=value")
        values[key] = _typed(text)
    with open_client() as client:
        chosen, new = client.triggers.signal(name, values, signal_id=signal_id)
    if output is Output.json:
        print_json({"id": chosen, "created": new})
    else:
        note(f"signal {name} is published as {chosen}" if new else f"signal {chosen} had been published before")


def _typed(text: str) -> object:
    """A number, true, false or a JSON list where it is written as one; else the text."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, int | float | list) else text


def signals(
    name: Annotated[str | None, typer.Argument(help="Only those of this name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 20,
    output: OutputOption = Output.text,
) -> None:
    """List signals, newest first."""
    with open_client() as client:
        found = client.triggers.signals(name, limit)
    if output is Output.json:
        print_json([asdict(one) for one in found])
        return
    table = Table("signal", "parameters", "published", "by", "id", box=None, pad_edge=False)
    for one in found:
        told = " ".join(f"{key}={value}" for key, value in one.params.items())
        table.add_row(one.name, told, ago(one.published_at), one.publisher, one.id)
    console.print(table) if found else note("no signals: icefloe signal NAME")


def watermark(
    table: Annotated[str | None, typer.Argument(help="The table; without it all watermarks are listed.")] = None,
    valid_through: Annotated[str | None, typer.Argument(help="2026-03-01, 2026-03-01T06:00:00Z or 20260301.")] = None,
    back: Annotated[bool, typer.Option("--back", help="Let it go back as well.")] = False,
    output: OutputOption = Output.text,
) -> None:
    """Say how far a table is complete, or list what has been said."""
    with open_client() as client:
        if table is None or valid_through is None:
            found = client.triggers.watermarks(table)
        else:
            held, moved = client.triggers.set_watermark(table, valid_through, back=back)
            found = [held]
            if not moved:
                note("it was as far already; --back lets it go back")
    if output is Output.json:
        print_json([asdict(one) for one in found])
        return
    listing = Table("table", "complete up to (UTC)", "said", "by", box=None, pad_edge=False)
    for one in found:
        listing.add_row(one.source, clock(one.valid_through), ago(one.set_at), one.publisher)
    console.print(listing) if found else note("no watermarks: icefloe watermark TABLE MOMENT")


def incidents(
    workflow: Annotated[str | None, typer.Argument(help="Only this workflow's.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 20,
    output: OutputOption = Output.text,
) -> None:
    """List what is or was wrong with workflows, newest first."""
    with open_client() as client:
        found = client.triggers.incidents(workflow, limit)
    if output is Output.json:
        print_json([asdict(one) for one in found])
        return
    table = Table("workflow", "incident", "since", "over", "message", box=None, pad_edge=False)
    for one in found:
        table.add_row(one.workflow_id, one.kind, ago(one.opened_at), ago(one.closed_at), Text(one.message))
    console.print(table) if found else note("no incidents")


def activate(workflow: WorkflowArgument) -> None:
    """Let a deactivated workflow be started again; its triggers begin anew from now."""
    with open_client() as client:
        client.workflows.set_active(workflow, True)
    note(f"{workflow} may be started again")


def deactivate(workflow: WorkflowArgument) -> None:
    """Let nothing start a workflow, neither triggers nor people. Runs that exist go on."""
    with open_client() as client:
        client.workflows.set_active(workflow, False)
    note(f"{workflow} is started by nothing until: icefloe activate {workflow}")
