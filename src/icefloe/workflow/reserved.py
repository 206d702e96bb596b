"""The reserved keys, level by level, in one table.

A key is matched without regard to case, camelCase, ``_`` and ``-``. Where a level has parameters, **every other key is a
parameter**: ALL_CAPS always, and so is a key in parameter notation (``'!x'``, ``'x<long>'``). A near miss of a reserved
key is an error, since a silent parameter named ``timout`` helps nobody; inside ``params:`` any name may stand. A slip of
the keyboard exchanges, drops or doubles letters. It adds no number and no ``_b``: ``param1`` and ``jobs_b`` are parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

_STEP = {
    "id": (),
    "name": (),
    "description": (),
    "tags": (),
    "failure_mode": (),
    "retry": ("retry_policy", "retries"),
    "timeout": (),
    "transition": ("transitions",),
    "depends_on": (),
    "params": (),
    "signal_dependencies": (),
    "watermark_dependencies": (),
    "signal_outputs": (),
}
_ENUMERATED = re.compile(r"[_-][A-Za-z]$|[a-z][A-Z]$")
"""``param_b`` and ``paramB`` count through parameters, as ``param2`` does; nobody writes ``params`` like that by mistake."""
_BODY: dict[str, tuple[str, ...]] = {"jobs": (), "dag": ()}
_TRIGGER_COMMON: dict[str, tuple[str, ...]] = {"params": ()}
_SCHEDULE: dict[str, tuple[str, ...]] = {
    **_TRIGGER_COMMON,
    "fuzzy_max_delay": ("jitter",),
    "start": ("start_date", "from"),
    "end": ("end_date", "until"),
    "catch_up": (),
}


@dataclass(frozen=True, slots=True)
class Level:
    """The reserved keys of one level: canonical name -> other names for it. ``open`` levels take parameters."""

    name: str
    keys: dict[str, tuple[str, ...]]
    open: bool = False

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


LEVELS: dict[str, Level] = {
    level.name: level
    for level in (
        Level("document", {"workflow": (), "description": (), "trigger": ("triggers",), "properties": ()}),
        Level(
            "workflow",
            {
                "id": (),
                "name": (),
                "description": (),
                "owner": (),
                "tags": (),
                "criticality": (),
                "run_strategy": (),
                "workflow_concurrency": ("concurrency",),
                "step_concurrency": ("job_concurrency",),
                "timeout": (),
                "retry": ("retry_policy", "retries"),
                "freshness": (),
                "alerting": ("alerts",),
                "params": (),
                "trigger": ("triggers",),
                "steps": (),
                **_BODY,
            },
            open=True,
        ),
        Level("job", {**_STEP, "type": (), "type_version": ()}, open=True),
        Level(
            "subworkflow",
            {
                **_STEP,
                "workflow_id": ("subworkflow_id",),
                "version": ("subworkflow_version",),
                "sync": (),
                "explicit_params": (),
            },
            open=True,
        ),
        Level(
            "foreach",
            {
                **_STEP,
                "loop_params": (),
                "job_params": (),
                "ranges": (),
                "concurrency": ("job_concurrency",),
                **_BODY,
            },
            open=True,
        ),
        Level("range", {"from": ("start",), "to": ("end",), "increment": ("step",)}),
        Level("run strategy", {"rule": (), "workflow_concurrency": ("concurrency",)}),
        Level(
            "retry",
            {
                "error": ("error_retry_limit", "errors"),
                "platform": ("platform_retry_limit",),
                "timeout": ("timeout_retry_limit",),
                "backoff": (),
            },
        ),
        Level(
            "backoff",
            {
                "type": (),
                "initial": ("error_retry_backoff_in_secs", "error_retry_backoff"),
                "factor": ("error_retry_exponent", "exponent"),
                "maximum": ("error_retry_limit_in_secs", "max"),
            },
        ),
        Level("alerting", {"channels": ("channel",), "events": ("on",), "templates": (), "max_lag": ()}),
        Level("max lag", {"snapshots": (), "rows": (), "time": ("seconds", "age")}),
        Level("signal", {"name": (), "match_params": ("match",), "join_keys": (), "params": ()}),
        Level("watermark dependency", {"table": (), "reached": ()}),
        Level("match", {"value": (), "expression": (), "param": (), "operator": (), "type": ()}),
        Level(
            "trigger",
            {
                "cron": (),
                "interval": ("every",),
                "signal": ("signals",),
                "watermark": (),
                "incremental": (),
            },
        ),
        Level("cron trigger", {"cron": ("expression",), "timezone": ("time_zone", "tz"), **_SCHEDULE}),
        Level("interval trigger", {"every": ("interval",), **_SCHEDULE}),
        Level(
            "signal trigger",
            {
                "signals": ("signal", "definitions"),
                "name": (),
                "match_params": ("match",),
                "join_keys": (),
                "condition": (),
                "dedup": ("dedup_expr",),
                **_TRIGGER_COMMON,
            },
        ),
        Level("watermark trigger", {"table": (), "every": (), "timezone": ("tz",), **_TRIGGER_COMMON}),
        Level(
            "incremental trigger",
            {
                "tables": ("table", "source_tables"),
                "consumer": (),
                "min_rows": (),
                "min_files": (),
                "min_bytes": (),
                "max_age": (),
                "at_most_every": (),
                "quiet_period": ("quiet",),
                "operations": ("data_operations",),
                "partitions": (),
                "require": (),
                "allow_cycle": (),
                **_TRIGGER_COMMON,
            },
        ),
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
