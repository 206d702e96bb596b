"""The live view of a run: a table that redraws itself on a terminal, one line per change elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from rich.live import Live

from icefloe.cli.output import note, notes
from icefloe.service.views import RunView, StepView


class Progress:
    """``last_line`` gives the end of a running step's log: what a Spark step says about its stages, for one."""

    def __init__(self, *, quiet: bool = False, last_line: Callable[[StepView], str] = lambda step: "") -> None:
        self._quiet = quiet
        self._last_line = last_line
        self._live = (
            Live(console=notes, refresh_per_second=8, transient=True) if notes.is_terminal and not quiet else None
        )
        self._seen: dict[str, tuple[str, int]] = {}

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, view: RunView) -> None:
        from icefloe.cli.runs import remark, steps_table

        if self._live is not None:
            self._live.update(steps_table(view.steps, doing=self._last_line))
            return
        for step in view.steps:
            now = (step.status, step.attempts)
            if not self._quiet and step.status != "CREATED" and self._seen.get(step.id) != now:
                note(f"  {step.id}: {step.status}" + (f" ({remark(step)})" if step.cause else ""))
            self._seen[step.id] = now
