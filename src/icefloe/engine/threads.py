"""Threads for calls that may block, and may never return.

A thread cannot be ended from outside. A call that takes too long is *left behind*: whoever waited for it goes on, its result is thrown
away, and its thread ends with the call instead of taking another. A new thread has its place meanwhile, so that a remote end that
hangs takes no capacity from others; but only so often, since threads cost memory. Threads are daemons: none keeps the process alive.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from icefloe import suppressed

MOST_LEFT_BEHIND = 64
"""Of one pool. With so many hanging, their places are not filled any more: the machine is to be spared, and somebody to look."""


class Call:
    """One call: queued, under way, over or left behind. ``label`` says for people whose it is."""

    __slots__ = ("began", "label", "left", "over", "work")

    def __init__(self, work: Callable[[Call], None], label: str) -> None:
        self.work = work
        self.label = label
        self.began: float | None = None
        self.left = False
        self.over = threading.Event()


class Threads:
    """At most ``most`` calls at once; more wait for their turn. Threads are started on need and kept."""

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self._most = most
        self._queue: deque[Call] = deque()
        self._running: set[Call] = set()
        self._left: set[Call] = set()
        self._threads = 0
        self._idle = 0
        self._closed = False
        self._number = 0
        self._changed = threading.Condition()

    def submit(self, work: Callable[[Call], None], label: str) -> Call:
        """``work`` deals with its own errors; one that it does not is logged and counted."""
        call = Call(work, label)
        with self._changed:
            self._queue.append(call)
            if self._idle >= len(self._queue):
                self._changed.notify()
            else:
                self._start_one()
        return call

    def leave_behind(self, call: Call, reason: str) -> None:
        """Wait for it no longer."""
        with self._changed:
            if call.over.is_set() or call.left:
                return
            call.left = True
            if call in self._queue:
                self._queue.remove(call)
                call.over.set()
                return
            self._running.discard(call)
            self._left.add(call)
            hanging = len(self._left)
            self._threads -= 1
            if self._queue:
                self._start_one()
        suppressed.count(
            f"threads.{self.name}",
            f"{reason}; its thread is left behind, {hanging} hang in this worker",
            where=call.label,
        )

    @property
    def left_behind(self) -> tuple[str, ...]:
        """Whose calls hang."""
        with self._changed:
            return tuple(call.label for call in self._left)

    @property
    def exhausted(self) -> bool:
        """So many hang that there is no thread for anything else."""
        with self._changed:
            return len(self._left) >= MOST_LEFT_BEHIND and self._threads == 0

    def overdue(self, seconds: float) -> list[Call]:
        """Calls that are under way for longer than that."""
        before = time.monotonic() - seconds
        with self._changed:
            return [call for call in self._running if call.began is not None and call.began < before]

    def close(self, seconds: float) -> list[str]:
        """Give what is queued or under way so much time to end. Returns whose has not; they end with the process."""
        until = time.monotonic() + seconds
        with self._changed:
            pending = [*self._queue, *self._running]
        unfinished = [call.label for call in pending if not call.over.wait(max(0.0, until - time.monotonic()))]
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()
        return unfinished

    def _start_one(self) -> None:
        if self._threads < self._most and len(self._left) < MOST_LEFT_BEHIND:
            self._threads += 1
            self._number += 1
            threading.Thread(target=self._serve, name=f"icefloe-{self.name}-{self._number}", daemon=True).start()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    if self._closed:
                        self._threads -= 1
                        return
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                call = self._queue.popleft()
                call.began = time.monotonic()
                self._running.add(call)
            try:
                call.work(call)
            except Exception as error:
                suppressed.count(f"threads.{self.name}", error, where=call.label)
            with self._changed:
                call.over.set()
                self._running.discard(call)
                if call.left:
                    self._left.discard(call)
                    if self._queue:
                        self._start_one()
                    return
