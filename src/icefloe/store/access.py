"""Tokens, sessions of browsers and links that open one. Only digests of secrets are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from icefloe.store.tables import login_links, sessions, tokens


@dataclass(frozen=True, slots=True)
class TokenRecord:
    id: str
    name: str
    digest: str
    role: str
    created_at: float
    created_by: str
    expires_at: float | None = None
    used_at: float | None = None
    revoked_at: float | None = None
    revoked_by: str | None = None

    def valid(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A browser that has logged in. ``token_id``: it ends with the token that opened it."""

    digest: str
    actor: str
    role: str
    token_id: str | None
    opened_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class LoginLinkRecord:
    digest: str
    actor: str
    role: str
    made_at: float
    expires_at: float
    used_at: float | None = None


def add_token(connection: Connection, record: TokenRecord) -> None:
    connection.execute(sa.insert(tokens), _values(record))


def token_by_digest(connection: Connection, digest: str) -> TokenRecord | None:
    row = connection.execute(sa.select(tokens).where(tokens.c.digest == digest)).first()
    return TokenRecord(**row._mapping) if row else None


def token_by_id(connection: Connection, token_id: str) -> TokenRecord | None:
    row = connection.execute(sa.select(tokens).where(tokens.c.id == token_id)).first()
    return TokenRecord(**row._mapping) if row else None


def token(connection: Connection, name: str) -> TokenRecord | None:
    row = connection.execute(sa.select(tokens).where(tokens.c.name == name)).first()
    return TokenRecord(**row._mapping) if row else None


def all_tokens(connection: Connection) -> list[TokenRecord]:
    return [TokenRecord(**row._mapping) for row in connection.execute(sa.select(tokens).order_by(tokens.c.name))]


def mark_used(connection: Connection, token_id: str, now: float) -> None:
    connection.execute(sa.update(tokens).where(tokens.c.id == token_id).values(used_at=now))


def revoke_token(connection: Connection, token_id: str, now: float, by: str) -> bool:
    """The token, and every session it has opened."""
    update = sa.update(tokens).where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None))
    revoked = connection.execute(update.values(revoked_at=now, revoked_by=by)).rowcount == 1
    connection.execute(sa.delete(sessions).where(sessions.c.token_id == token_id))
    return revoked


def add_session(connection: Connection, record: SessionRecord) -> None:
    connection.execute(sa.insert(sessions), _values(record))


def session(connection: Connection, digest: str) -> SessionRecord | None:
    row = connection.execute(sa.select(sessions).where(sessions.c.digest == digest)).first()
    return SessionRecord(**row._mapping) if row else None


def remove_session(connection: Connection, digest: str) -> None:
    connection.execute(sa.delete(sessions).where(sessions.c.digest == digest))


def add_link(connection: Connection, record: LoginLinkRecord) -> None:
    connection.execute(sa.insert(login_links), _values(record))


def use_link(connection: Connection, digest: str, now: float) -> LoginLinkRecord | None:
    """The link, if it is valid and nobody has used it. Of two that come at once, one gets it."""
    valid = sa.and_(login_links.c.digest == digest, login_links.c.used_at.is_(None), login_links.c.expires_at > now)
    if connection.execute(sa.update(login_links).where(valid).values(used_at=now)).rowcount != 1:
        return None
    row = connection.execute(sa.select(login_links).where(login_links.c.digest == digest)).one()
    return LoginLinkRecord(**row._mapping)


def _values(record: TokenRecord | SessionRecord | LoginLinkRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}
