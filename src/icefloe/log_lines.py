"""A process's log: what a line is about, and how it is written.

Whoever works on a run says so once (:func:`about`), and every line logged inside has it, in this module's JSON as fields of their own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from icefloe.credentials import MaskingFormatter, masked

FIELDS = ("run_id", "step_id", "attempt", "worker", "workflow")
_NOTHING: Mapping[str, Any] = {}
_about: ContextVar[Mapping[str, Any]] = ContextVar("icefloe_log_about", default=_NOTHING)


@contextmanager
def about(**fields: Any) -> Iterator[None]:
    """Lines logged inside are about these: ``run_id``, ``step_id``, ``attempt``, ``worker``, ``workflow``."""
    before = _about.set({**_about.get(), **fields})
    try:
        yield
    finally:
        _about.reset(before)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``at``, ``level``, ``logger``, ``message``, what the line is about, and ``trace`` of an error."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_about.get(),
        }
        # A line may also say by itself what it is about: LOG.info(…, extra={"workflow": …}).
        line |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        shown = {name: masked(value) if isinstance(value, str) else value for name, value in line.items()}
        return json.dumps(shown, default=str, ensure_ascii=False)


def formatter(kind: str) -> logging.Formatter:
    """``text`` for people, ``json`` for programs. Neither shows the project's secrets."""
    return JsonFormatter() if kind == "json" else MaskingFormatter("%(asctime)s %(message)s", datefmt="%H:%M:%S")
