"""The reference of the configuration has every setting with its default, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from icefloe.config import Config

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
SECTIONS = {
    name: field.annotation
    for name, field in Config.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}


def documented(section: str) -> set[str]:
    """The names in the first column of the section's table."""
    _, _, rest = PAGE.partition(f"\n## `[{section}]`\n")
    body = rest.partition("\n## ")[0]
    cells = [line.split("|")[1] for line in body.splitlines() if line.startswith("| ") and "`" in line.split("|")[1]]
    return {name.strip("[]").removeprefix(f"{section}.") for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_of_a_section_is_in_the_reference_and_no_other(section: str) -> None:
    model = SECTIONS[section]
    assert model is not None
    assert documented(section) == set(model.model_fields)
