"""The page of supported shapes says what the planner does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from icefloe.workflow.loading import inspect
from tests.unit.planner.tables import plan_of

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = DOCS / "reference" / "select-shapes.md"
WORKFLOWS = [DOCS / "how-to" / name for name in ("switch-from-a-lookback.md", "backfill-a-range.md")]
EXAMPLES = re.findall(
    r"^```sql\n-- (\w+)(?:, keys: ([\w, ]+))?\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
)


def test_the_page_has_an_example_for_every_pattern() -> None:
    assert {pattern for pattern, _, _ in EXAMPLES} == {"append", "merge", "key_filter", "range_overwrite", "full"}
    assert len(EXAMPLES) == PAGE.read_text().count("```sql")


@pytest.mark.parametrize(("pattern", "keys", "text"), EXAMPLES)
def test_an_example_of_the_page_gets_the_pattern_that_stands_above_it(pattern: str, keys: str, text: str) -> None:
    assert plan_of(text, *(key.strip() for key in keys.split(",") if key)).pattern == pattern


@pytest.mark.parametrize("page", WORKFLOWS, ids=lambda page: page.stem)
def test_the_workflow_of_a_page_loads(page: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    found = inspect(text)
    assert found.is_valid, [str(problem) for problem in found.problems]
