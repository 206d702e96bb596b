"""Who cleans up, one at a time over all processes, and what went.

The lease is a counter: its holder raises it in every transaction that deletes something (:func:`beat`), so one that was thought dead and
comes back deletes nothing. Who wants it and sees the counter stand still for long enough, on its own clock, takes it over (:func:`take`).
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.database import insert_if_absent
from icefloe.store.tables import janitor, prunings

_NAME = "janitor"


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """``rounds``: how often the whole of it has been done. ``seen_at`` is for people to read."""

    name: str
    holder: str | None
    beat: int
    rounds: int
    seen_at: float


@dataclass(frozen=True, slots=True)
class PruningRecord:
    """What went of one kind in one round, or why nothing could."""

    at: float
    holder: str
    kind: str
    items: int
    bytes: int
    seconds: float
    error: str | None = None


def lease(connection: Connection) -> LeaseRecord | None:
    row = connection.execute(sa.select(janitor).where(janitor.c.name == _NAME)).first()
    return None if row is None else LeaseRecord(*row)


def take(connection: Connection, lease: LeaseRecord | None, holder: str, now: float) -> bool:
    """Take the lease as it was ``lease``: free, or held by one that no longer moves. False: it has moved since."""
    if lease is None:
        values = {"name": _NAME, "holder": None, "beat": 0, "rounds": 0, "seen_at": now}
        insert_if_absent(connection, janitor, values)
    query = sa.update(janitor).where(janitor.c.name == _NAME, janitor.c.beat == (lease.beat if lease else 0))
    query = query.where(
        janitor.c.holder.is_(None) if lease is None or not lease.holder else janitor.c.holder == lease.holder
    )
    return connection.execute(query.values(holder=holder, beat=janitor.c.beat + 1, seen_at=now)).rowcount == 1


def beat(connection: Connection, holder: str, now: float) -> bool:
    """Count up. False: somebody else has taken the lease."""
    query = sa.update(janitor).where(janitor.c.name == _NAME, janitor.c.holder == holder)
    return connection.execute(query.values(beat=janitor.c.beat + 1, seen_at=now)).rowcount == 1


def give_back(connection: Connection, holder: str, now: float, *, done: bool) -> None:
    query = sa.update(janitor).where(janitor.c.name == _NAME, janitor.c.holder == holder)
    connection.execute(
        query.values(holder=None, beat=janitor.c.beat + 1, rounds=janitor.c.rounds + int(done), seen_at=now)
    )


def record(connection: Connection, entry: PruningRecord) -> None:
    connection.execute(sa.insert(prunings), {name: getattr(entry, name) for name in entry.__slots__})


def listing(connection: Connection, most: int = 100) -> list[PruningRecord]:
    """The newest first."""
    columns = [column for column in prunings.c if column.name != "seq"]
    query = sa.select(*columns).order_by(prunings.c.seq.desc()).limit(most)
    return [PruningRecord(*row) for row in connection.execute(query)]
