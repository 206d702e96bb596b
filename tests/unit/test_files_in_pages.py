"""The pages that say where things are in the program name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import icefloe

CONCEPTS = Path(__file__).resolve().parents[2] / "docs" / "concepts"


@pytest.mark.parametrize("page", ["one-micro-batch.md", "glossary.md"])
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    package = Path(icefloe.__file__).parent
    rows = [line for line in (CONCEPTS / page).read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    named = {name for row in rows for name in re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", row)}
    assert len(named) > 20
    assert sorted(name for name in named if not (package / name).exists()) == []
