"""``icefloe demo``: see it work on a table of its own, in a folder of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from icefloe.cli.lake import show_changes
from icefloe.cli.output import Output, OutputOption, byte_text, console, note, print_json
from icefloe.errors import UsageError

if TYPE_CHECKING:
    from icefloe.demo.story import Finding, Reading


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Keep the demo's project here (default: a temporary folder).")
    ] = None,
    days: Annotated[int, typer.Option(min=2, max=60, help="How many days to load.")] = 8,
    events_per_day: Annotated[int, typer.Option(min=100, help="Events in each day's load.")] = 100_000,
    output: OutputOption = Output.text,
) -> None:
    """Make a table with late events, and show what its last load changed."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="icefloe-demo-") as temporary:
            _demo(Path(temporary), days, events_per_day, output)
        return
    if folder.exists() and any(folder.iterdir()):
        raise UsageError("is not empty", where=str(folder), hint="name a new folder, or leave --folder out")
    _demo(folder, days, events_per_day, output)
    note(f"the project is in {folder}; look around with: cd {folder} && icefloe changes demo.playback")


def _demo(folder: Path, days: int, events_per_day: int, output: Output) -> None:
    from icefloe import config
    from icefloe.demo import story
    from icefloe.service import project
    from icefloe.spark import server
    from icefloe.spark.session import session

    project.init(folder)
    loaded = config.load(folder / config.FILE_NAME, env={})
    try:
        with session(loaded, note=note) as spark:
            found = story.tell(spark, loaded, days=days, events_per_day=events_per_day, note=note)
    finally:
        server.stop(loaded)
    if output is Output.json:
        print_json(
            {
                "changes": found.changes.to_dict(change_table=found.change_table.name),
                "capture_seconds": found.capture_seconds,
                "lookback": _reading(found.lookback),
                "incremental": _reading(found.incremental),
                "equal": found.equal,
            }
        )
    else:
        _show(found)
    if not found.equal:
        raise typer.Exit(1)


def _show(found: Finding) -> None:
    console.rule("what the last load changed")
    show_changes(found.changes)
    console.print()
    console.print(
        Text(
            f"found in {found.capture_seconds * 1000:.0f} ms and made into the table {found.change_table.name}, "
            "while the data folder was away"
        )
    )
    console.rule("reading it, by Spark")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for heading in ("files", "rows", "bytes", "seconds"):
        table.add_column(heading, justify="right")
    for one in (found.lookback, found.incremental):
        table.add_row(one.name, f"{one.files:,}", f"{one.rows:,}", byte_text(one.bytes), f"{one.seconds:.2f}")
    share = found.incremental.bytes / found.lookback.bytes
    table.add_row("ratio", "", f"{found.incremental.rows / found.lookback.rows:.3f}", f"{share:.3f}", "", style="bold")
    console.print(table)
    verdict = (
        "the change table holds exactly the rows of the last load (count and hashes of all columns agree)"
        if found.equal
        else "NOT EQUAL: the change table does not hold the rows of the last load"
    )
    console.print(Text(verdict, style="green" if found.equal else "bold red"))


def _reading(one: Reading) -> dict[str, object]:
    return {"files": one.files, "rows": one.rows, "bytes": one.bytes, "seconds": round(one.seconds, 3)}
