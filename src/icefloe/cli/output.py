"""How commands speak: JSON to stdout for programs, words to stderr or a rich console for people, errors with a next step."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from icefloe.errors import IcefloeError


class Output(StrEnum):
    text = "text"
    json = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="text for people, json for programs.")]

# Rich takes 80 columns for a pipe; names must not be cut there.
_WIDTH = None if sys.stdout.isatty() else 200

console = Console(highlight=False, soft_wrap=True, width=_WIDTH)
notes = Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, default=str, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def note(message: str) -> None:
    """A word for people, kept out of stdout. Printed as it is: names come from users and are not markup."""
    notes.print(Text(message))


def print_error(error: IcefloeError, output: Output = Output.text) -> None:
    if output is Output.json:
        print_json({"error": error.to_dict()})
        return
    line = Text("error", style="bold red")
    line.append(f" [{error.code}] ", style="dim")
    line.append(str(error))
    notes.print(line)
    if error.hint:
        notes.print(Text(f"  → {error.hint}", style="cyan"))


def byte_text(size: float) -> str:
    """A size for people."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
