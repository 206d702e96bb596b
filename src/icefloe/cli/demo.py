"""``icefloe demo``: see it work on tables of its own, in a folder of its own."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from icefloe.cli.output import Output, OutputOption, byte_text, console, note, print_json
from icefloe.errors import UsageError

if TYPE_CHECKING:
    from icefloe.demo.story import Cost, Finding

_BAR = 40


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Keep the demo's project here (default: a temporary folder).")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=30, help="How many days to load and measure.")] = 3,
    history: Annotated[int, typer.Option(min=2, max=60, help="Days that are there at the beginning.")] = 14,
    events_per_day: Annotated[int, typer.Option(min=100, help="Events in each day's load.")] = 200_000,
    picture: Annotated[Path | None, typer.Option(help="Also draw the result into this SVG file.")] = None,
    output: OutputOption = Output.text,
) -> None:
    """Run a pipeline with late events both ways, with a lookback window and incrementally, and compare."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="icefloe-demo-") as temporary:
            found = _demo(Path(temporary), history, days, events_per_day)
    else:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError("is not empty", where=str(folder), hint="name a new folder, or leave --folder out")
        found = _demo(folder, history, days, events_per_day)
    if output is Output.json:
        print_json(_as_json(found))
    else:
        console.print(shown(found))
    if picture is not None:
        drawing = Console(record=True, width=100, file=io.StringIO(), highlight=False)
        drawing.print(shown(found))
        drawing.save_svg(str(picture), title="icefloe demo")
    if folder is not None:
        note(f"the project is in {folder}; look around with: cd {folder} && icefloe consumers")
    if not found.equal:
        raise typer.Exit(1)


def _demo(folder: Path, history: int, days: int, events_per_day: int) -> Finding:
    from icefloe import config
    from icefloe.demo import spark_reads
    from icefloe.demo.story import Story
    from icefloe.service import project
    from icefloe.service.client import Client
    from icefloe.spark import server
    from icefloe.spark.session import session

    port = spark_reads.free_port()
    file = project.init(folder)
    settings = [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in spark_reads.settings(port).items()]
    file.write_text(
        file.read_text(encoding="utf-8") + "\n[spark.conf]\n" + "\n".join(settings) + "\n", encoding="utf-8"
    )
    loaded = config.load(file, env={})
    try:
        with session(loaded, note=note) as spark, Client(loaded) as client:
            story = Story(
                spark,
                client,
                spark_reads.SparkReads(port),
                history=history,
                days=days,
                events_per_day=events_per_day,
                note=note,
            )
            return story.tell()
    finally:
        server.stop(loaded)


def shown(found: Finding) -> RenderableType:
    """The table, the chart and the proof."""
    lookback, incremental = found.total("lookback"), found.total("incremental")
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column(f"{len(found.rounds)} day{'s' if len(found.rounds) > 1 else ''}, both stages")
    for heading in ("rows read", "bytes read", "seconds"):
        table.add_column(heading, justify="right")
    for name, cost in (("lookback of 14 days", lookback), ("incremental", incremental)):
        table.add_row(name, f"{cost.rows:,}", byte_text(cost.bytes), f"{cost.seconds:.1f}")
    ratios = (_ratio(getattr(incremental, name), getattr(lookback, name)) for name in ("rows", "bytes", "seconds"))
    table.add_row("ratio", *ratios, style="bold")
    return Group(table, Text(), _chart(found), Text(), *_proofs(found))


def _chart(found: Finding) -> RenderableType:
    """Seconds of every day, as bars of one scale."""
    longest = max(max(one.lookback.seconds, one.incremental.seconds) for one in found.rounds)
    chart = Table.grid(padding=(0, 2, 0, 0))
    for one in found.rounds:
        for name, cost, style in (("lookback", one.lookback, "red"), ("incremental", one.incremental, "green")):
            day = str(one.day) if name == "lookback" else f"{one.late_rows:,} late"
            chart.add_row(Text(day, style="dim"), name, _bar(cost, longest, style))
    return chart


def _bar(cost: Cost, longest: float, style: str) -> Text:
    eighths = max(1, round(cost.seconds / longest * _BAR * 8))
    bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
    return Text(bar, style=style).append(f" {cost.seconds:.1f} s", style="default")


def _proofs(found: Finding) -> Iterable[Text]:
    for proof in found.proofs:
        if proof.equal:
            said = f"✓ {proof.table}: both ways hold the same {proof.lookback[0]:,} rows (count and hashes of all columns agree)"
            yield Text(said, style="green")
        else:
            yield Text(f"✗ {proof.table}: NOT EQUAL, {proof.lookback} against {proof.incremental}", style="bold red")


def _ratio(part: float, whole: float) -> str:
    return f"{part / whole:.3f}" if whole else ""


def _as_json(found: Finding) -> dict[str, object]:
    def cost(one: Cost) -> dict[str, object]:
        return {"rows": one.rows, "bytes": one.bytes, "seconds": round(one.seconds, 3)}

    lookback, incremental = found.total("lookback"), found.total("incremental")
    return {
        "lookback": cost(lookback),
        "incremental": cost(incremental),
        "ratio": {
            name: round(getattr(incremental, name) / getattr(lookback, name), 4)
            for name in ("rows", "bytes", "seconds")
            if getattr(lookback, name)
        },
        "days": [
            {
                "day": str(one.day),
                "late_rows": one.late_rows,
                "lookback": cost(one.lookback),
                "incremental": cost(one.incremental),
            }
            for one in found.rounds
        ],
        "equal": found.equal,
    }
