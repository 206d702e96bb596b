"""Parameters as the fields of a form, and back."""

from __future__ import annotations

import pytest

from icefloe.service.run_form import fields_of, fixed_of, values_of
from icefloe.workflow.loading import load
from icefloe.workflow.resolution import ParamError

WORKFLOW = load(
    """
Workflow:
  id: w
  day: '2026-01-31'
  not_a_day: '2026-13-31'
  DAY: 20260131
  share: 0.5
  dry: true
  words: [a, b]
  flags: [true, false]
  more: {a: x, b: y}
  '!computed<long>': 1 + 2
  'fixed(constant)': 1
  'start(mutable_on_start)': s
  'needed<double>(provided)':
  jobs: [{job: {id: one, type: NoOp}}]
"""
).workflow
FIELDS = {field.name: field for field in fields_of(WORKFLOW)}


def test_each_parameter_is_a_field_of_its_kind_with_its_default() -> None:
    assert {name: field.kind for name, field in FIELDS.items()} == {
        "day": "date", "not_a_day": "text", "DAY": "whole", "share": "number", "dry": "boolean", "words": "list",
        "flags": "list", "more": "json", "computed": "whole", "start": "text", "needed": "number",
    }  # fmt: skip
    assert (FIELDS["words"].default, FIELDS["dry"].default, FIELDS["computed"].default) == ("a\nb", "true", "")
    assert FIELDS["computed"].computed == "1 + 2" and FIELDS["needed"].required
    assert [param.name for param in fixed_of(WORKFLOW)] == ["fixed"]
    assert "start" not in {field.name for field in fields_of(WORKFLOW, restart=True)}


def test_what_nobody_touched_is_not_given() -> None:
    untouched = {name: field.default for name, field in FIELDS.items()}
    assert values_of(tuple(FIELDS.values()), {**untouched, "needed": "1"}) == {"needed": 1.0}


def test_what_was_typed_has_its_type() -> None:
    typed = {
        "day": "2026-02-01", "DAY": " 20260201 ", "share": "1", "dry": "false", "words": "x, y\r\nz\r\n", "flags": "true",
        "more": '{"c": "z"}', "computed": "7", "needed": "2.5", "unknown": "ignored",
    }  # fmt: skip
    assert values_of(tuple(FIELDS.values()), typed) == {
        "day": "2026-02-01", "DAY": 20260201, "share": 1.0, "dry": False, "words": ["x, y", "z"], "flags": [True],
        "more": {"c": "z"}, "computed": 7, "needed": 2.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [("DAY", "soon"), ("DAY", "9" * 500), ("share", "nan"), ("dry", "maybe"), ("flags", "true\nno"), ("more", "[1]"),
     ("more", "{"), ("more", "[" * 100_000), ("DAY", str(2**63))],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(ParamError, match=name):
        values_of(tuple(FIELDS.values()), {"needed": "1", name: text})


def test_what_is_needed_must_be_given() -> None:
    with pytest.raises(ParamError, match="needed: no value"):
        values_of(tuple(FIELDS.values()), {})


def test_in_a_restart_the_default_itself_can_be_given_again() -> None:
    assert values_of((FIELDS["DAY"],), {"DAY": "20260131"}, unchanged_counts=True) == {"DAY": 20260131}
    assert values_of((FIELDS["DAY"],), {"DAY": ""}, unchanged_counts=True) == {}
