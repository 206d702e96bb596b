"""``icefloe demo``: see it work on tables of its own, in a folder of its own."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from icefloe.cli.output import Output, OutputOption, console, note, notes, print_json
from icefloe.errors import UsageError

if TYPE_CHECKING:
    from icefloe.demo.results import DemoResult
    from icefloe.demo.story import Say, Tick

_PROGRESS, _BAR = 40, 24


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Keep the demo's project here, to go on with (default: a temporary folder).")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=30, help="How many days to load and measure.")] = 2,
    history: Annotated[int, typer.Option(min=2, max=60, help="Days that are there at the beginning.")] = 13,
    events_per_day: Annotated[int, typer.Option(min=100, help="Events in each day's load.")] = 400_000,
    growth: Annotated[
        float,
        typer.Option(
            min=1, max=20, help="Measure one more day, so many times as large, in tables of its own; 1: do not."
        ),
    ] = 2.0,
    warm_up: Annotated[int, typer.Option(min=0, max=50, help="Small loads by both ways before anything counts.")] = 3,
    seed: Annotated[int | None, typer.Option(min=0, help="Make the same events again (default: random).")] = None,
    picture: Annotated[Path | None, typer.Option(help="Also draw the result into this SVG file.")] = None,
    feed: Annotated[
        bool, typer.Option("--feed", help="Instead: append new events to the project that --folder has kept.")
    ] = False,
    batches: Annotated[
        int | None, typer.Option(min=1, help="With --feed: end after so many (default: at Ctrl-C).")
    ] = None,
    every: Annotated[
        float | None, typer.Option(min=0, help="With --feed: seconds between batches (default: 5).")
    ] = None,
    output: OutputOption = Output.text,
) -> None:
    """Run a pipeline with late events both ways, with a lookback window and incrementally, and compare."""
    if feed:
        _feed(folder, batches, 5.0 if every is None else every)
        return
    if batches is not None or every is not None:
        raise UsageError("--batches and --every are for --feed", hint="icefloe demo --folder DIR --feed")
    if picture is not None and not picture.parent.is_dir():
        raise UsageError("there is no such folder", where=str(picture.parent), hint="make it, or draw elsewhere")
    sizes = (events_per_day, *((round(events_per_day * growth),) if growth > 1 else ()))
    chosen = random.randrange(1, 10_000) if seed is None else seed
    with _project_folder(folder) as place:
        result = _run(place, sizes, history, days, warm_up, chosen)
        if folder is not None:
            from icefloe.demo.live import DemoState

            DemoState(events_per_day, history + days, chosen).save(place)
    if output is Output.json:
        print_json(result.to_dict())
    else:
        console.print(shown(result))
    if picture is not None:
        from icefloe.demo.picture import to_svg

        picture.write_text(to_svg(result), encoding="utf-8")
        note(f"The picture is in {picture}.")
    note(_next_steps(folder))
    if not result.equal:
        raise typer.Exit(1)


@contextmanager
def _project_folder(folder: Path | None) -> Iterator[Path]:
    """A place for the project. After an error a named folder stays, to look into; after Ctrl-C it is as it was before."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="icefloe-demo-") as temporary:
            yield Path(temporary)
        return
    if folder.exists() and any(folder.iterdir()):
        from icefloe.demo.live import FILE

        go_on = f"to go on with the demo there: cd {folder} && icefloe serve; or " if (folder / FILE).exists() else ""
        raise UsageError("is not empty", where=str(folder), hint=f"{go_on}name a new folder, or leave --folder out")
    existed = folder.exists()
    try:
        yield folder
    except KeyboardInterrupt:
        for path in folder.iterdir() if folder.exists() else ():
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        if folder.exists() and not existed:
            folder.rmdir()
        raise


def _run(folder: Path, sizes: tuple[int, ...], history: int, days: int, warm_up: int, seed: int) -> DemoResult:
    from icefloe.demo.story import Story
    from icefloe.service import project

    with _progress() as (say, tick, total):
        story = Story(
            project.init(folder),
            sizes=sizes,
            history=history,
            days=days,
            warm_up=warm_up,
            seed=seed,
            say=say,
            tick=tick,
        )
        total(story.total)
        return story.run()


