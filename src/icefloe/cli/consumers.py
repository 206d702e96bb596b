"""``icefloe consumers`` and ``icefloe captures``: where every workflow stands in its sources."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from icefloe.cli.moments import ago
from icefloe.cli.output import Output, OutputOption, console, note, print_json
from icefloe.lake import Lake
from icefloe.service.client import Client
from icefloe.service.consumers import Consumers


def register(app: typer.Typer) -> None:
    app.command()(consumers)
    app.command()(captures)


def consumers(output: OutputOption = Output.text) -> None:
    """List the consumers: how far each has read its sources, and how much it has not seen yet."""
    with Client() as client:
        found = Consumers(client.database, Lake.open(client.config)).listing()
    if output is Output.json:
        print_json([one.to_dict() for one in found])
        return
    if not found:
        note("no checkpoints yet: one is made by the first IpCommit that succeeds")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("consumer", "table", "snapshot"):
        table.add_column(heading)
    for heading in ("version", "unseen snapshots", "unseen rows", "oldest"):
        table.add_column(heading, justify="right")
    table.add_column("open capture")
    for one in found:
        known = one.lag_snapshots is not None
        table.add_row(
            Text(one.consumer),
            Text(one.table),
            str(one.snapshot_id),
            str(one.version),
            f"{one.lag_snapshots:,}" if known else Text(one.problem or "unknown", style="yellow"),
            f"{one.lag_rows:,}" if known else "",
            f"{one.lag_seconds:,.0f} s" if one.lag_snapshots else "",
            one.open_capture or "",
        )
    console.print(table)


def captures(
    consumer: Annotated[str | None, typer.Argument(help="Only this consumer's.")] = None,
    most: Annotated[int, typer.Option(min=1, help="How many, the newest first.")] = 20,
    output: OutputOption = Output.text,
) -> None:
    """List captures: the micro-batches that were taken, and what became of them."""
    with Client() as client:
        found = Consumers(client.database, Lake.open(client.config)).captures(consumer, most)
    if output is Output.json:
        print_json([{name: getattr(one, name) for name in one.__slots__} for one in found])
        return
    if not found:
        note("no captures yet")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("capture", "consumer", "state", "run"):
        table.add_column(heading)
    table.add_column("rows", justify="right")
    table.add_column("taken")
    for one in found:
        rows = sum(source["found"].get("added_rows") or 0 for source in one.sources)
        table.add_row(one.id, Text(one.consumer), one.state, Text(one.run_id), f"{rows:,}", ago(one.created_at))
    console.print(table)
