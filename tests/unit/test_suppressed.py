"""No error is swallowed in silence: broad classes go through :mod:`icefloe.suppressed`, which logs and counts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import icefloe
from icefloe import suppressed
from icefloe.errors import IcefloeError

BROAD = {"BaseException", "Exception", "IcefloeError", "OSError", "EnvironmentError", "IOError"}


def _names(node: ast.expr | None) -> set[str]:
    match node:
        case None:
            return {"BaseException"}
        case ast.Tuple(elts):
            return set().union(*map(_names, elts))
        case ast.Name(name) | ast.Attribute(attr=name):
            return {name}
    return set()


def silent_places(source: str) -> Iterator[int]:
    """Lines that go on after any error of a broad class, and say nothing."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _names(node.func) == {"suppress"}:
            if set().union(*map(_names, node.args)) & BROAD:
                yield node.lineno
        elif isinstance(node, ast.ExceptHandler) and _names(node.type) & BROAD and all(map(_says_nothing, node.body)):
            yield node.lineno


def _says_nothing(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Pass | ast.Continue)
        or (isinstance(statement, ast.Return) and statement.value is None)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    )


def test_no_place_in_the_program_suppresses_broad_errors_in_silence() -> None:
    folder = Path(icefloe.__file__).parent
    silent = [
        f"{file.relative_to(folder)}:{line}"
        for file in sorted(folder.rglob("*.py"))
        for line in silent_places(file.read_text(encoding="utf-8"))
    ]
    assert silent == []


@pytest.mark.parametrize(
    "source",
    [
        "with suppress(Exception): f()",
        "with contextlib.suppress(KeyError, OSError): f()",
        "try: f()\nexcept IcefloeError: pass",
        "try: f()\nexcept (KeyError, errors.IcefloeError): pass",
        "try: f()\nexcept: ...",
    ],
)
def test_every_way_to_be_silent_is_seen(source: str) -> None:
    assert list(silent_places(source))


@pytest.mark.parametrize(
    "source", ["with suppress(FileNotFoundError): f()", "try: f()\nexcept OSError as error: count(error)"]
)
def test_narrow_classes_and_spoken_errors_are_fine(source: str) -> None:
    assert not list(silent_places(source))


def test_what_is_suppressed_is_counted_by_place_and_can_be_read_by_others(tmp_path: Path) -> None:
    for number in range(2):
        with suppressed.errors("test.place", IcefloeError, where="db.events"):
            raise IcefloeError(f"trouble {number}")
    counted = suppressed.counts()["test.place"]
    assert counted.count == 2
    assert "db.events" in counted.last and "trouble 1" in counted.last
    suppressed.write(tmp_path / "w.suppressed")
    assert suppressed.read(tmp_path / "w.suppressed")["test.place"] == counted
    assert suppressed.read(tmp_path / "missing") == {}


def test_other_classes_are_passed_on() -> None:
    with pytest.raises(KeyError), suppressed.errors("test.other", IcefloeError):
        raise KeyError("x")
