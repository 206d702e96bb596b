"""The reserved keys, level by level, as the model declares them, and how a key that was typed is matched with them.

A key is matched without regard to case, camelCase, ``_`` and ``-``. Where a level has parameters, **every other key is a
parameter**: ALL_CAPS always, and so is a key in parameter notation (``'!x'``, ``'x<long>'``). A near miss of a reserved
key is an error, since a silent parameter named ``timout`` helps nobody; inside ``params:`` any name may stand. A slip of
the keyboard exchanges, drops or doubles letters. It adds no number and no ``_b``: ``param1`` and ``jobs_b`` are parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TypeVar

from icefloe.workflow import model, notation
from icefloe.workflow.declarations import FieldDeclaration, declared
from icefloe.workflow.field_types import InvalidValueError
from icefloe.workflow.problems import suggestion
from icefloe.workflow.values import clip

_ENUMERATED = re.compile(r"[_-][A-Za-z]$|[a-z][A-Z]$")
"""``param_b`` and ``paramB`` count through parameters, as ``param2`` does; nobody writes ``params`` like that by mistake."""


ChoiceT = TypeVar("ChoiceT", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Level:
    """The reserved keys of one level, as the model and its notations declare them. ``open`` levels take parameters."""

    name: str
    fields: tuple[FieldDeclaration, ...]
    open: bool = False

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        return {item.key: item.others for item in self.fields}

    def match(self, key: str, more: Iterable[str] = ()) -> str | None:
        """The canonical name of a reserved key (or of one of ``more``), else None."""
        if self.open and is_all_caps(key):
            return None
        return self._folded(tuple(more)).get(fold(key))

    def near_miss(self, key: str, more: Iterable[str] = ()) -> str | None:
        """The reserved key that was probably meant by a key that is none."""
        if self.open and (is_all_caps(key) or _ENUMERATED.search(key) or not re.fullmatch(r"[\w\-]+", key)):
            return None
        word = fold(key)
        for folded, name in self._folded(tuple(more)).items():
            if is_near(word, folded):
                return name
        return None

    def names(self, more: Iterable[str] = ()) -> list[str]:
        return [*self.keys, *more]

    def _folded(self, more: tuple[str, ...]) -> dict[str, str]:
        return _fold_table(self.name, more)


def _level(name: str, *classes: type, open: bool = False) -> Level:
    fields: dict[str, FieldDeclaration] = {}
    for cls in classes:
        for item in declared(cls):
            fields.setdefault(item.key, item)
    fields.pop("settings", None)  # they stand under their type's own key
    return Level(name, tuple(fields.values()), open)


LEVELS: dict[str, Level] = {
    level.name: level
    for level in (
        _level("document", notation.Document),
        _level("workflow", model.Workflow, notation.WorkflowKeys, open=True),
        _level("job", model.TypedStep, notation.StepKeys, open=True),
        _level("subworkflow", model.SubworkflowStep, notation.StepKeys, open=True),
        _level("foreach", model.ForeachStep, notation.StepKeys, notation.ForeachKeys, open=True),
        _level("range", notation.Range),
        _level("run strategy", model.RunStrategy),
        _level("retry", model.RetryPolicy),
        _level("backoff", model.Backoff, notation.BackoffKeys),
        _level("alerting", model.Alerting),
        _level("max lag", model.MaxLag),
        _level("signal", model.SignalCondition, model.SignalDependency, model.SignalOutput),
        _level("watermark dependency", model.WatermarkDependency),
        _level("match", model.SignalMatch, notation.MatchKeys),
        _level("trigger", notation.TriggerKeys),
        _level("cron trigger", model.CronTrigger),
        _level("interval trigger", model.IntervalTrigger),
        _level("signal trigger", model.SignalTrigger, model.SignalCondition),
        _level("watermark trigger", model.WatermarkTrigger),
        _level("incremental trigger", model.IncrementalTrigger),
    )
}


@cache
def _fold_table(level: str, more: tuple[str, ...]) -> dict[str, str]:
    table = {fold(name): name for name in more}
    for name, others in LEVELS[level].keys.items():
        for word in (name, *others):
            table[fold(word)] = name
    return table


def fold(key: str) -> str:
    """``failureMode``, ``Failure-Mode`` and ``failure_mode`` are one key."""
    return key.replace("_", "").replace("-", "").lower()


def choose(kind: type[ChoiceT], word: object, what: str, options: str = "known") -> ChoiceT:
    """The choice that a word in any spelling names. Raises :class:`InvalidValueError`."""
    if isinstance(word, kind):
        return word
    for option in kind:
        if isinstance(word, str) and fold(option.value) == fold(word):
            return option
    hint = suggestion(str(word), [option.value for option in kind], options)
    raise InvalidValueError("definition.unknown-value", f"'{clip(str(word))}' is no {what}", hint)


def is_all_caps(key: str) -> bool:
    return re.fullmatch(r"[A-Z][A-Z0-9_]*", key) is not None


def is_near(word: str, reserved: str) -> bool:
    """One slip of the keyboard apart (two for long words); short words allow no exchanged letter, or every other
    four-letter name would be one. Words with different numbers in them are different names."""
    if word == reserved or abs(len(word) - len(reserved)) > 2 or len(reserved) < 4:
        return False
    if _digits(word) != _digits(reserved):
        return False
    allowed = 2 if min(len(reserved), len(word)) >= 8 else 1
    if len(set(word) ^ set(reserved)) > 2 * allowed:  # each slip changes at most two letters; saves the table below
        return False
    return _edits(word, reserved, substitution=2 if len(reserved) <= 4 else 1) <= allowed


def _digits(word: str) -> str:
    return "".join(letter for letter in word if letter.isdigit())


def _edits(one: str, other: str, *, substitution: int) -> int:
    """Damerau-Levenshtein distance of adjacent transpositions."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        last, before_last = row, before
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (0 if a == b else substitution))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before_last[j - 2] + 1)
            row.append(cost)
        before = last
    return row[-1]
