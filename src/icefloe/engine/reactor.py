"""The worker's one thread: it sleeps until something happens, and then calls whom it concerns.

Sockets are watched, timers come due, and other threads leave callbacks to be made in this thread.
"""

from __future__ import annotations

import queue
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol


class HasFileno(Protocol):
    def fileno(self) -> int: ...


class Reactor:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._closed = False
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)

    def post(self, callback: Callable[[], None]) -> None:
        """Have something called in the reactor's thread; from any thread, or a signal handler."""
        self._callbacks.put(callback)
        try:
            self._wake_writer.send(b"!")
        except BlockingIOError:
            pass  # so many have rung that it wakes anyway
        except OSError:
            if not self._closed:  # else nobody listens any more: a thread that was left behind
                raise

    def at(self, moment: float, action: Callable[[], None]) -> None:
        """Call it at a moment of the monotonic clock; an action that is due sooner anyway is not added again."""
        if not any(known == action and due <= moment for due, known in self._timers):
            self._timers.append((moment, action))

    def watch(self, speaker: HasFileno, action: Callable[[], None]) -> None:
        """Call it whenever the socket has something to read, or is closed."""
        self._selector.register(speaker, selectors.EVENT_READ, action)

    def unwatch(self, speaker: HasFileno) -> None:
        self._selector.unregister(speaker)

    def busy(self) -> bool:
        """Whether somebody is waiting to be heard."""
        return not self._callbacks.empty() or bool(self._selector.select(0))

    def turn(self, until: float) -> None:
        """Sleep until ``until`` at most, and deal with what has happened."""
        now = time.monotonic()
        until = min([until, *(due for due, _ in self._timers)])
        for key, _ in self._selector.select(max(0.0, until - now)):
            if key.fileobj is self._wake_reader:
                with suppress(BlockingIOError):
                    self._wake_reader.recv(4096)
            else:
                key.data()
        with suppress(queue.Empty):
            while True:
                self._callbacks.get_nowait()()
        now = time.monotonic()
        due = [timer for timer in self._timers if timer[0] <= now]
        self._timers = [timer for timer in self._timers if timer[0] > now]
        for _, action in due:
            action()

    def close(self) -> None:
        self._closed = True
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer.close()
