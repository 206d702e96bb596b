"""Who may do what over HTTP: named tokens, one-time links, sessions of browsers.

Secrets are shown once, when they are made; the state database has their digests. A token's secret begins with ``icefloe_``, so that
scanners of code and logs know it.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from icefloe.acting import who
from icefloe.errors import ConflictError, IcefloeError, NotFoundError, UsageError
from icefloe.service.auditing import audit
from icefloe.store import access
from icefloe.store.access import LoginLinkRecord, SessionRecord, TokenRecord
from icefloe.store.database import Database

PREFIX = "icefloe_"
SESSION_SECONDS = 14 * 86_400.0
PROXY_SESSION_SECONDS = 12 * 3600.0
"""Shorter: the proxy knows when somebody must go, and here it is asked again only at the next login."""
LINK_SECONDS = 600.0
SERVER_TOKEN = "server-token"
"""What the server's own token is called where its deeds are recorded."""
USED_EVERY_SECONDS = 60.0
"""How exactly a token's last use is known: no write for every request."""


class Role(StrEnum):
    """What somebody may do. Each may do what those before it may."""

    viewer = "viewer"
    operator = "operator"
    admin = "admin"

    def covers(self, needed: Role) -> bool:
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(needed)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a request. ``session``: the digest of the browser's session, if it is one."""

    name: str
    role: Role
    session: str | None = None
    token_id: str | None = None


class ForbiddenError(IcefloeError):
    """Known, but not allowed to do this."""

    code = "access.forbidden"


class LinkUsedError(IcefloeError):
    """The one-time link was used before, or is too old."""

    code = "access.link"


class TokenExistsError(ConflictError):
    """Another token has this name, or had it."""

    code = "access.token-exists"
    retryable = False


