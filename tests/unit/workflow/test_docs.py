"""What the documentation shows works as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from icefloe.service.definitions import load_file
from icefloe.workflow.expressions import evaluate
from icefloe.workflow.expressions.dates import FIELDS
from icefloe.workflow.expressions.library import METHODS
from icefloe.workflow.loading import inspect
from icefloe.workflow.reserved import LEVELS
from icefloe.workflow.scope import Scope
from icefloe.workflow.step_types import BUILTIN
from icefloe.workflow.values import plain

DOCS = Path(__file__).parents[3] / "docs"
DEFINITIONS = (DOCS / "reference" / "definitions.md").read_text(encoding="utf-8")
EXPRESSIONS = (DOCS / "reference" / "expressions.md").read_text(encoding="utf-8")
PYTHON = (DOCS / "how-to" / "python-pipelines.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.*?)```", DEFINITIONS, re.DOTALL))
def test_every_definition_shown_loads(text: str) -> None:
    found = inspect(text)
    assert found.is_valid, [str(problem) for problem in found.problems]


@pytest.mark.parametrize("text", re.findall(r"```python\n(.*?)```", PYTHON, re.DOTALL))
def test_every_python_pipeline_shown_builds(text: str, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.py"
    file.write_text(text, encoding="utf-8")
    assert len(load_file(file)) == 1


@pytest.mark.parametrize(("expression", "value"), re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", EXPRESSIONS, re.MULTILINE))
def test_every_expression_shown_has_the_value_shown(expression: str, value: str) -> None:
    assert plain(evaluate(expression, Scope()).value) == json.loads(value.replace("'", '"'))


def test_every_method_of_the_language_is_documented() -> None:
    words = set(re.findall(r"\w+", EXPRESSIONS))
    # One sentence stands for the calendar's families: plusDays, getYear, withYear, year() and so on for every field.
    stems = {f"{field[0].lower()}{field[1:]}" for field in FIELDS} | {
        f"{how}{field}" for field in FIELDS for how in ("get", "with")
    }
    units = ("Years", "Months", "Weeks", "Days", "Hours", "Minutes", "Seconds", "Millis")
    families = stems | {f"{how}{unit}" for unit in units for how in ("plus", "minus")}
    missing = sorted({name for _, name in METHODS} - words - families)
    assert missing == []


def test_every_reserved_key_and_setting_is_documented() -> None:
    words = set(re.findall(r"\w+", DEFINITIONS))
    reserved = {key for name in ("workflow", "job", "subworkflow", "foreach") for key in LEVELS[name].keys}
    settings = {name for step_type in BUILTIN if step_type.settings for name in step_type.settings.model_fields}
    assert sorted((reserved | settings) - words) == []
