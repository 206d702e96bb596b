"""A short, fixed run of the fuzzer; ``python -m tests.fuzz.definitions --minutes 30`` is the long one."""

from __future__ import annotations

from tests.fuzz.definitions import Figures, run_case

SEED = 20240101
CASES = 1500


def test_random_definitions_and_expressions_end_in_a_value_or_one_of_our_errors() -> None:
    figures = Figures()
    for number in range(CASES):
        run_case(SEED, number, figures)
    assert figures.cases == CASES
    assert figures.outcomes["yaml: loaded"] > 5
    assert figures.outcomes["expression: value"] > 50
