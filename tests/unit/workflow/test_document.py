"""YAML that is broken, hostile or merely unusual."""

from __future__ import annotations

import time

import pytest

from icefloe.workflow.document import plain_scalar
from icefloe.workflow.loading import inspect

from .reading import errors_of, jobs, the_error, workflow_of


def _quickly(text: str | bytes, code: str) -> None:
    began = time.process_time()
    error = inspect(text).problems[0]
    assert error.code == code
    assert time.process_time() - began < 10


def test_a_bomb_of_aliases_is_refused_quickly() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    _quickly("\n".join(lines), "yaml.too-many-nodes")


def test_an_alias_that_contains_itself_is_refused() -> None:
    assert the_error("Workflow: &w {id: x, jobs: [*w]}").code == "yaml.recursive"


def test_fifty_megabytes_are_refused_quickly() -> None:
    _quickly(b"x: y\n" * (10 * 1024 * 1024), "yaml.too-large")
    _quickly("x: y\n" * (10 * 1024 * 1024), "yaml.too-large")


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_endless_nesting_is_refused_quickly(opening: str) -> None:
    _quickly(opening * 100_000, "yaml.too-deep")


def test_a_tab_as_indentation_is_named_as_such() -> None:
    error = the_error("Workflow:\n\tid: x\n")
    assert error.code == "yaml.syntax"
    assert "tab" in error.message
    assert error.position is not None
    assert error.position.line == 2


def test_a_key_given_twice_is_an_error_that_names_the_first() -> None:
    error = the_error("Workflow:\n  id: x\n  id: y\n  jobs: [{job: {id: a, type: NoOp}}]\n")
    assert (error.code, error.position and error.position.line) == ("yaml.duplicate-key", 3)
    assert "line 2" in error.message


def test_one_key_in_two_spellings_is_given_twice() -> None:
    error = the_error(jobs("a").replace("id: wf", "id: wf\n  runStrategy: parallel\n  run_strategy: parallel"))
    assert error.code == "definition.duplicate-key"


def test_bytes_that_are_no_utf8_are_an_error_with_their_place() -> None:
    error = the_error(b"Workflow:\n  id: caf\xe9\n")
    assert error.code == "yaml.not-utf8"
    assert error.position is not None
    assert (error.position.line, error.position.column) == (2, 10)


def test_a_byte_order_mark_is_no_problem() -> None:
    assert not errors_of(b"\xef\xbb\xbf" + jobs("a").encode())


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['id']",
        "Workflow: !!python/name:os.system x",
        "!custom {a: b}",
        "Workflow: !!binary aGVsbG8=",
        "Workflow: !!timestamp 2001-01-01",
    ],
)
def test_tags_construct_nothing(text: str) -> None:
    assert the_error(text).code == "yaml.tag"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "yaml.empty"),
        ("# only a comment\n", "yaml.empty"),
        ("a: 1\n---\nb: 2\n", "yaml.documents"),
        ("Workflow: *nothing\n", "yaml.alias"),
        ("Workflow: {id: x", "yaml.syntax"),
        ("Workflow:\n  script: select a: b: c\n", "yaml.syntax"),
        ("Workflow: 'open\n", "yaml.syntax"),
        ("just words", "definition.wrong-type"),
        ("- a\n- b\n", "definition.wrong-type"),
        ("Workflow: 5\n", "definition.wrong-type"),
        ("Workflo: {id: x}\n", "definition.unknown-key"),
        ("Workflow: {? [a, b] : c, id: x, jobs: [{job: {id: a, type: NoOp}}]}", "yaml.key"),
        ("\x00", "yaml.character"),
    ],
)
def test_what_is_no_definition_is_one_clear_error_first(text: str, code: str) -> None:
    assert errors_of(text)[0].code == code


def test_anchors_and_merge_keys_work() -> None:
    workflow = workflow_of("""
        Workflow:
          id: anchors
          jobs:
            - job: &base {id: a, type: NoOp, tags: [x], timeout: 5m}
            - job: {<<: *base, id: b, timeout: 1m}
    """)
    first, second = workflow.steps
    assert (first.tags, second.tags) == (("x",), ("x",))
    assert (first.timeout, second.timeout) == (300.0, 60.0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("true", True),
        ("FALSE", False),
        ("2024-01-01", "2024-01-01"),
        ("01", "01"),
        ("1_000", "1_000"),
        ("0x10", 16),
        ("-7", -7),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("~", None),
        ("12:30:45", "12:30:45"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_plain_scalars_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    found = plain_scalar(text)
    assert found == value
    assert type(found) is type(value)


def test_a_megabyte_of_digits_is_text_and_costs_nothing() -> None:
    began = time.process_time()
    assert plain_scalar("9" * 1_000_000) == "9" * 1_000_000
    assert time.process_time() - began < 10
