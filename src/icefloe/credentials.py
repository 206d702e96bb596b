"""What a project keeps to itself: every secret that its configuration holds or refers to, and how it is kept out of texts.

:func:`credentials` is the one list. The engine masks it in logs and causes, :mod:`icefloe.environment` keeps it out of the processes that
run user code, and definitions may not name it by ``$ENV{…}`` (:func:`refusal`).
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from pydantic import BaseModel, SecretStr

from icefloe import config as configuration
from icefloe.config import ENV_PREFIX, Config
from icefloe.errors import UsageError

MASK = "***"
SHORTEST = 4
"""A shorter password would be found in every second word, and hide nothing but the log."""
TELLING = 8
"""From here on a text inside of another one is no accident."""
LONG_PART = 16

SECRET_NAME = re.compile(
    r"passw|passphrase|secret|token|credential|authorization|session[-_.]?key|access[-_.]?key|private[-_.]?key|api[-_.]?key"
    r"|account[-_.]?key|\bsas\b",
    re.IGNORECASE,
)
_NO_SECRET = ("uri", "url", "endpoint", "provider", "enabled", "file", "path", "location", "class", "impl", "type")
_REFERENCE = re.compile(r"\$ENV\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}")
_LOGIN = re.compile(r"://([^/?#\s]*)@")
_PAIR = re.compile(r"([A-Za-z][\w.-]*)=([^\s&;,\"']+)")
_DATABASE = re.compile(r"/([^/?#]+)(?:[?#]|$)")


def names_a_secret(key: str) -> bool:
    """Whether a setting of this name holds a secret itself, not the address or the file where one is."""
    return bool(SECRET_NAME.search(key)) and not key.lower().endswith(_NO_SECRET)


@dataclass(frozen=True)
class Credentials:
    """``texts`` must be shown nowhere; ``variables`` are the names of those environment variables that the configuration takes them from."""

    texts: tuple[str, ...]
    variables: frozenset[str]

    @cached_property
    def shown_as(self) -> tuple[str, ...]:
        """Every form in which a text may show up: as it is, quoted for an address, or inside of JSON. Longest first."""
        return forms(self.texts)

    def mask(self, text: str) -> str:
        for secret in self.shown_as:
            text = text.replace(secret, MASK)
        return text

    def hold(self, name: str, value: str) -> bool:
        """Whether a variable is, or holds, one of them, whatever its name is. A short one may be a part of any path."""
        return name in self.variables or any(
            form == value or (len(form) >= TELLING and form in value) for form in self.shown_as
        )


def forms(texts: Iterable[str]) -> tuple[str, ...]:
    """Every form in which texts may show up, longest first: as they are, in an address, in JSON, and line by line."""
    lines = {line.strip() for text in texts if "\n" in text for line in text.splitlines()}
    shown = {
        form
        for text in {*texts, *(line for line in lines if len(line) >= TELLING)}
        for plain in (text, unquote(text))
        for form in (plain, *_quoted(plain), json.dumps(plain)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1])
    }
    return tuple(sorted((form for form in shown if len(form) >= SHORTEST), key=lambda form: (-len(form), form)))


def _quoted(text: str) -> Iterator[str]:
    for form in (quote(text, safe=""), quote(text), quote_plus(text)):
        yield form
        yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), form)


def credentials(config: Config, env: Mapping[str, str] | None = None) -> Credentials:
    """The one list of what is configured as a secret."""
    env = configuration.variables() if env is None else env
    names: set[str] = set()
    texts: set[str] = set()
    for key, value in settings(config):
        parts = list(_secret_parts(key, value))
        whole = _REFERENCE.fullmatch(value.strip())
        if whole and (inside := list(_secret_parts(key, _filled(value, env)))):  # such as an address with its password
            parts += inside
            names.add(whole[1])
        names.update(name for part in parts for name in _REFERENCE.findall(part))
        texts.update(_filled(part, env) for part in parts)
    names.update(_read_by_drivers(config, env))
    texts.update(env[name] for name in names if name in env)
    texts.update(value for name, value in env.items() if _is_handed_to_spark(config, name))
    texts.update(_token_in_file(config))
    return Credentials(tuple(sorted(text for text in texts if len(text) >= SHORTEST)), frozenset(names))


def _read_by_drivers(config: Config, env: Mapping[str, str]) -> Iterator[str]:
    """PostgreSQL's driver takes a password from the environment when the address has none."""
    addresses = (_filled(address or "", env) for address in (config.state.url, config.catalog.uri))
    if any(address.startswith("postgres") for address in addresses):
        yield "PGPASSWORD"


