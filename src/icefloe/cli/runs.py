"""``run``, ``runs``, ``show``, ``logs``, ``restart``, ``stop``, ``kill``, ``pause``, ``resume``, ``skip``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from icefloe.cli.clients import is_remote, open_client
from icefloe.cli.moments import ago, clock, span
from icefloe.cli.output import Output, OutputOption, console, note, print_json
from icefloe.cli.progress import Progress
from icefloe.errors import UsageError
from icefloe.service.client import Client
from icefloe.service.views import RunView, StepView
from icefloe.workflow.default_params import DEFAULTS

if TYPE_CHECKING:
    from icefloe.service.dry_run import WouldCapture

_EVERY_RUN_HAS = frozenset(param.name for param in DEFAULTS)
EXIT_CODES = {"SUCCEEDED": 0, "FAILED": 1, "TIMED_OUT": 1, "STOPPED": 4}

RunArgument = Annotated[str, typer.Argument(help="The run, as `icefloe runs` prints it.")]
RunOrWorkflow = Annotated[str, typer.Argument(help="A run, or a workflow.")]
ParamsArgument = Annotated[list[str] | None, typer.Argument(help="Parameters of the run: name=value.")]
WaitOption = Annotated[bool, typer.Option("--wait", "-w", help="Wait for the end; without a worker, execute it here.")]


def register(app: typer.Typer) -> None:
    for command in (run, runs, show, logs, restart, stop, kill, pause, resume, skip):
        app.command()(command)


def run(
    workflow: Annotated[str, typer.Argument(help="The workflow's id; with --dry-run or --env a definition's file.")],
    params: ParamsArgument = None,
    wait: WaitOption = False,
    version: Annotated[int | None, typer.Option(help="A version other than the latest.")] = None,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Show what a file's workflow would capture and run; do nothing.")
    ] = False,
    env: Annotated[
        str | None,
        typer.Option("--env", help="Run a file's workflow beside production: own consumers, targets on this branch."),
    ] = None,
    output: OutputOption = Output.text,
) -> None:
    """Start a run. Exit code with --wait: 0 it succeeded, 1 it failed, 4 it was stopped."""
    file = Path(workflow)
    if is_remote() and (dry or env is not None):
        raise UsageError(
            "a file is rehearsed with the project of this folder, not on a server elsewhere",
            hint="leave out --server, or push the file and run its workflow",
        )
    if dry:
        _rehearse(file, params, output)
        return
    with open_client() as client:
        if env is not None:
            workflow = _push_for(client, file, env)
        elif file.suffix in (".yaml", ".yml", ".py") and file.is_file():
            raise UsageError(
                f"{workflow} is a file",
                hint=f"icefloe push {workflow}, then run its workflow; or add --dry-run, or --env dev",
            )
        started = client.runs.start(workflow, texts=_texts(params), version=version)
        if output is Output.text:
            console.print(started.run_id)
            if started.url is not None:
                note(f"  {started.url}")
        if not wait:
            if output is Output.json:
                print_json(started.to_dict())
            elif not started.worker_alive:
                note(
                    "no worker is alive: the run waits. Start one with: icefloe worker, or execute it here: icefloe run … --wait"
                )
            return
        view = _wait(client, started.run_id, output)
        if output is Output.json:
            print_json({**started.to_dict(), "status": view.status})
    raise typer.Exit(EXIT_CODES[view.status])


def _push_for(client: Client, file: Path, env: str) -> str:
    from icefloe.service.environments import push_for

    pushed = push_for(client, file, env)
    note(f"{pushed.workflow_id}: consumers of its own; Spark steps publish to the branch {env} of their targets")
    note(f"  look with: SELECT * FROM table.branch_{env}")
    return pushed.workflow_id


def _rehearse(file: Path, params: list[str] | None, output: Output) -> None:
    from icefloe.service.dry_run import dry_run

    with open_client() as client:
        found = dry_run(client, file, _texts(params))
    if output is Output.json:
        print_json([one.to_dict() for one in found])
        return
    for one in found:
        console.print(Text(f"{one.workflow_id}: what a run would do now", style="bold"))
        for take in one.captures:
            _tell_capture(take)
        for step in one.steps:
            console.print(Text(f"{step.step} ({step.type})", style="cyan"))
            console.print(Text("  " + step.text.strip().replace("\n", "\n  ")))
    note("nothing was moved and nothing was written")


def _tell_capture(take: WouldCapture) -> None:
    console.print(Text(f"{take.step} captures for {take.consumer}", style="cyan"))
    if take.problem:
        console.print(Text(f"  would fail: [{take.problem['code']}] {take.problem['message']}", style="red"))
        if take.problem["hint"]:
            console.print(Text(f"  → {take.problem['hint']}", style="cyan"))
        return
    if take.adopts:
        console.print(Text(f"  takes over the open capture {take.adopts} as it is"))
    for source in take.sources:
        start, end = source["from_snapshot"] or "the beginning", source["to_snapshot"] or "no snapshot yet"
        console.print(
            Text(f"  {source['table']}: {start} -> {end}, {source['rows']:,} rows in {source['files']:,} files")
        )
    if not take.has_changes:
        console.print(Text("  nothing changed: the steps behind it would be skipped", style="yellow"))


def _wait(client: Client, run_id: str, output: Output) -> RunView:
    """Until the end: in place when nobody else works here, else only watching."""
    in_place = client.works_in_place()
    if not in_place and not client.worker_alive():
        note("no worker is alive: waiting for one (icefloe worker)")

    def last_line(step: StepView) -> str:
        return client.runs.log_tail(run_id, step.id, step.attempts, lines=1).strip()

    with Progress(quiet=output is Output.json, last_line=last_line) as progress:
        try:
            act = client.work if in_place else client.wait
            view = act(run_id, on_change=progress.update)
        except KeyboardInterrupt:
            view = client.runs.show(run_id)
            if not in_place:
                note(f"detached; the run goes on: icefloe show {run_id}")
                raise typer.Exit(130) from None
    if output is Output.text:
        _tell_end(client, view)
    return view


def runs(
    workflow: Annotated[str | None, typer.Argument(help="Only this workflow's.")] = None,
    status: Annotated[str | None, typer.Option(help="Only those with this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 20,
    before: Annotated[str | None, typer.Option(help="Go on from this run (older ones).")] = None,
    output: OutputOption = Output.text,
) -> None:
    """List runs, newest first."""
    with open_client() as client:
        found = client.runs.listing(workflow, status.upper() if status else None, limit, before)
    if output is Output.json:
        print_json([item.to_dict() for item in found])
        return
    if not found:
        note("no runs")
        return
    table = Table("run", "workflow", "status", "created", "took", box=None, pad_edge=False)
    for item in found:
        table.add_row(item.run_id, item.workflow_id, _coloured(item.status), ago(item.created_at), _took(item))
    console.print(table)
    if len(found) == limit:
        note(f"older ones: icefloe runs --before {found[-1].run_id}")


def show(
    run: RunArgument,
    output: OutputOption = Output.text,
    events: Annotated[bool, typer.Option("--events", help="Every transition, with time and cause.")] = False,
) -> None:
    """Show a run: its steps, why it failed, and what to type next."""
    with open_client() as client:
        view = client.runs.show(run)
        if output is Output.json:
            print_json(view.to_dict())
            return
        title = Text(f"{view.run_id}  ")
        title.append(_coloured(view.status + (f" ({view.request})" if view.request else "")))
        title.append(f"  version {view.version}, {ago(view.created_at)}, {_took(view)}")
        console.print(title)
        given = view.initiator.get("given", {})
        params = {name: value for name, value in view.params.items() if name in given or name not in _EVERY_RUN_HAS}
        if params:
            console.print(Text("  ".join(f"{name}={value}" for name, value in sorted(params.items()))))
        console.print(steps_table(view.steps))
        for warning in view.warnings:
            console.print(Text(f"warning: {warning}", style="yellow"))
        if events:
            for event in view.events:
                place = f"{event.step or 'run'}" + (f" #{event.attempt}" if event.attempt else "")
                console.print(
                    Text(
                        f"{clock(event.at)}  {place:24} {event.previous or '':14} -> {event.status:14} {event.cause or ''}"
                    )
                )
        _tell_end(client, view)


def steps_table(steps: Iterable[StepView], doing: Callable[[StepView], str] = lambda step: "") -> Table:
    table = Table("step", "type", "status", "attempts", "took", "", box=None, pad_edge=False)
    for step in steps:
        table.add_row(
            step.id,
            step.type,
            _coloured(step.status),
            str(step.attempts or ""),
            _step_took(step),
            Text(remark(step) or (doing(step) if step.status == "RUNNING" else "")),
        )
    return table


def remark(step: StepView) -> str:
    if step.retry_in is not None:
        return f"tries again in {span(step.retry_in)}: {(step.cause or {}).get('message', '')}"
    if step.iterations:
        loop = step.iterations
        return f"{loop['succeeded']} of {loop['total']} done" + (f", {loop['failed']} failed" if loop["failed"] else "")
    if step.child_run:
        return step.child_run
    if step.note:
        return f"waits: {step.note}"
    return str((step.cause or {}).get("message") or step.outputs.get("savings", ""))


def _tell_end(client: Client, view: RunView) -> None:
    """Why it failed, the end of the log, and the command to type next."""
    if not view.ended:
        return
    if view.status == "SUCCEEDED":
        note(f"{view.run_id} succeeded in {_took(view)}")
        return
    note(f"{view.run_id} {view.status}: {(view.cause or {}).get('message', '')}")
    failed = next((step for step in view.steps if step.status.endswith("FAILED") or step.status == "TIMED_OUT"), None)
    if failed is not None:
        if failed.cause and failed.cause.get("hint"):
            note(f"  → {failed.cause['hint']}")
        tail = client.runs.log_tail(view.run_id, failed.id, failed.attempts)
        if tail:
            note(f"last lines of step {failed.id}:")
            for line in tail.splitlines():
                note(f"  | {line}")
            note(f"whole log: icefloe logs {view.run_id} {failed.id}")
        if failed.child_run:
            note(f"its run: icefloe show {failed.child_run}")
    note(f"do the rest again: icefloe restart {view.run_id} --wait")


def logs(
    run: RunArgument,
    step: Annotated[str | None, typer.Argument(help="Only this step's.")] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="Only this attempt's (default: the last).")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on printing until the run has ended.")] = False,
) -> None:
    """Print the log of a run's steps."""
    with open_client() as client:
        places: dict[tuple[str, int], tuple[int, int]] = {}
        last: tuple[str, int] | None = None
        while True:
            ended = client.runs.show(run, events=False).ended
            found = client.runs.log_attempts(run, step)
            for key in found:
                newest = max(number for name, number in found if name == key[0])
                if key[1] != (attempt or newest) and not (follow and key in places):
                    continue
                number, offset = places.get(key, (0, 0))
                part = client.runs.log(run, key[0], key[1], number, offset)
                places[key] = (part.next_number, part.next_offset)
                if part.content:
                    if last != key and step is None:
                        note(f"--- {key[0]}, attempt {key[1]} ---")
                    last = key
                    sys.stdout.buffer.write(part.content)
                    sys.stdout.buffer.flush()
            if not follow or ended:
                return
            time.sleep(0.3)


