"""The page that follows one micro-batch names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import icefloe

PAGE = Path(__file__).resolve().parents[2] / "docs" / "concepts" / "one-micro-batch.md"


def test_every_file_that_the_page_names_is_there() -> None:
    package = Path(icefloe.__file__).parent
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    named = {name for row in rows for name in re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", row)}
    assert len(named) > 20
    assert sorted(name for name in named if not (package / name).exists()) == []
