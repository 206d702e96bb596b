"""Every command that a page shows exists, with the options it is shown with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from icefloe.cli.main import app, load_areas

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`(icefloe [^`]+)`")
PLACEHOLDERS = {"VERB", "COMMAND", "…"}
"""Where a page speaks of commands in general."""


def shown(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    typed = [
        line.partition(" #")[0].removeprefix("$ ").removeprefix(".venv/bin/").strip()
        for language, body in FENCED.findall(text)
        if language in ("bash", "console")
        for line in body.replace("\\\n", " ").splitlines()
    ]
    quoted = [" ".join(command.split()) for command in QUOTED.findall(FENCED.sub("", text))]
    lines = [line for line in (*typed, *quoted) if line.startswith("icefloe ")]
    return [line for line in lines if not PLACEHOLDERS & set(line.split())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_the_page_exists_with_its_options(page: Path) -> None:
    load_areas([])
    root: Any = get_command(app)
    problems = [problem for line in shown(page) if (problem := wrong_with(line, root))]
    assert problems == []


def wrong_with(line: str, command: Any) -> str | None:
    try:
        words = shlex.split(re.split(r"\s(?:\|\|?|&&|>|<)\s", line)[0])[1:]
    except ValueError as error:
        return f"{line}: {error}"
    options = {name for parameter in command.params for name in parameter.opts}
    takes_value = False
    for word in words:
        if word.startswith("-") and not takes_value:
            name = word.partition("=")[0]
            if name not in options | {"--help"}:
                return f"{line}: no option {name}"
            takes_value = "=" not in word and any(
                name in parameter.opts and not parameter.is_flag
                for parameter in command.params
                if hasattr(parameter, "is_flag")
            )
        elif takes_value:
            takes_value = False
        elif hasattr(command, "commands"):
            if word not in command.commands:
                # A group that does something by itself, such as `icefloe consumers`, has no arguments.
                return f"{line}: no command {word}"
            command = command.commands[word]
            options |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return None


def test_the_check_finds_what_does_not_exist() -> None:
    load_areas([])
    root: Any = get_command(app)
    assert wrong_with("icefloe demo --folder here", root) is None
    assert "no option --nothing" in str(wrong_with("icefloe demo --nothing", root))
    assert "no command nothing" in str(wrong_with("icefloe consumers nothing X", root))