@dataclass(frozen=True, slots=True)
class TokenView:
    """A token as it is listed: never its secret."""

    name: str
    role: str
    created_at: float
    created_by: str
    expires_at: float | None
    used_at: float | None
    revoked_at: float | None
    revoked_by: str | None
    valid: bool

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class Access:
    """Tokens and sessions of one project."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    # -- tokens ----------------------------------------------------------------------------------------------------------

    def add_token(
        self, name: str, role: str | Role = Role.viewer, *, days: float | None = None, by: str | None = None
    ) -> str:
        """Make a token. Returns its secret, which cannot be shown again."""
        if not (0 < len(name) <= 100) or not name.isprintable() or name != name.strip():
            raise UsageError("a token's name must have 1 to 100 printable characters", where="name")
        if name == SERVER_TOKEN:
            raise UsageError("this is the name of the server's own token", where="name", hint="choose another one")
        if role not in set(Role):
            raise UsageError(f"there is no role {role!r}", where="role", hint=f"one of {', '.join(Role)}")
        if days is not None and not 0 < days <= 36_500:
            raise UsageError("a token lives for more than 0 and at most 36,500 days", where="days")
        secret, now, maker = PREFIX + secrets.token_urlsafe(32), self._clock(), who(by)
        record = TokenRecord(
            id=secrets.token_hex(8),
            name=name,
            digest=_digest(secret),
            role=Role(role).value,
            created_at=now,
            created_by=maker,
            expires_at=now + days * 86_400 if days is not None else None,
        )
        with self._database.write() as connection:
            if access.token(connection, name) is not None:
                raise TokenExistsError(
                    f"there is a token named {name!r} already, or was: names are not used again",
                    hint="choose another name; icefloe tokens lists them",
                )
            access.add_token(connection, record)
            details = {"role": record.role, "expires_at": record.expires_at}
            audit(connection, now, "tokens add", name, details, by)
        return secret

    def tokens(self) -> list[TokenView]:
        now = self._clock()
        with self._database.read() as connection:
            records = access.all_tokens(connection)
        return [
            TokenView(
                record.name, record.role, record.created_at, record.created_by, record.expires_at, record.used_at,
                record.revoked_at, record.revoked_by, record.valid(now),
            )
            for record in records
        ]  # fmt: skip

    def revoke_token(self, name: str, *, by: str | None = None) -> bool:
        """The token and the sessions it has opened end at once. False: it was revoked before."""
        now = self._clock()
        with self._database.write() as connection:
            record = access.token(connection, name)
            if record is None:
                raise NotFoundError(f"there is no token named {name!r}", hint="icefloe tokens")
            revoked = access.revoke_token(connection, record.id, now, who(by))
            if revoked:
                audit(connection, now, "tokens revoke", name, {}, by)
        return revoked

    def actor_of_token(self, secret: str) -> Actor | None:
        """Whose token this is; None when it is unknown, expired or revoked."""
        if not secret.startswith(PREFIX):
            return None
        now = self._clock()
        with self._database.read() as connection:
            record = access.token_by_digest(connection, _digest(secret))
        if record is None or not record.valid(now):
            return None
        if record.used_at is None or now - record.used_at >= USED_EVERY_SECONDS:
            with self._database.write() as connection:
                access.mark_used(connection, record.id, now)
        return Actor(record.name, Role(record.role), token_id=record.id)

    # -- links and sessions ------------------------------------------------------------------------------------------------

    def make_link(self, role: Role = Role.admin, *, actor: str | None = None) -> str:
        """The key of a link that opens one session, within ten minutes."""
        key, now = secrets.token_urlsafe(32), self._clock()
        record = LoginLinkRecord(_digest(key), actor or who(), role.value, now, now + LINK_SECONDS)
        with self._database.write() as connection:
            access.add_link(connection, record)
            audit(connection, now, "tokens link", record.actor, {"role": role.value})
        return key

    def open_by_link(self, key: str) -> tuple[str, Actor]:
        """Use a one-time link. Returns the session's secret, for a cookie."""
        now = self._clock()
        with self._database.write() as connection:
            link = access.use_link(connection, _digest(key), now)
        if link is None:
            raise LinkUsedError(
                "this link was used before, or is older than ten minutes", hint="make a new one: icefloe tokens link"
            )
        return self.open_session(Actor(link.actor, Role(link.role)), by_means_of="link")

    def open_session(self, actor: Actor, *, by_means_of: str, seconds: float = SESSION_SECONDS) -> tuple[str, Actor]:
        """A browser's session. One that a token has opened ends when the token does."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        with self._database.write() as connection:
            ends = [
                token.expires_at
                for token in access.all_tokens(connection)
                if token.id == actor.token_id and token.expires_at is not None
            ]
            expires_at = min([now + seconds, *ends])
            record = SessionRecord(_digest(secret), actor.name, actor.role.value, actor.token_id, now, expires_at)
            access.add_session(connection, record)
            audit(connection, now, "login", actor.name, {"role": actor.role.value, "with": by_means_of}, actor.name)
        return secret, Actor(actor.name, actor.role, record.digest, actor.token_id)

    def actor_of_session(self, secret: str) -> Actor | None:
        now = self._clock()
        with self._database.read() as connection:
            record = access.session(connection, _digest(secret))
        if record is None or record.expires_at <= now:
            return None
        return Actor(record.actor, Role(record.role), record.digest, record.token_id)

    def is_valid(self, actor: Actor) -> bool:
        """Whether what let somebody in would still do so."""
        now = self._clock()
        with self._database.read() as connection:
            if actor.session is not None:
                session = access.session(connection, actor.session)
                return session is not None and session.expires_at > now
            if actor.token_id is not None:
                token = access.token_by_id(connection, actor.token_id)
                return token is not None and token.valid(now)
        return True

    def close_session(self, actor: Actor) -> None:
        if actor.session is not None:
            with self._database.write() as connection:
                access.remove_session(connection, actor.session)


def _digest(secret: str) -> str:
    """Secrets are random and long: one round of a plain hash is enough, and quick."""
    return hashlib.sha256(secret.encode()).hexdigest()
