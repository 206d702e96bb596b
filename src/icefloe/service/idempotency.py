"""Requests that carry a key of the caller's choice are done once, however often they are sent."""

from __future__ import annotations

import time
from collections.abc import Callable

from icefloe.errors import ConflictError, UsageError
from icefloe.store import idempotency
from icefloe.store.database import Database
from icefloe.store.idempotency import KeptAnswer

__all__ = ["IdempotencyKeys", "KeptAnswer", "KeyInUseError", "KeyReusedError"]


class KeyReusedError(UsageError):
    """The ``Idempotency-Key`` was used for another request."""

    code = "server.key-reused"


class KeyInUseError(ConflictError):
    """A request with this ``Idempotency-Key`` is being worked on."""

    code = "server.key-in-use"


class IdempotencyKeys:
    """Kept for a day (:mod:`icefloe.store.retention`). ``request`` is a digest of what was asked for."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def begin(self, actor: str, key: str, request: str) -> KeptAnswer | None:
        """Take the key, or give the answer that it has had. Who has taken it calls :meth:`finish` or :meth:`give_up`."""
        with self._database.write() as connection:
            if idempotency.claim(connection, actor, key, request, self._clock()):
                return None
            known = idempotency.find(connection, actor, key)
        if known is None:
            raise KeyInUseError("the first request with this key has failed at this moment", hint="send it again")
        if known.request != request:
            raise KeyReusedError(
                "this key was used for another request", where="Idempotency-Key", hint="take a new key for each request"
            )
        if known.answer is None:
            raise KeyInUseError(
                "a request with this key is not answered yet",
                where="Idempotency-Key",
                hint="send it again in a moment; if its server was killed, look whether it was done",
            )
        return known.answer

    def finish(self, actor: str, key: str, answer: KeptAnswer) -> None:
        with self._database.write() as connection:
            idempotency.finish(connection, actor, key, answer)

    def give_up(self, actor: str, key: str) -> None:
        """Nothing was done: the same key may try again."""
        with self._database.write() as connection:
            idempotency.give_up(connection, actor, key)
