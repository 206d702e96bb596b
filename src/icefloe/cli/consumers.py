"""``icefloe consumers`` and ``icefloe captures``: where every workflow stands in its sources, and moving that by hand.

What moves something shows first what it would do; ``--yes`` with a reason does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from icefloe.cli.clients import open_client
from icefloe.cli.moments import ago, clock, span
from icefloe.cli.output import Output, OutputOption, console, note, print_json
from icefloe.service.client import Client

if TYPE_CHECKING:  # PyIceberg takes a second to import
    from icefloe.service.consumer_positions import ConsumerPosition
    from icefloe.service.consumers import CaptureView
    from icefloe.service.interventions import Preview

ConsumerArgument = Annotated[str, typer.Argument(help="The consumer, as `icefloe consumers` prints it.")]
CaptureArgument = Annotated[str, typer.Argument(help="The capture, as `icefloe captures` prints it.")]
TableOption = Annotated[str | None, typer.Option("--table", help="Only this source (default: all of them).")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do it. Without it, only what would happen is shown.")]
WhyOption = Annotated[str, typer.Option("--why", help="The reason, for the record.")]
MostOption = Annotated[int, typer.Option("--most", min=1, help="How many, the newest first.")]


def register(app: typer.Typer) -> None:
    consumers = typer.Typer(help="How far workflows have read their sources; rewind, fast-forward, rename, remove.")
    consumers.callback(invoke_without_command=True)(list_consumers)
    consumers.command("show")(show_consumer)
    consumers.command()(rewind)
    consumers.command("fast-forward")(fast_forward)
    consumers.command()(rename)
    consumers.command()(remove)
    consumers.command()(audit)
    app.add_typer(consumers, name="consumers")
    captures = typer.Typer(help="The micro-batches that were taken, and what became of them; abandon.")
    captures.callback(invoke_without_command=True)(list_captures)
    captures.command("show")(show_capture)
    captures.command()(abandon)
    app.add_typer(captures, name="captures")


# -- looking ---------------------------------------------------------------------------------------------------------------


def list_consumers(context: typer.Context, output: OutputOption = Output.text) -> None:
    """List the consumers: how far each has read its sources, and how much it has not seen yet."""
    if context.invoked_subcommand is not None:
        return
    with open_client() as client:
        found = client.consumers.listing()
    if output is Output.json:
        print_json([one.to_dict() for one in found])
    elif not found:
        note("no checkpoints yet: one is made by the first IpCommit that succeeds")
    else:
        console.print(_standings(found, with_consumer=True))


def show_consumer(consumer: ConsumerArgument, output: OutputOption = Output.text) -> None:
    """One consumer: its sources and targets, its newest captures."""
    with open_client() as client:
        found = client.consumers.show(consumer)
    if output is Output.json:
        print_json(found.to_dict())
        return
    console.print(Text(f"{found.consumer}  of workflow {found.workflow_id}, version {found.version}"))
    console.print(_standings(found.sources, with_consumer=False))
    if found.targets:
        console.print(Text(f"published to: {', '.join(found.targets)}"))
    if found.captures:
        console.print(_captures(found.captures, with_consumer=False))


def list_captures(
    context: typer.Context,
    consumer: Annotated[str | None, typer.Option("--consumer", help="Only this consumer's.")] = None,
    most: MostOption = 20,
    output: OutputOption = Output.text,
) -> None:
    """List captures, the newest first."""
    if context.invoked_subcommand is not None:
        return
    with open_client() as client:
        found = client.consumers.captures(consumer, most)
    if output is Output.json:
        print_json([one.to_dict() for one in found])
    elif not found:
        note("no captures yet")
    else:
        console.print(_captures(found, with_consumer=True))


def show_capture(capture: CaptureArgument, output: OutputOption = Output.text) -> None:
    """One capture: the range of each source, its change tables, where its batch was published."""
    with open_client() as client:
        found = client.consumers.capture(capture)
    if output is Output.json:
        print_json(found.to_dict())
        return
    console.print(Text(f"{found.id}  {found.state}  of {found.consumer}, run {found.run_id}, {ago(found.created_at)}"))
    table = _table(("source", "from", "to", "change table"), ("rows", "files"))
    for source in found.sources:
        start, end = (source[name]["snapshot_id"] if source[name] else None for name in ("start", "end"))
        table.add_row(
            Text(source["table"]),
            str(start or "the beginning"),
            str(end or "no snapshot yet"),
            Text(source["change_table"] or "not made"),
            f"{source['found'].get('added_rows') or 0:,}",
            f"{source['found'].get('added_files') or 0:,}",
        )
    console.print(table)
    for one in found.published:
        console.print(Text(f"published to {one['target']} as snapshot {one['snapshot_id']} by step {one['step_path']}"))


def audit(
    consumer: Annotated[str | None, typer.Argument(help="Only what was done to this one.")] = None,
    most: MostOption = 50,
    output: OutputOption = Output.text,
) -> None:
    """Who moved what by hand, when and why."""
    with open_client() as client:
        found = client.consumers.audit(consumer, most)
    if output is Output.json:
        print_json([one.to_dict() for one in found])
        return
    if not found:
        note("nothing was done by hand yet")
        return
    table = _table(("when (UTC)", "who", "what", "consumer", "", "why"), ())
    for one in found:
        moves = [
            f"{move['table']}: {move['from_snapshot'] or 'the beginning'} -> {move['to_snapshot'] or 'the beginning'}"
            for move in one.details.get("moves", ())
        ]
        if one.details.get("renamed_to"):
            moves.append(f"-> {one.details['renamed_to']}")
        if one.details.get("abandons"):
            moves.append(f"gave up capture {one.details['abandons']}")
        table.add_row(
            clock(one.at),
            Text(one.who),
            one.verb,
            Text(one.subject),
            Text(", ".join(moves)),
            Text(str(one.details["why"])),
        )
    console.print(table)


# -- moving ----------------------------------------------------------------------------------------------------------------


def rewind(
    consumer: ConsumerArgument,
    to: Annotated[str, typer.Option("--to", help="earliest, a snapshot id, or a time (2026-03-01T00:00:00Z).")],
    table: TableOption = None,
    yes: YesOption = False,
    why: WhyOption = "",
    output: OutputOption = Output.text,
) -> None:
    """Move a checkpoint back: what lies between is captured again."""
    _act(lambda client: client.consumers.rewind(consumer, to, table=table, yes=yes, why=why), output)


def fast_forward(
    consumer: ConsumerArgument,
    to: Annotated[str, typer.Option("--to", help="latest, a snapshot id, or a time.")] = "latest",
    table: TableOption = None,
    yes: YesOption = False,
    why: WhyOption = "",
    output: OutputOption = Output.text,
) -> None:
    """Move a checkpoint on: what lies between is never captured."""
    _act(lambda client: client.consumers.fast_forward(consumer, to, table=table, yes=yes, why=why), output)


def rename(
    consumer: ConsumerArgument,
    new: Annotated[str, typer.Argument(help="The new name.")],
    yes: YesOption = False,
    why: WhyOption = "",
    output: OutputOption = Output.text,
) -> None:
    """Let a checkpoint go on under another name."""
    _act(lambda client: client.consumers.rename(consumer, new, yes=yes, why=why), output)


def remove(
    consumer: ConsumerArgument, yes: YesOption = False, why: WhyOption = "", output: OutputOption = Output.text
) -> None:
    """Forget how far a consumer has read."""
    _act(lambda client: client.consumers.remove(consumer, yes=yes, why=why), output)


def abandon(
    capture: CaptureArgument, yes: YesOption = False, why: WhyOption = "", output: OutputOption = Output.text
) -> None:
    """Give up an open capture: the checkpoint stays, the next run captures anew."""
    _act(lambda client: client.consumers.abandon(capture, yes=yes, why=why), output)


def _act(verb: Callable[[Client], Preview], output: Output) -> None:
    with open_client() as client:
        found = verb(client)
    if output is Output.json:
        print_json(found.to_dict())
        return
    head = f"{found.verb} {found.consumer}" + (f" -> {found.renamed_to}" if found.renamed_to else "")
    console.print(Text(head if found.done else f"would {head}", style="bold"))
    if found.moves:
        table = _table(("table", "from", "to"), ("snapshots between", "rows"))
        for move in found.moves:
            table.add_row(
                Text(move.table),
                str(move.from_snapshot or "the beginning"),
                str(move.to_snapshot or "the beginning"),
                "" if move.snapshots is None else f"{move.snapshots:,}",
                "" if move.rows is None else f"{move.rows:,}",
            )
        console.print(table)
    if found.abandons:
        console.print(Text(f"capture {found.abandons} {'is' if found.done else 'would be'} abandoned"))
    for warning in found.warnings:
        console.print(Text(f"! {warning}", style="yellow"))
    if found.done:
        note(f"done, and on record: icefloe consumers audit {found.consumer}")
    else:
        note('nothing was changed. To do it, add: --yes --why "…"')


# -- tables ----------------------------------------------------------------------------------------------------------------


def _standings(found: Iterable[ConsumerPosition], *, with_consumer: bool) -> Table:
    first = ("consumer",) if with_consumer else ()
    table = _table((*first, "table", "snapshot"), ("version", "unseen snapshots", "unseen rows", "oldest"))
    table.add_column("open capture")
    for one in found:
        known = one.lag_snapshots is not None
        cells: list[str | Text] = [Text(one.consumer)] if with_consumer else []
        table.add_row(
            *cells,
            Text(one.table),
            str(one.snapshot_id or "none yet"),
            str(one.version),
            f"{one.lag_snapshots:,}" if known else Text(one.problem or "unknown", style="yellow"),
            f"{one.lag_rows:,}" if known else "",
            span(one.lag_seconds) if one.lag_snapshots else "",
            one.open_capture or "",
        )
    return table


def _captures(found: Iterable[CaptureView], *, with_consumer: bool) -> Table:
    second = ("consumer",) if with_consumer else ()
    table = _table(("capture", *second, "state", "run"), ("rows",))
    table.add_column("taken")
    for one in found:
        cells: list[str | Text] = [Text(one.consumer)] if with_consumer else []
        table.add_row(one.id, *cells, one.state, Text(one.run_id), f"{one.rows:,}", ago(one.created_at))
    return table


def _table(left: Iterable[str], right: Iterable[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in left:
        table.add_column(heading)
    for heading in right:
        table.add_column(heading, justify="right")
    return table
