"""OpenLineage events are sent by a thread of ``icefloe serve``, from the record of events: no step waits for it, and workers need no
setting.

Each is sent at least once, in the order of the record. How far it has come is kept in the state database, so that it goes on from there
after a restart, or in another server: of several only one sends. A receiver that is away is asked again; what it refuses, and what the
janitor has deleted before it was sent, is dropped, logged and counted.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.engine import Connection

from icefloe import suppressed
from icefloe.config import Config
from icefloe.errors import IcefloeError
from icefloe.service.lineage_receivers import EventRefusedError, Receiver, ReceiverAwayError
from icefloe.service.run_events import Event, RunEvents
from icefloe.store import deliveries
from icefloe.store.activity import MoveRecord, Place, moves_after
from icefloe.store.database import Database

NAME = "openlineage"
EVERY_SECONDS = 1.0
MOVES_AT_ONCE = 200
LEASE_SECONDS = 30.0
RENEW_SECONDS = 5.0
MOST_PAUSE_SECONDS = 60.0
LAST_SECONDS = 5.0
"""So long it goes on sending when the server ends."""


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """Since this process began. ``refused``: by the receiver, or because what is stored makes no event. ``pruned``: moves of the record, of which each is at most two events."""

    sent: int = 0
    refused: int = 0
    pruned: int = 0


class LineageDelivery:
    """``start`` returns at once; ``stop`` sends what is left, within some seconds."""

    def __init__(
        self, config: Config, database: Database, receiver: Receiver, *, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        self.id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self.counts = DeliveryCounts()
        self._database, self._receiver, self._lease_seconds = database, receiver, lease_seconds
        self._events = RunEvents(config)
        self._place: Place | None = None
        self._caught_up_at = 0.0
        """All that had happened by then is told."""
        self._renewed = self._retry_at = 0.0
        self._other: tuple[str | None, int, float] | None = None
        self._pause = 0.0
        self._stopped = threading.Event()
        self._until = float("inf")
        self._thread = threading.Thread(target=self._repeat, name="icefloe-openlineage", daemon=True)

    @property
    def last(self) -> int | None:
        """The number of the last event of the record that was passed; None: another server sends, or none yet."""
        place = self._place
        return None if place is None else place.last

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._until = time.monotonic() + LAST_SECONDS
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(2 * LAST_SECONDS + 5)

    def _repeat(self) -> None:
        last, more = False, True
        while not last:
            last = self._stopped.wait(0.0 if more else EVERY_SECONDS)
            try:
                more = self._round(last=last)
                while last and more and time.monotonic() < self._until:
                    more = self._round(last=last)
            except IcefloeError as error:
                more = False
                suppressed.count("openlineage.read", error)
            except Exception as error:
                more = False
                suppressed.count("openlineage.send", error)
        with suppressed.errors("openlineage.give_back", IcefloeError), self._database.write() as connection:
            deliveries.give_back(connection, NAME, self.id)
        self._receiver.close()

    def _round(self, *, last: bool) -> bool:
        """Send a part of what is new. True: there may be more at once."""
        place = self._place = self._place or self._take()
        if place is None:
            return False
        passed = 0
        if last or time.monotonic() >= self._retry_at:
            passed = self._send_new(place)
        if self._place is not None and (passed or time.monotonic() - self._renewed > RENEW_SECONDS):
            self._keep(place)
        return passed == MOVES_AT_ONCE

    def _send_new(self, place: Place) -> int:
        began, before = time.time(), place.last
        with self._database.read() as connection:
            moves = moves_after(connection, place, MOVES_AT_ONCE)
            told = [(move.seq, self._made(connection, move)) for move in moves]
            pruned = deliveries.pruned_since(connection, self._caught_up_at)
        passed = self._send(place, told)
        if pruned:
            self._count_pruned(before, place, moves[:passed])
        # What was deleted behind the place is counted with what comes next.
        if passed == len(moves) < MOVES_AT_ONCE and (moves or not pruned):
            self._caught_up_at = began
        return passed

    def _made(self, connection: Connection, move: MoveRecord) -> list[Event] | ValueError:
        try:
            return self._events.of(connection, move)
        except (LookupError, TypeError, ValueError) as error:
            # Something stored that this program does not understand holds up nothing that comes after it.
            return ValueError(f"entry {move.seq} of run {move.run_id}: {error!r}")

    def _send(self, place: Place, told: Sequence[tuple[int, list[Event] | ValueError]]) -> int:
        """How many moves are passed. The first that cannot be sent now ends it."""
        for number, (seq, events) in enumerate(told):
            if isinstance(events, ValueError):
                self._drop(events, "no event")
                place.pass_by(seq)
                continue
            for event in events:
                if time.monotonic() > self._until:
                    return number
                if time.monotonic() - self._renewed > RENEW_SECONDS:
                    self._keep(place)
                    if self._place is None:
                        return 0
                try:
                    self._receiver.send(event)
                    self.counts = replace(self.counts, sent=self.counts.sent + 1)
                except EventRefusedError as error:
                    self._drop(error, f"{event['eventType']} of {event['job']['name']}")
                except ReceiverAwayError as error:
                    suppressed.count("openlineage.send", str(error))
                    self._pause = min(max(2 * self._pause, EVERY_SECONDS), MOST_PAUSE_SECONDS)
                    self._retry_at = time.monotonic() + self._pause
                    return number
            place.pass_by(seq)
        self._pause = 0.0
        return len(told)

    def _drop(self, error: Exception, about: str) -> None:
        self.counts = replace(self.counts, refused=self.counts.refused + 1)
        suppressed.count("openlineage.refused", f"dropped: {error}", where=about)

    def _count_pruned(self, before: int, place: Place, passed: Sequence[MoveRecord]) -> None:
        """Numbers that are missing, where the janitor has deleted something since all was told."""
        there = sum(move.seq > before for move in passed)
        missing = place.last - before - there
        if missing > 0:
            self.counts = replace(self.counts, pruned=self.counts.pruned + missing)
            suppressed.count(
                "openlineage.pruned", f"{missing} entries of the record were deleted before they were sent"
            )

    # -- the place ---------------------------------------------------------------------------------------------------------

    def _take(self) -> Place | None:
        """The place, when nobody else sends from it."""
        now = time.monotonic()
        with self._database.write() as connection:
            record = deliveries.load(connection, NAME, time.time())
            if record.holder is not None:
                known = self._other
                if known is None or known[:2] != (record.holder, record.beat):
                    self._other = record.holder, record.beat, now
                    return None
                if now - known[2] < self._lease_seconds:
                    return None
            if not deliveries.take(connection, record, self.id):
                return None
        self._other, self._caught_up_at, self._renewed = None, record.caught_up_at, now
        return Place.from_text(record.place)

    def _keep(self, place: Place) -> None:
        with self._database.write() as connection:
            mine = deliveries.keep(connection, NAME, self.id, place, self._caught_up_at)
        self._renewed = time.monotonic()
        if not mine:
            self._place = None
