"""Logs of attempts, in numbered chunks. A bounded log drops chunks from its middle, so a gap in the numbers is a gap in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.tables import logs


@dataclass(frozen=True, slots=True)
class LogKey:
    run_id: str
    step_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Chunk:
    number: int
    content: bytes


def _where(key: LogKey) -> sa.ColumnElement[bool]:
    return sa.and_(logs.c.run_id == key.run_id, logs.c.step_id == key.step_id, logs.c.attempt == key.attempt)


def write(connection: Connection, key: LogKey, chunks: Mapping[int, bytes], dropped: Iterable[int] = ()) -> None:
    """Write chunks, new or grown, and remove those that the bounded log no longer has."""
    numbers = [*dropped, *chunks]
    if numbers:
        connection.execute(sa.delete(logs).where(_where(key), logs.c.number.in_(numbers)))
    if chunks:
        connection.execute(
            sa.insert(logs),
            [
                {
                    "run_id": key.run_id,
                    "step_id": key.step_id,
                    "attempt": key.attempt,
                    "number": number,
                    "content": content,
                }
                for number, content in chunks.items()
            ],
        )


def read(connection: Connection, key: LogKey, since: int = 0) -> list[Chunk]:
    """Chunks from number ``since`` on."""
    query = sa.select(logs.c.number, logs.c.content).where(_where(key), logs.c.number >= since).order_by(logs.c.number)
    return [Chunk(int(row.number), bytes(row.content)) for row in connection.execute(query)]


def tail(connection: Connection, key: LogKey, chunks: int = 2) -> list[Chunk]:
    query = sa.select(logs.c.number, logs.c.content).where(_where(key)).order_by(logs.c.number.desc()).limit(chunks)
    return [Chunk(int(row.number), bytes(row.content)) for row in connection.execute(query)][::-1]


def clear(connection: Connection, key: LogKey) -> None:
    connection.execute(sa.delete(logs).where(_where(key)))
