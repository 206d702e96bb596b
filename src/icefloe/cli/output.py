"""How commands speak: JSON to stdout for programs, words to stderr or a rich console for people, errors with a next step."""

from __future__ import annotations

import json
import logging
import sys
import threading
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


def log_without_secrets(kind: str = "text") -> None:
    """This process's log on stderr, tracebacks of its threads included, shows none of the project's secrets. ``kind``: text or json."""
    from icefloe.log_lines import formatter

    handler = logging.StreamHandler()
    handler.setFormatter(formatter(kind))
    logging.basicConfig(handlers=[handler], force=True)

    def of_thread(failure: threading.ExceptHookArgs) -> None:
        if failure.exc_value is not None:
            logging.getLogger("icefloe").critical(
                "a thread has failed", exc_info=(failure.exc_type, failure.exc_value, failure.exc_traceback)
            )

    threading.excepthook = of_thread


def _masked(text: str) -> str:
    from icefloe.credentials import masked  # pydantic takes a while to import, and most commands have no error to show

    return masked(text)


def print_error(error: IcefloeError, output: Output = Output.text) -> None:
    if output is Output.json:
        shown = {name: _masked(part) if isinstance(part, str) else part for name, part in error.to_dict().items()}
        print_json({"error": shown})
        return
    line = Text("error", style="bold red")
    line.append(f" [{error.code}] ", style="dim")
    line.append(_masked(str(error)))
    notes.print(line)
    if error.hint:
        notes.print(Text(f"  → {_masked(error.hint)}", style="cyan"))


def byte_text(size: float) -> str:
    """A size for people."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
