"""How far a fetch has come, for people: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

LINE_SECONDS = 10.0
"""Between two lines where there is no terminal: enough to see that it goes on, few enough for a log."""

Update = Callable[[int], None]
"""Is given the bytes that have arrived so far."""


@contextmanager
def shown(total: int, note: Callable[[str], None] | None) -> Iterator[Update]:
    """Shows nothing without ``note``. A bar is for the thread that owns the terminal: others would draw across it."""
    if note is None or not total:
        yield lambda arrived: None
    elif sys.stderr.isatty() and threading.current_thread() is threading.main_thread():
        from rich.console import Console

        with bar(total, Console(stderr=True)) as update:
            yield update
    else:
        yield lines(total, note)


@contextmanager
def bar(total: int, console: Console) -> Iterator[Update]:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("  jars"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("jars", total=total)
        yield lambda arrived: progress.update(task, completed=arrived)


def lines(total: int, note: Callable[[str], None]) -> Update:
    last = time.monotonic()

    def update(arrived: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINE_SECONDS:
            last = now
            note(f"  {arrived / 1e6:.0f} of {total / 1e6:.0f} MB")

    return update