def restart(
    run: RunArgument,
    params: ParamsArgument = None,
    from_step: Annotated[str | None, typer.Option("--from", help="This step and everything after it.")] = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Everything.")] = False,
    version: Annotated[str | None, typer.Option(help="`latest` after a fix, or a number.")] = None,
    wait: WaitOption = False,
    output: OutputOption = Output.text,
) -> None:
    """Restart a run that has ended: what is incomplete, or more."""
    with open_client() as client:
        view = client.runs.restart(
            run, step=from_step, from_beginning=from_beginning, texts=_texts(params), version=version
        )
        if wait:
            view = _wait(client, run, output)
        if output is Output.json:
            print_json(view.to_dict())
        elif not wait:
            note(f"{run} is {view.status}: icefloe show {run}")
    if wait:
        raise typer.Exit(EXIT_CODES[view.status])


def stop(run: RunArgument, output: OutputOption = Output.text) -> None:
    """End a run gently: what runs is told to end. It ends as STOPPED and can be restarted."""
    _do(lambda client: client.runs.stop(run), output)


def kill(run: RunArgument, output: OutputOption = Output.text) -> None:
    """End a run at once, as FAILED."""
    _do(lambda client: client.runs.kill(run), output)


def pause(run: RunOrWorkflow, output: OutputOption = Output.text) -> None:
    """Start nothing new in a run; what runs goes on. With a workflow's id: its triggers start no more runs."""
    _pause(run, True, output)


