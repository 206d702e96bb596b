"""``icefloe savings``: what planned writes have read, against what the lookback or recomputation they replace would have."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from icefloe.cli.clients import open_client
from icefloe.cli.moments import clock, span
from icefloe.cli.output import Output, OutputOption, byte_text, console, note, print_json
from icefloe.errors import UsageError
from icefloe.workflow import durations

if TYPE_CHECKING:
    from icefloe.service.savings import Savings, SavingsLine


def register(app: typer.Typer) -> None:
    app.command()(savings)


def savings(
    workflow: Annotated[str | None, typer.Argument(help="Only this workflow's.")] = None,
    since: Annotated[str | None, typer.Option(help="Only what was written within this time: 30d, 12h.")] = None,
    output: OutputOption = Output.text,
) -> None:
    """Show what planned writes have read, against what the lookback they replace would have read."""
    start = time.time() - _seconds(since) if since is not None else None
    with open_client() as client:
        found = client.savings(workflow, since=start)
    if output is Output.json:
        print_json(found.to_dict())
    elif not found.lines:
        note("nothing in the ledger yet: a Spark step with write: adds a line when it has succeeded")
    else:
        _show(found)
    if output is not Output.json and found.left_out_until is not None:
        note(f"batches up to {clock(found.left_out_until)[:10]} are kept as one sum, and are left out with --since")


def _show(found: Savings) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("workflow", "step", "target"):
        table.add_column(heading)
    for heading in ("runs", "files", "of", "rows", "of", "read", "of", "", "written", "took"):
        table.add_column(heading, justify="right")
    for line in found.lines:
        table.add_row(line.workflow_id, line.step, line.target, *_amounts(line))
    table.add_row("total", "", "", *_amounts(found.total), style="bold")
    console.print(table)
    for line in found.lines:
        console.print(Text(f"{line.step} is compared with {' and '.join(line.compared_with)}", style="dim"))
        for text in line.notes:
            console.print(Text(f"  {text}", style="dim"))
    if any("full" in how for line in found.lines for how in line.compared_with):
        note("write.lookback: 14d on a step names the lookback that it replaces, and is compared with from then on")


def _amounts(line: SavingsLine) -> tuple[str, ...]:
    from icefloe.planner.savings import percent

    read, instead = line.read, line.instead
    return (
        f"{line.runs:,}",
        f"{read.files:,}",
        f"{instead.files:,}",
        f"{read.rows:,}",
        f"{instead.rows:,}",
        byte_text(read.bytes),
        byte_text(instead.bytes),
        percent(line.ratio),
        byte_text(line.written.bytes),
        span(line.seconds),
    )


def _seconds(text: str) -> float:
    try:
        return durations.parse(text)
    except ValueError as error:
        raise UsageError(f"--since: {error}", hint="icefloe savings --since 30d") from None
