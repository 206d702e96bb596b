"""What has changed in the state database, for pages that follow it: one look for all who listen, at most once a second.

A change is a topic: ``runs``, ``run:ID``, ``workflow:ID``, ``incidents``, ``consumers``, ``signals``, ``audits``, ``system``. Who
listens hears the topics that changed since the last look, each once, and asks for what it shows again. An event's id is the place up to
which the event table was read, so that who comes back with it hears what was missed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from icefloe.errors import IcefloeError
from icefloe.store.database import Database
from icefloe.store.tables import (
    audits,
    captures,
    checkpoints,
    consumers,
    events,
    incidents,
    prunings,
    runs,
    signals,
    tokens,
    workers,
    workflows,
)

LOG = logging.getLogger("icefloe.server")
LEAST_SECONDS = 1.0
"""Between two looks."""
IDLE_SECONDS = 30.0
"""Without a listener for so long, the looking ends."""
MOST_RUNS = 200
"""So many runs are named in one change; more of them are ``runs`` alone."""


@dataclass(frozen=True, slots=True)
class Change:
    """``number``: the place in the event table up to which this has read."""

    number: int
    topics: tuple[str, ...]
    connected: bool = True
    """False: the state database does not answer."""


class ChangeFeed:
    """Looks while somebody listens. Threads wait by :meth:`after`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changed = threading.Condition()
        self._round = 0
        self._latest = Change(0, ())
        self._listened_at = 0.0
        self._thread: threading.Thread | None = None
        self._marks: dict[str, object] = {}

    def missed(self, number: int) -> Change:
        """What happened to runs after a place: for who comes back."""
        with self._database.read() as connection:
            rows = connection.execute(_EVENTS_AFTER, {"number": number}).all()
            last = connection.execute(_LAST_EVENT).scalar() or 0
        return Change(int(last), _topics_of(rows))

    def after(self, turn: int, seconds: float) -> tuple[int, Change | None]:
        """Wait for the change after the one with this turn; None when there is none in time."""
        with self._changed:
            self._listened_at = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="icefloe-changes", daemon=True)
                self._thread.start()
            if turn < 0:
                turn = self._round
            self._changed.wait_for(lambda: self._round != turn, seconds)
            return self._round, self._latest if self._round != turn else None

    def _look(self) -> None:
        watch = None
        connected = True
        try:
            while True:
                with self._changed:
                    if time.monotonic() - self._listened_at > IDLE_SECONDS:
                        self._thread = None
                        return
                try:
                    watch = watch or self._database.watch()
                    heard = watch.wait(5.0)
                    change = self._changes() if heard or not connected else None
                    if not connected:
                        change = Change(change.number if change else self._latest.number, ("all",))
                    connected = True
                except IcefloeError as error:
                    if connected:
                        LOG.warning("pages are not told of changes: %s", error)
                        self._tell(Change(self._latest.number, (), connected=False))
                    connected = False
                    change = None
                if change is not None and change.topics:
                    self._tell(change)
                time.sleep(LEAST_SECONDS)
        finally:
            if watch is not None:
                watch.close()

    def _tell(self, change: Change) -> None:
        with self._changed:
            self._latest = change
            self._round += 1
            self._changed.notify_all()

    def _changes(self) -> Change:
        with self._database.read() as connection:
            last = int(connection.execute(_LAST_EVENT).scalar() or 0)
            rows = (
                connection.execute(_EVENTS_AFTER, {"number": self._latest.number}).all() if self._latest.number else []
            )
            marks = {topic: connection.execute(query).first() for topic, query in _MARKS.items()}
        topics = list(_topics_of(rows))
        if not self._latest.number:
            topics.append("runs")
        topics += [topic for topic, mark in marks.items() if self._marks.get(topic, mark) != mark]
        self._marks = dict(marks)
        return Change(last, tuple(dict.fromkeys(topics)))


def _topics_of(rows: Iterable[Any]) -> tuple[str, ...]:
    pairs = [(row.run_id, row.workflow_id) for row in rows]
    if not pairs:
        return ()
    by_run = [f"run:{run_id}" for run_id, _ in pairs] if len(pairs) <= MOST_RUNS else []
    return ("runs", *by_run, *dict.fromkeys(f"workflow:{workflow_id}" for _, workflow_id in pairs))


def _row(*values: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """One row of values that have nothing to do with each other."""
    return sa.select(*(sa.select(value).scalar_subquery() for value in values))


_LAST_EVENT = sa.select(sa.func.max(events.c.seq))
_EVENTS_AFTER = (
    sa.select(events.c.run_id, runs.c.workflow_id)
    .join(runs, runs.c.id == events.c.run_id)
    .where(events.c.seq > sa.bindparam("number"))
    .distinct()
    .limit(MOST_RUNS + 1)
)
_MARKS = {
    "incidents": _row(sa.func.max(incidents.c.seq), sa.func.max(incidents.c.closed_at)),
    "consumers": _row(
        sa.func.max(checkpoints.c.moved_at), sa.func.max(captures.c.ended_at), sa.func.count(consumers.c.name)
    ),
    "audits": _row(sa.func.max(audits.c.seq)),
    "signals": _row(sa.func.max(signals.c.seq)),
    "workflows": _row(sa.func.max(workflows.c.updated_at), sa.func.sum(workflows.c.paused)),
    "system": _row(
        sa.func.count(workers.c.id),
        sa.func.max(workers.c.started_at),
        sa.func.max(tokens.c.created_at),
        sa.func.max(tokens.c.revoked_at),
    ),
    "janitor": _row(sa.func.max(prunings.c.seq)),
}
"""One row each, which is another when something has changed."""
