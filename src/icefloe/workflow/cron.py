"""Cron expressions as text: which are understood, and the one form that croniter is handed.

Five fields are cron's own (minute hour day month weekday, Sunday is 0 and 7). Six or seven are Quartz's: seconds first, a
year last, ``?`` for "no matter", and weekdays that count from 1 for Sunday. croniter (6.2) has seconds and years last and
cron's weekdays in both forms, so Quartz's are translated here.
"""

from __future__ import annotations

import re
from datetime import datetime

from croniter import croniter

from icefloe.workflow.values import clip

PREDEFINED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_LONGEST = 200
# Without H and R: croniter's hashed and random fields would fire at another time on every scheduler.
_FIELD = re.compile(
    r"(?:[0-9*/,\-#LW?]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat)+", re.I
)
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class CronError(ValueError):
    """Why an expression is no cron, in words for its author."""


def croniter_form(expression: str) -> str:
    """The expression as croniter takes it: 5 fields, or 6 or 7 with seconds (and year) last. Raises :class:`CronError`."""
    words = expression.strip()
    if words.startswith("@"):
        if words not in PREDEFINED:
            raise CronError(f"'{clip(words)}' is not one of {', '.join(PREDEFINED)}")
        return PREDEFINED[words]
    fields = words.split()
    if len(words) > _LONGEST or len(fields) not in (5, 6, 7):
        raise CronError(f"'{clip(words)}' has {len(fields)} fields, a cron has 5, 6 or 7")
    if not all(_FIELD.fullmatch(field) for field in fields):
        raise CronError(f"'{clip(words)}' is no cron expression")
    if len(fields) > 5:
        seconds, minute, hour, day, month, weekday, *year = fields
        fields = [minute, hour, day, month, _weekdays(weekday, words), seconds, *year]
    form = " ".join(_plain(field) for field in fields)
    if not _valid(form):
        raise CronError(f"'{clip(words)}' is no cron expression")
    return form


def problem(expression: str) -> str | None:
    """Why an expression is no cron or can never fire, or None."""
    try:
        form = croniter_form(expression)
    except CronError as error:
        return str(error)
    # A year field may lie in the past by now: that is for the scheduler to say. No date at all is a mistake.
    return (
        None
        if fires_after(form, datetime(1970, 1, 1))
        else f"'{clip(expression.strip())}' never fires: there is no such date"
    )


def fires_after(form: str, moment: datetime) -> bool:
    try:
        croniter(form, moment, max_years_between_matches=150).get_next(datetime)
    except Exception:  # croniter's own searching has more ways to fail than it documents
        return False
    return True


def _plain(field: str) -> str:
    """Without ``?``, and without ranges of one value: croniter (6.2) takes ``3-3`` for ``*``."""
    return re.sub(r"(?<![\w-])(\w+)-\1(?![\w-])(?:/\d+)?", r"\1", field.replace("?", "*"), flags=re.IGNORECASE)


def _valid(form: str) -> bool:
    try:
        return bool(croniter.is_valid(form))
    except Exception:  # as above
        return False


def _weekdays(field: str, whole: str) -> str:
    """Quartz counts 1 (Sunday) to 7; ``6L`` is the last Friday, ``6#3`` the third, ``L`` alone is Saturday."""
    if field.upper() == "L":
        return "6"

    def one(match: re.Match[str]) -> str:
        number = int(match[0])
        if not 1 <= number <= 7:
            raise CronError(f"'{clip(whole)}': with seconds, weekdays count from 1 (Sunday) to 7")
        return str(number - 1)

    parts = []
    for part in field.split(","):
        step = part.partition("/")
        base, nth, which = step[0].partition("#")
        base = re.sub("|".join(_DAYS), lambda match: str(_DAYS.index(match[0].lower()) + 1), base, flags=re.I)
        base = re.sub(r"\d+", one, base)
        if base.upper().endswith("L"):
            base = f"L{base[:-1]}"
        parts.append(base + nth + which + "".join(step[1:]))
    return ",".join(parts)
