"""``push``, ``diff``, ``workflows``, ``unblock``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from icefloe.cli.clients import open_client
from icefloe.cli.moments import ago, clock
from icefloe.cli.output import Output, OutputOption, console, note, print_json


def register(app: typer.Typer) -> None:
    app.command()(push)
    app.command()(diff)
    app.command()(workflows)
    app.command()(unblock)


def push(
    files: Annotated[list[Path], typer.Argument(help="Workflow definitions: YAML, or a Python file with the builder.")],
    output: OutputOption = Output.text,
) -> None:
    """Store definitions as new versions. An unchanged one makes no new version."""
    with open_client() as client:
        pushed = client.push(files)
    if output is Output.json:
        print_json([item.to_dict() for item in pushed])
        return
    for item in pushed:
        for warning in item.warnings:
            note(f"warning: {warning}")
        state = f"version {item.version}" if item.created else f"unchanged, version {item.version}"
        console.print(f"{item.workflow_id}: {state}")
        note(f"  run it: icefloe run {item.workflow_id} --wait")


def diff(
    file: Annotated[Path, typer.Argument(help="A workflow definition: YAML, or a Python file with the builder.")],
    output: OutputOption = Output.text,
) -> None:
    """Show what pushing a definition would change."""
    with open_client() as client:
        found = client.diff(file)
    if output is Output.json:
        print_json(
            [
                {"workflow": name, "pushed": item is not None, **(item.to_dict() if item else {})}
                for name, item in found.items()
            ]
        )
        return
    for name, item in found.items():
        if item is None:
            note(f"{name} has not been pushed yet: icefloe push {file}")
        elif item:
            console.print(Text(item.text))
        else:
            note(f"{name} is as it was pushed")


def workflows(output: OutputOption = Output.text) -> None:
    """List the pushed workflows."""
    with open_client() as client:
        found = client.workflows.listing()
        fires = client.next_fires()
    if output is Output.json:
        print_json([{**item.to_dict(), "next_fire": fires.get(item.id)} for item in found])
        return
    if not found:
        note("no workflow has been pushed yet: icefloe push FILE")
        return
    table = Table(
        "workflow",
        "version",
        "owner",
        "steps",
        "starts by",
        "next (UTC)",
        "last run",
        "status",
        box=None,
        pad_edge=False,
    )
    for item in found:
        state = "" if item.active else " (deactivated)"
        state = " (paused)" if item.paused and not state else state
        starts = (", ".join(item.triggers) or "hand") + state
        table.add_row(
            item.id, f"{item.version} ({ago(item.pushed_at)})", item.owner or "", str(item.steps), starts,
            clock(fires.get(item.id)),
            item.last_run or "", item.last_status or "",
        )  # fmt: skip
    console.print(table)


def unblock(workflow: Annotated[str, typer.Argument(help="A STRICT_SEQUENTIAL workflow.")]) -> None:
    """Let a STRICT_SEQUENTIAL workflow go on although its last run ended badly."""
    with open_client() as client:
        client.runs.unblock(workflow)
    note(f"{workflow} goes on with its next run")
