"""Answers to requests that carried an ``Idempotency-Key``, so that a request sent twice is done once.

A key is claimed before the work and finished after it. What failed is given up again: nothing was done, so it may be tried anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.database import insert_if_absent
from icefloe.store.tables import idempotency_keys


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """``request``: a digest of method, path and body. ``answer`` None: it is still being worked on, or its server has died."""

    request: str
    answer: KeptAnswer | None


def claim(connection: Connection, actor: str, name: str, request: str, now: float) -> bool:
    """Take a key for a request. False: it was taken before."""
    values = {"actor": actor, "name": name, "request": request, "status": None, "headers": None, "body": None, "made_at": now}  # fmt: skip
    return insert_if_absent(connection, idempotency_keys, values)


def find(connection: Connection, actor: str, name: str) -> KeyRecord | None:
    row = connection.execute(sa.select(idempotency_keys).where(_is(actor, name))).first()
    if row is None:
        return None
    answer = None if row.status is None else KeptAnswer(row.status, json.loads(row.headers), bytes(row.body))
    return KeyRecord(row.request, answer)


def finish(connection: Connection, actor: str, name: str, answer: KeptAnswer) -> None:
    values = {"status": answer.status, "headers": json.dumps(dict(answer.headers)), "body": answer.body}
    connection.execute(sa.update(idempotency_keys).where(_is(actor, name)).values(values))


def give_up(connection: Connection, actor: str, name: str) -> None:
    connection.execute(sa.delete(idempotency_keys).where(_is(actor, name), idempotency_keys.c.status.is_(None)))


def _is(actor: str, name: str) -> sa.ColumnElement[bool]:
    return sa.and_(idempotency_keys.c.actor == actor, idempotency_keys.c.name == name)