def resume(run: RunOrWorkflow, output: OutputOption = Output.text) -> None:
    """Let a paused run, or a paused workflow's triggers, go on."""
    _pause(run, False, output)


def _pause(name: str, paused: bool, output: Output) -> None:
    with open_client() as client:
        if not client.workflows.exists(name):
            view = client.runs.pause(name) if paused else client.runs.resume(name)
            _tell(view, output)
            return
        client.workflows.set_paused(name, paused)
        if output is Output.json:
            print_json(client.workflows.show(name).to_dict())
        else:
            note(f"the triggers of {name} {'start no more runs' if paused else 'go on'}")


def skip(run: RunArgument, step: Annotated[str, typer.Argument()], output: OutputOption = Output.text) -> None:
    """Let a run go on as if this step had succeeded."""
    _do(lambda client: client.runs.skip(run, step), output)


def _do(verb: Callable[[Client], RunView], output: Output) -> None:
    with open_client() as client:
        _tell(verb(client), output)


def _tell(view: RunView, output: Output) -> None:
    if output is Output.json:
        print_json(view.to_dict())
    else:
        note(f"{view.run_id} is {view.request or view.status}: icefloe show {view.run_id}")


def _texts(params: list[str] | None) -> dict[str, str]:
    found = {}
    for item in params or []:
        name, separator, value = item.partition("=")
        if not separator or not name:
            raise UsageError(f"{item!r} is not name=value")
        found[name] = value
    return found


def _took(view: RunView) -> str:
    return _between(view.started_at, view.ended_at)


def _step_took(step: StepView) -> str:
    return _between(step.started_at, step.ended_at)


def _between(start: float | None, end: float | None) -> str:
    return "" if start is None else span(max(0.0, (end or time.time()) - start))


_COLOURS = {"SUCCEEDED": "green", "IN_PROGRESS": "cyan", "RUNNING": "cyan", "STARTING": "cyan", "PAUSED": "yellow"}


def _coloured(status: str) -> Text:
    bad = "FAILED" in status or status in ("TIMED_OUT", "COMPLETED_WITH_ERROR")
    return Text(status, style="red" if bad else _COLOURS.get(status, "yellow" if status == "STOPPED" else ""))
