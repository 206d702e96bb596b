"""The page of supported shapes says what the planner does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.planner.tables import plan_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "select-shapes.md"
EXAMPLES = re.findall(
    r"^```sql\n-- (\w+)(?:, keys: ([\w, ]+))?\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
)


def test_the_page_has_an_example_for_every_pattern() -> None:
    assert {pattern for pattern, _, _ in EXAMPLES} == {"append", "merge", "key_filter", "range_overwrite", "full"}
    assert len(EXAMPLES) == PAGE.read_text().count("```sql")


@pytest.mark.parametrize(("pattern", "keys", "text"), EXAMPLES)
def test_an_example_of_the_page_gets_the_pattern_that_stands_above_it(pattern: str, keys: str, text: str) -> None:
    assert plan_of(text, *(key.strip() for key in keys.split(",") if key)).pattern == pattern
