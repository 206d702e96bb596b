"""How far the record of what has happened was told elsewhere, and who tells it: one process at a time.

The lease is a counter, as the janitor's is (:mod:`icefloe.store.janitor`): its holder raises it whenever it keeps its place, so one that
was thought dead and comes back moves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.activity import Place
from icefloe.store.database import insert_if_absent
from icefloe.store.tables import deliveries, prunings


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """``place``: see :class:`icefloe.store.activity.Place`. ``caught_up_at``: what had happened by then was told, all of it."""

    name: str
    holder: str | None
    beat: int
    place: str
    caught_up_at: float


def load(connection: Connection, name: str, now: float) -> DeliveryRecord:
    """The first time it begins behind what has happened so far."""
    row = connection.execute(sa.select(deliveries).where(deliveries.c.name == name)).first()
    if row is not None:
        return DeliveryRecord(*row)
    place = Place.of_last_move(connection).to_text()
    values = {"name": name, "holder": None, "beat": 0, "place": place, "caught_up_at": now}
    insert_if_absent(connection, deliveries, values)
    return DeliveryRecord(*connection.execute(sa.select(deliveries).where(deliveries.c.name == name)).one())


def take(connection: Connection, record: DeliveryRecord, holder: str) -> bool:
    """Take it over as it was ``record``. False: it has moved since."""
    query = sa.update(deliveries).where(deliveries.c.name == record.name, deliveries.c.beat == record.beat)
    return connection.execute(query.values(holder=holder, beat=deliveries.c.beat + 1)).rowcount == 1


def keep(connection: Connection, name: str, holder: str, place: Place, caught_up_at: float) -> bool:
    """Keep the place, and go on holding it. False: somebody else has taken it over."""
    query = sa.update(deliveries).where(deliveries.c.name == name, deliveries.c.holder == holder)
    values = query.values(place=place.to_text(), beat=deliveries.c.beat + 1, caught_up_at=caught_up_at)
    return connection.execute(values).rowcount == 1


def give_back(connection: Connection, name: str, holder: str) -> None:
    query = sa.update(deliveries).where(deliveries.c.name == name, deliveries.c.holder == holder)
    connection.execute(query.values(holder=None, beat=deliveries.c.beat + 1))


def pruned_since(connection: Connection, moment: float) -> bool:
    """Whether the janitor has deleted events since then."""
    query = sa.select(prunings.c.at).where(prunings.c.kind.in_(("events", "runs")), prunings.c["items"] > 0)
    # The newest one alone: this is asked every second, and the record of them is long.
    newest = connection.execute(query.order_by(prunings.c.seq.desc()).limit(1)).scalar()
    return newest is not None and newest >= moment
