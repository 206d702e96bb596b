"""What the pages show as a file is one: every workflow is valid, every `icefloe.toml` is a configuration."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from icefloe.config import from_dict
from icefloe.workflow.loading import inspect

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHER_FILES = {"add-a-step-type.md"}
"""Their TOML is not the project's configuration."""


def shown(language: str) -> list[Any]:
    fenced = re.compile(rf"^```{language}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [
        pytest.param(page.name, text, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, text in enumerate(fenced.findall(page.read_text(encoding="utf-8")), 1)
    ]


@pytest.mark.parametrize(("page", "text"), shown("yaml"))
def test_a_workflow_that_a_page_shows_is_valid(page: str, text: str) -> None:
    """A fragment is a part of a workflow, and shows what it is by its first key; the rest are whole ones."""
    if re.search(r"^workflow:", text, re.MULTILINE | re.IGNORECASE):
        inspected = inspect(text)
        assert inspected.is_valid, [str(problem) for problem in inspected.problems]
    else:
        assert re.match(r"(Trigger:|spark:|write:|- job:)", text), text


@pytest.mark.parametrize(("page", "text"), shown("toml"))
def test_settings_that_a_page_shows_are_settings(page: str, text: str, tmp_path: Path) -> None:
    values = tomllib.loads(text)
    if page not in OTHER_FILES:
        from_dict(values, root=tmp_path)
