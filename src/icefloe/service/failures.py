"""What went wrong in a run, for somebody who wants to mend it: the step, its first error line, what to do now. Reads the state database alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from icefloe.engine.states import FAILED, StepStatus
from icefloe.service.views import RunView, StepView

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_NAMED = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b\s*(?::|$)")
_WORD = re.compile(r"(?i)\b(?:error|exception|fatal|failed|failure|denied|not found|traceback|panic)\b")
LONGEST_LINE = 500


@dataclass(frozen=True, slots=True)
class Failure:
    """``line``: the line of the log that says most, if one does. ``child_run``: where it failed inside."""

    step: str
    attempt: int
    status: str
    message: str
    code: str | None
    hint: str | None
    line: str | None
    child_run: str | None
    others: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def failed_steps(view: RunView) -> list[StepView]:
    """Those that failed by themselves, the first to fail first; those that were only stopped when there are no others."""
    failed = [step for step in view.steps if StepStatus(step.status) in FAILED]
    own = [step for step in failed if step.status not in (StepStatus.STOPPED, StepStatus.TIMED_OUT)]
    return sorted(own or failed, key=lambda step: step.ended_at or float("inf"))


def failure_of(view: RunView, log_tail: str, step: StepView, others: tuple[str, ...] = ()) -> Failure:
    cause = step.cause or {}
    message = str(cause.get("message") or (view.cause and view.cause.get("message")) or step.status)
    return Failure(
        step.id, step.attempts, step.status, message, cause.get("code"), cause.get("hint"), error_line(log_tail),
        step.child_run, others,
    )  # fmt: skip


def error_line(log: str) -> str | None:
    """The line of a log's end that names the error: the last exception, else the first line that speaks of one."""
    lines = [line.strip() for line in plain_text(log).splitlines() if line.strip()]
    named = [line for line in lines if _NAMED.match(line)]
    if named:
        return named[-1][:LONGEST_LINE]
    return next((line[:LONGEST_LINE] for line in lines if _WORD.search(line)), None)


def plain_text(text: str) -> str:
    """Without terminal colours, other control characters, and marks that turn the direction of reading."""
    if "\r" in text:
        # A progress bar writes over its own line: what is left of it is what stands after the last carriage return.
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.replace("\r\n", "\n").split("\n"))
    return _CONTROLS.sub("", _ESCAPES.sub("", text))