@contextmanager
def _progress() -> Iterator[tuple[Say, Tick, Tick]]:
    """How to say something, how much is done, and how much there is: a bar on a terminal, lines alone elsewhere."""
    if not notes.is_terminal:
        yield note, lambda done: None, lambda whole: None
        return
    columns = (SpinnerColumn(), BarColumn(_PROGRESS), TextColumn("{task.percentage:3.0f} %"), TimeElapsedColumn())
    with Progress(*columns, console=notes, transient=True) as progress:
        task = progress.add_task("demo", total=None)
        yield (
            lambda text: progress.console.print(Text(text)),
            lambda done: progress.update(task, completed=done),
            lambda whole: progress.update(task, total=whole),
        )


def _feed(folder: Path | None, batches: int | None, every: float) -> None:
    from icefloe.demo.live import feed

    if folder is None:
        raise UsageError("--feed needs the project", hint="icefloe demo --folder DIR --feed")
    try:
        for batch in feed(folder, batches=batches, every=every):
            note(f"batch {batch.number}: {batch.events:,} events appended, {batch.late:,} of them late")
    except KeyboardInterrupt:
        note("ended")


def _next_steps(folder: Path | None) -> str:
    if folder is None:
        return (
            "\nNext: icefloe demo --folder DIR keeps the project, to watch it live with icefloe serve;\n"
            "      docs/tutorial/first-incremental-workflow.md builds a workflow of your own in a quarter of an hour."
        )
    return f"""
The project is in {folder}. Watch it live:
  cd {folder}
  icefloe serve                     # in one terminal: both stages run when their source changes
  icefloe demo --folder . --feed    # in another: PyIceberg appends new events every 5 s, a tenth of them late
  icefloe runs                      # what has run; also: icefloe consumers, icefloe savings"""


def shown(result: DemoResult) -> RenderableType:
    """One table, what it means, the proof, and how it was counted."""
    return Group(Text(), _table(result), Text(), meaning(result), *_proofs(result), Text(), *_how(result))


def _table(result: DemoResult) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("one day's load, both stages")
    table.add_column("")
    for heading in ("seconds", "rows read"):
        table.add_column(heading, justify="right")
    longest = max(size.mean(way).seconds for size in result.sizes for way in ("lookback", "incremental"))
    for size in result.sizes:
        lookback, incremental = size.mean("lookback"), size.mean("incremental")
        table.add_row(f"{size.events_per_day:,} events a day", style="bold")
        for name, cost, style in (
            ("  lookback of 14 days", lookback, "red"),
            ("  incremental", incremental, "green"),
        ):
            bar = _bar(cost.seconds / longest, style)
            table.add_row(name, bar, f"{cost.seconds:.1f}", f"{cost.rows:,}")
        table.add_row("    of it by the step itself", "", "", f"{incremental.searched_rows:,}", style="dim")
        ratios = (size.ratio("seconds"), size.ratio("rows"))
        table.add_row("  ratio", "", *(f"{ratio:.2f}" for ratio in ratios), style="bold")
    return table


def _bar(share: float, style: str) -> Text:
    eighths = max(1, round(share * _BAR * 8))
    return Text("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip(), style=style)


def meaning(result: DemoResult) -> Text:
    """One sentence: what happens to the bill."""
    first, last = result.sizes[0], result.sizes[-1]
    share = f"Incrementally a day's load costs {first.ratio('seconds'):.0%} of the lookback's run time"
    if last is first:
        return Text(f"{share}.")
    times = last.events_per_day / first.events_per_day
    return Text(
        f"{share}; with {times:g} times the events {last.ratio('seconds'):.0%}: "
        f"the lookback's bill grows {result.growth('lookback'):.1f} times, the incremental one's {result.growth('incremental'):.1f} times."
    )


def _proofs(result: DemoResult) -> Iterator[Text]:
    proofs = [proof for size in result.sizes for proof in size.proofs]
    for proof in proofs:
        if not proof.equal:
            differing = f"✗ {proof.table}: NOT EQUAL, {proof.lookback} against {proof.incremental}"
            yield Text(differing, style="bold red")
    if result.equal:
        rows = sum(proof.incremental[0] for proof in proofs)
        yield Text(
            f"✓ Both ways hold the same {rows:,} rows in {len(proofs)} tables: counts and hashes of all columns agree.",
            style="green",
        )


def _how(result: DemoResult) -> Iterator[Text]:
    size = result.sizes[0]
    for line in (
        "Seconds are those of the runs, from start to end, on one Spark server that both ways have warmed up alike.",
        "Rows read: by Spark's tasks, as Spark counts them, and by the step itself to find changed keys.",
        f"An event takes {size.bytes_per_event:.0f} bytes on disk. The demo took {result.seconds / 60:.1f} min; --seed {result.seed} makes the same events.",
    ):
        yield Text(line, style="dim")
