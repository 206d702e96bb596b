"""``validate``, ``graph``, ``convert``, ``schema``: definitions before anything is pushed."""

from __future__ import annotations

import os
import shutil
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from icefloe import config as configuration
from icefloe.cli.output import Output, OutputOption, console, note, notes, print_json
from icefloe.config import Config
from icefloe.service.definitions import LocalFiles, inspect_file, installed_types
from icefloe.service.refused_secrets import refused_secrets
from icefloe.workflow.drawing import to_mermaid, to_svg, to_terminal
from icefloe.workflow.loading import Inspected, Loaded
from icefloe.workflow.problems import DefinitionError, Problem, Severity
from icefloe.workflow.schema import json_schema
from icefloe.workflow.step_types import StepTypes
from icefloe.workflow.versions import pack
from icefloe.workflow.yaml_writer import to_yaml

FileArgument = Annotated[Path, typer.Argument(help="A YAML definition, or a Python file that builds one.")]


class GraphFormat(StrEnum):
    terminal = "terminal"
    mermaid = "mermaid"
    svg = "svg"


def register(app: typer.Typer) -> None:
    app.command("validate")(validate)
    app.command("graph")(graph)
    app.command("convert")(convert)
    app.command("schema")(schema)


def validate(
    files: Annotated[list[Path], typer.Argument(help="YAML definitions, or Python files that build them.")],
    output: OutputOption = Output.text,
) -> None:
    """Says everything that is wrong with definitions, and where."""
    types = installed_types()
    reports = [_report(file, types) for file in files]
    valid = all(report["valid"] for report in reports)
    if output is Output.json:
        print_json({"valid": valid, "files": [{k: v for k, v in report.items() if k != "found"} for report in reports]})
    else:
        for report in reports:
            for problem in report["found"]:
                _print_problem(problem)
            if report["valid"]:
                console.print(Text(f"{report['file']}: {', '.join(report['workflows'])} is valid"))
    if not valid:
        raise typer.Exit(2)


def _report(file: Path, types: StepTypes) -> dict[str, Any]:
    inspected = inspect_file(file, types)
    problems = [problem for each in inspected for problem in (*each.problems, *_refused(each, file, types))]
    errors = any(problem.severity is Severity.ERROR for problem in problems)
    workflows = [each.workflow for each in inspected if each.workflow is not None]
    return {
        "file": str(file),
        "valid": not errors and bool(workflows),
        "workflows": [workflow.id for workflow in workflows],
        "problems": [problem.to_dict() for problem in problems],
        "found": problems,
    }


def _refused(found: Inspected, file: Path, types: StepTypes) -> tuple[Problem, ...]:
    if found.workflow is None:
        return ()
    try:
        packed = pack(Loaded(found.workflow, (), found.places), LocalFiles(file.parent), types)
    except DefinitionError as error:
        return error.problems
    project = _project()
    return () if project is None else tuple(refused_secrets(project, packed, file, found.places))


def _project() -> Config | None:
    """Definitions can be validated where there is no project; then nothing says which secrets it allows."""
    if "ICEFLOE_CONFIG" not in os.environ and configuration.find() is None:
        return None
    return configuration.load()


def _print_problem(problem: Problem) -> None:
    """``file:line:column: error [code]: message``, the line itself with a mark under the place, and the hint."""
    is_error = problem.severity is Severity.ERROR
    line = Text(f"{problem.position}: " if problem.position else "")
    line.append(problem.severity.value, style="bold red" if is_error else "bold yellow")
    line.append(f" [{problem.code}]", style="dim")
    line.append(f": {problem.message}")
    notes.print(line)
    shown = _source_line(problem)
    if shown is not None and problem.position is not None:
        words, column = shown
        number = str(problem.position.line)
        notes.print(Text(f"  {number} │ {words}", style="dim"))
        notes.print(Text(f"  {' ' * len(number)} │ {' ' * column}^", style="red" if is_error else "yellow"))
    if problem.hint:
        notes.print(Text(f"  → {problem.hint}", style="cyan"))


def _source_line(problem: Problem) -> tuple[str, int] | None:
    """The line of the file that a problem is about, cut to fit, and the column of the mark in it."""
    place = problem.position
    if place is None or not Path(place.file).is_file():
        return None
    try:
        with Path(place.file).open(encoding="utf-8", errors="replace") as stream:
            for number, text in enumerate(stream, 1):
                if number == place.line:
                    words = "".join(letter if letter.isprintable() else " " for letter in text.rstrip("\n"))
                    start = max(0, place.column - 80)
                    return words[start : start + 100], place.column - 1 - start
                if number > place.line:
                    break
    except OSError:
        return None
    return None


def _usable(file: Path) -> list[Inspected]:
    """The workflows of a file; problems are told on stderr, and one without any workflow ends the command."""
    inspected = inspect_file(file, installed_types())
    for each in inspected:
        for problem in each.problems:
            _print_problem(problem)
    if not any(each.workflow is not None for each in inspected):
        raise typer.Exit(2)
    return [each for each in inspected if each.workflow is not None]


def graph(
    file: FileArgument,
    format: Annotated[
        GraphFormat, typer.Option("--format", "-f", help="terminal, mermaid or svg.")
    ] = GraphFormat.terminal,
    output: OutputOption = Output.text,
) -> None:
    """Draws a workflow's steps and the way they follow each other."""
    found = _usable(file)
    for each in found:
        assert each.workflow is not None
        if output is Output.json:
            print_json(_graph_json(each))
        elif format is GraphFormat.svg:
            typer.echo(to_svg(each.workflow), nl=False)
        elif format is GraphFormat.mermaid:
            typer.echo(to_mermaid(each.workflow), nl=False)
        else:
            width = shutil.get_terminal_size((100, 40)).columns
            typer.echo(to_terminal(each.workflow, max(40, width)), nl=False)
    if not all(each.is_valid for each in found):
        raise typer.Exit(2)


def _graph_json(found: Inspected) -> dict[str, Any]:
    workflow = found.workflow
    assert workflow is not None
    steps = []
    for path, step in workflow.all_steps():
        kind = getattr(step, "type", type(step).__name__.removesuffix("Step"))
        steps.append({"id": step.id, "path": "/".join(path), "type": kind})
    data = workflow.to_dict()
    return {"workflow": workflow.id, "steps": steps, "transitions": data.get("transitions", [])}


def convert(file: FileArgument, output: OutputOption = Output.text) -> None:
    """Prints a definition in the canonical YAML (or, with --output json, as stored), short forms written out."""
    found = _usable(file)
    for each in found:
        assert each.workflow is not None
        if output is Output.json:
            print_json({**each.workflow.to_dict(), "digest": each.workflow.digest()})
        else:
            typer.echo(to_yaml(each.workflow, installed_types()), nl=False)
    if not all(each.is_valid for each in found):
        note("the definition has errors: push would refuse it")
        raise typer.Exit(2)


def schema() -> None:
    """Prints the JSON Schema of definitions, for editors."""
    print_json(json_schema(installed_types()))