def _is_handed_to_spark(config: Config, name: str) -> bool:
    """A cloud's credentials reach Spark's users (``[spark] environment``), but no log."""
    return names_a_secret(name) and any(fnmatchcase(name, pattern) for pattern in config.spark.environment)


def settings(config: Config) -> Iterator[tuple[str, str]]:
    """Every text of the configuration, with its key."""
    for name in type(config).model_fields:
        if name != "root":
            yield from _leaves(name, getattr(config, name))


def _leaves(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, SecretStr):
        yield key, value.get_secret_value()
    elif isinstance(value, str):
        yield key, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _leaves(f"{key}.{name}", getattr(value, name))
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(f"{key}.{name}", item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(key, item)


def _secret_parts(key: str, value: str) -> Iterator[str]:
    """The parts of a value that are secrets, with their references as they stand."""
    if key.startswith("steps."):
        return
    if key == "alerts.default" or key.startswith("alerts.channels."):
        yield from (match[0] for match in _REFERENCE.finditer(value))
        if "://" in value:  # else it is a channel's name
            yield value
            # Tokens are parts of a path in many services' addresses.
            yield from (part for part in re.split(r"[/?&=@:]", value.partition("://")[2]) if len(part) >= LONG_PART)
    elif names_a_secret(key) and not _is_plain(value):
        yield value
        if key.endswith("credential") and ":" in value:  # id:secret
            yield value.partition(":")[2]
    yield from _inside(value)


def _inside(value: str) -> Iterator[str]:
    """Passwords in addresses, and ``name=value`` pairs whose name says what they are."""
    for login in _LOGIN.findall(value):
        user, colon, password = login.partition(":")
        database = _DATABASE.search(value.rpartition("@")[2])
        # One that equals its user or its database is no secret, and a word that stands in every log.
        if colon and password not in (user, database[1] if database else user):
            yield password
    for name, text in _PAIR.findall(value):
        if names_a_secret(name) and not _is_plain(text):
            yield text


def _is_plain(value: str) -> bool:
    return value.lower() in ("", "true", "false", "none") or (value.isdecimal() and len(value) < 6)


def _filled(text: str, env: Mapping[str, str]) -> str:
    """With references looked up; one that is not set stays."""
    return _REFERENCE.sub(lambda match: env.get(match[1], match[0]), text)


def _token_in_file(config: Config) -> set[str]:
    if config.server.token is not None:
        return set()
    try:
        return {(config.root / config.server.token_file).read_text(encoding="utf-8").strip()}
    except (OSError, UnicodeDecodeError):
        return set()


# -- what definitions may name --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """Why a definition may not name a variable, and what to do instead."""

    reason: str
    hint: str


def refusal(config: Config, name: str, env: Mapping[str, str] | None = None) -> Refusal | None:
    """Whether ``$ENV{name}`` in a definition is refused. The project's own credentials are, whatever ``[steps] secrets`` says."""
    env = configuration.variables() if env is None else env
    known = credentials(config, env)
    if name.startswith(ENV_PREFIX) or name in known.variables:
        return Refusal(
            f"$ENV{{{name}}} is the project's own and no step may have it",
            "give the step a login of its own, under another name",
        )
    if name in env and env[name] in known.texts:
        return Refusal(
            f"$ENV{{{name}}} holds a credential of the project's own, and no step may have it",
            "give the step a login of its own",
        )
    if not any(fnmatchcase(name, pattern) for pattern in config.steps.secrets):
        return Refusal(
            f"$ENV{{{name}}} is not among what this project lets definitions name",
            f"in icefloe.toml: [steps] secrets = [{', '.join(json.dumps(each) for each in [*config.steps.secrets, name])}]",
        )
    return None


class SecretRefusedError(UsageError):
    """A definition names a variable that it may not have."""

    code = "secret.refused"


def refuse(config: Config, names: Iterable[str], *, where: str) -> None:
    """Raises :class:`SecretRefusedError` for the first name that definitions may not have."""
    for name in sorted(names):
        refused = refusal(config, name)
        if refused is not None:
            raise SecretRefusedError(refused.reason, where=where, hint=refused.hint)


# -- everything this process says --------------------------------------------------------------------------------------------


def masked(text: str) -> str:
    """Without the secrets of any configuration that this process has read."""
    for config in configuration.in_use():
        text = credentials(config).mask(text)
    return text


class MaskingFormatter(logging.Formatter):
    """For a process's own log: whatever a line or a traceback holds, the project's secrets are not in it."""

    def format(self, record: logging.LogRecord) -> str:
        return masked(super().format(record))
