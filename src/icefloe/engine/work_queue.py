"""The worker's hand at the store: it records events, and keeps what came of them for the worker to do."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeVar

from sqlalchemy.engine import Connection

from icefloe.engine.conductor import Conductor
from icefloe.engine.events import Cancel, Event
from icefloe.engine.run_snapshot import RunSnapshot
from icefloe.engine.transaction import Applied, Claimed, Claimer
from icefloe.errors import UnreachableError

T = TypeVar("T")


class WorkQueue:
    """``in_hand`` counts the attempts that take a slot. Once ``closed``, nothing more is claimed."""

    def __init__(
        self,
        conductor: Conductor,
        worker: str,
        slots: int,
        serves: frozenset[str] | None,
        instant: frozenset[str],
        limits: Mapping[str, int],
    ) -> None:
        self.conductor = conductor
        self.worker = worker
        self.serves = serves
        self.todo: deque[Claimed] = deque()
        self.cancels: deque[tuple[str, Cancel]] = deque()
        self.more_ready = True
        self.closed = False
        self.in_hand: Callable[[], int] = lambda: 0
        self.slots = slots
        self._instant = instant
        self._limits = limits

    def claimer(self) -> Claimer | None:
        if self.closed:
            return None
        free = self.slots - self.in_hand() - len(self.todo)
        return Claimer(self.worker, free, self.serves, self._instant, self._limits)

    def record(self, snapshot: RunSnapshot, *events: Event, also: Callable[[Connection], None] | None = None) -> None:
        """Apply events to a run, and claim what becomes ready by them. Raises :class:`Refused`."""
        root = snapshot.record.root_id
        self.follow(self.conductor.apply(snapshot.record.id, *events, root_id=root, claimer=self.claimer(), also=also))

    def follow(self, applied: Applied) -> None:
        self.todo.extend(applied.claimed)
        self.more_ready |= applied.left_ready
        self.cancels.extend(item for item in applied.cancels if item[1].owner == self.worker)

    def durably(self, action: Callable[[], T], hopeless: Callable[[], bool]) -> T:
        """Repeat until the database answers, unless that has become ``hopeless``."""
        while True:
            try:
                return action()
            except UnreachableError:
                if hopeless():
                    raise
                time.sleep(0.2)
