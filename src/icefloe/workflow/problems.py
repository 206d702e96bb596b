"""What is wrong with a definition, and where: problems are collected, never thrown one at a time.

A loader reads on after a problem as long as it can make sense of the rest, so that all errors of a file are told at
once. :class:`DefinitionError` carries them all; ``validate`` prints them one per line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from icefloe.errors import UsageError
from icefloe.workflow.values import clip


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a definition's text; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. ``code`` is stable; ``hint`` says what to type instead."""

    code: str
    message: str
    position: Position | None = None
    hint: str | None = None
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        place = f"{self.position}: " if self.position else ""
        return f"{place}{self.message}"

    def to_dict(self) -> dict[str, object]:
        return {
            "severity": self.severity.value,
            "code": self.code,
            "message": self.message,
            "file": self.position.file if self.position else None,
            "line": self.position.line if self.position else None,
            "column": self.position.column if self.position else None,
            "hint": self.hint,
        }


class DefinitionError(UsageError):
    """A definition cannot be used. ``problems`` has every finding, warnings included; the message is the first error."""

    code = "definition.invalid"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        errors = [problem for problem in problems if problem.severity is Severity.ERROR]
        first = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        where = str(first.position) if first.position else None
        super().__init__(f"{first.message}{more}", hint=first.hint, where=where)

    def to_dict(self) -> dict[str, object]:
        return {**super().to_dict(), "problems": [problem.to_dict() for problem in self.problems]}


# A file that is wrong everywhere is told about at its first hundred places.
MOST_PROBLEMS = 100


@dataclass(slots=True)
class Findings:
    """Gathers the problems of one definition while it is being read."""

    problems: list[Problem] = field(default_factory=list)

    def error(self, code: str, message: str, position: Position | None, hint: str | None = None) -> None:
        self._add(Problem(code, message, position, hint))

    def warning(self, code: str, message: str, position: Position | None, hint: str | None = None) -> None:
        self._add(Problem(code, message, position, hint, Severity.WARNING))

    def _add(self, problem: Problem) -> None:
        if problem not in self.problems and len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)

    @property
    def has_errors(self) -> bool:
        return any(problem.severity is Severity.ERROR for problem in self.problems)

    def ordered(self) -> tuple[Problem, ...]:
        """By place in the file."""
        return tuple(sorted(self.problems, key=lambda problem: problem.position or Position("", 0, 0)))

    def raise_errors(self) -> None:
        if self.has_errors:
            raise DefinitionError(self.ordered())


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, if one is close enough."""
    if len(word) > 100:
        return None
    options = {option.lower(): option for option in known}
    close = difflib.get_close_matches(word.lower(), options, n=1, cutoff=0.75)
    return options[close[0]] if close else None


def suggestion(word: str, known: Iterable[str], what: str = "known") -> str | None:
    """A hint: ``did you mean 'x'?``, else the list of what is known, if anything is."""
    known = list(known)
    meant = did_you_mean(word, known)
    if meant is not None:
        return f"did you mean '{clip(meant)}'?"
    if not known:
        return None
    listed = ", ".join(clip(option, 40) for option in known[:12])
    return f"{what}: {listed}{', …' if len(known) > 12 else ''}"
