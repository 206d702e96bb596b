"""``icefloe init`` and ``icefloe doctor``: make a project, and see whether it has all it needs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from icefloe import config
from icefloe.cli.output import Output, OutputOption, console, note, print_json
from icefloe.errors import IcefloeError


def register(app: typer.Typer) -> None:
    app.command()(init)
    app.command()(doctor)


def init(
    folder: Annotated[Path, typer.Argument(help="Where (default: here).")] = Path(),
    output: OutputOption = Output.text,
) -> None:
    """Make a project: icefloe.toml and .icefloe/ with an embedded catalog. What is there already stays."""
    from icefloe.service import project

    existed = (folder / config.FILE_NAME).exists()
    file = project.init(folder).resolve()
    if output is Output.json:
        print_json({"config": str(file), "created": not existed})
        return
    console.print(Text(f"{file} was there already and stays as it is" if existed else f"made {file}"))
    console.print(Text("next: icefloe doctor", style="cyan"))


def doctor(
    table: Annotated[str | None, typer.Option(help="Also: can this table be captured?")] = None,
    spark: Annotated[bool, typer.Option(help="Start Spark and run a statement on it.")] = True,
    output: OutputOption = Output.text,
) -> None:
    """Check Python, Java, Spark, jars, catalog, warehouse and state, each with the fix."""
    from icefloe.service import doctor as checks

    loaded: config.Config | IcefloeError
    try:
        loaded = config.load()
    except IcefloeError as error:
        loaded = error
    findings = []
    for finding in checks.examine(loaded, table=table, spark=spark, note=note):
        findings.append(finding)
        if output is Output.text:
            _show(finding)
    if output is Output.json:
        print_json({"ok": all(finding.ok for finding in findings), "checks": [asdict(each) for each in findings]})
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def _show(finding: object) -> None:
    from icefloe.service.doctor import Check

    assert isinstance(finding, Check)
    line = Text("✓ " if finding.ok else "✗ ", style="green" if finding.ok else "bold red")
    line.append(f"{finding.name:<14} ", style="bold")
    line.append(finding.detail, style="" if finding.ok else "red")
    console.print(line)
    if finding.fix and not finding.ok:
        console.print(Text(f"  → {finding.fix}", style="cyan"))
