"""Who may come in: whoever shows the token. It comes from the environment, or from a file that only its owner can read.

The file is made at the first start. The token is never logged, never shown and never stored elsewhere.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from icefloe.config import Config, expand
from icefloe.errors import ConfigError, IcefloeError
from icefloe.server.answers import problem

SHORTEST = 16


class UnauthorizedError(IcefloeError):
    """No token, or a wrong one."""

    code = "server.unauthorized"


class RequireToken:
    """Refuses every request without the token, but for the paths in ``open_paths``. Compares in constant time."""

    def __init__(self, app: ASGIApp, token: str, open_paths: frozenset[str]) -> None:
        self._app = app
        self._token = token.encode()
        self._open = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._open or self._shown(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        error = UnauthorizedError(
            "the token is missing or wrong",
            hint="send the header 'Authorization: Bearer TOKEN'; icefloe serve says at its start where the token is",
        )
        await problem(error, headers={"WWW-Authenticate": "Bearer"})(scope, receive, send)

    def _shown(self, headers: Headers) -> bool:
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), self._token)


def token_of(config: Config) -> tuple[str, str]:
    """The token, and where it is, for people."""
    if config.server.token is not None:
        return _good(expand(config.server.token.get_secret_value()), "[server] token"), "[server] token"
    file = config.root / config.server.token_file
    try:
        with suppress(FileExistsError):
            _make(file)
        return _good(_read(file), str(file)), str(file)
    except OSError as error:
        raise ConfigError(f"the token's file cannot be used: {error.strerror}", where=str(file)) from error


def _make(file: Path) -> None:
    """Complete from the first moment that it has its name: two servers that start at once share one token."""
    if file.exists():
        return
    draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(secrets.token_urlsafe(32) + "\n")
        os.link(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def _read(file: Path) -> str:
    with file.open(encoding="utf-8", errors="replace") as stream:
        about = os.fstat(stream.fileno())
        if stat.S_IMODE(about.st_mode) & 0o077 or about.st_uid != os.geteuid():
            raise ConfigError(
                "others than its owner can read the token", where=str(file), hint=f"chmod 600 {file}, or delete it"
            )
        return stream.read(10_000).strip()


def _good(token: str, where: str) -> str:
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"the token must have at least {SHORTEST} characters, ASCII without spaces",
            where=where,
            hint="python -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return token
