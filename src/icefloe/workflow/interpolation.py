"""Texts with references in them.

``${name}`` is a parameter's value, ``$$`` a dollar sign. ``$FILE{path}`` and ``$S3{bucket/key}`` are the contents of files
that were stored with the version. ``$ENV{NAME}`` is a secret: it stays as it is, in every stored value and every log,
until :func:`reveal` is called where the value is used.

What only looks like a reference (``${x:-y}``, ``$HOME``) is left alone, so that shell scripts can be written as ever.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from icefloe.errors import UsageError
from icefloe.workflow.expressions.errors import ExpressionLimitError
from icefloe.workflow.expressions.library import as_text
from icefloe.workflow.scope import Scope, UnknownNameError
from icefloe.workflow.values import Value, clip, plain

MAX_TEXT = 4_000_000

_REFERENCE = re.compile(
    r"\$(?:(?P<dollar>\$)|\{\s*(?P<name>[A-Za-z_][\w.\-]*)\s*\}|(?P<kind>FILE|S3)\{(?P<path>[^{}]*)\})"
)
_SECRET = re.compile(r"\$ENV\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}")


class MissingSecretError(UsageError):
    """A secret's environment variable is not set where it is needed."""

    code = "secret.missing"


def names_in(text: str) -> Iterator[str]:
    """The parameters a text refers to."""
    for found in _REFERENCE.finditer(text):
        if found["name"]:
            yield found["name"]


def files_in(text: str) -> Iterator[str]:
    """The files a text refers to, as ``file:path`` or ``s3:bucket/key``."""
    for found in _REFERENCE.finditer(text):
        if found["kind"]:
            yield file_key(found["kind"], found["path"])


def file_key(kind: str, path: str) -> str:
    return f"{kind.lower()}:{path.strip()}"


def whole_reference(text: str) -> str | None:
    """The parameter's name when a text is nothing but one ``${name}``."""
    found = _REFERENCE.fullmatch(text.strip())
    return found["name"] if found and found["name"] else None


def interpolate(text: str, scope: Scope) -> str:
    """The text with its references filled in. Raises :class:`UnknownNameError` for those that lead nowhere."""
    return _fill(text, scope, files=True)


def _fill(text: str, scope: Scope, *, files: bool) -> str:
    if "$" not in text:
        return text
    parts: list[str] = []
    at = size = 0
    for found in _REFERENCE.finditer(text):
        parts += (text[at : found.start()], _piece(found, scope, files))
        size += len(parts[-1]) + len(parts[-2])
        if size > MAX_TEXT:
            raise ExpressionLimitError(f"a text may have {MAX_TEXT:,} characters once its references are filled in")
        at = found.end()
    return "".join((*parts, text[at:]))


def _piece(found: re.Match[str], scope: Scope, files: bool) -> str:
    if found["dollar"]:
        return "$"
    if found["name"]:
        return as_inserted(scope.param(found["name"]))
    if not files:  # a file's contents refer to parameters, not to further files
        return found.group()
    key = file_key(found["kind"], found["path"])
    if key not in scope.files:
        raise UnknownNameError(f"the version holds no file '{clip(found['path'])}'", hint="push the workflow again")
    return _fill(scope.files[key], scope, files=False)


def as_inserted(value: Value) -> str:
    """How a value looks inside a text: arrays and maps as JSON."""
    if isinstance(value, tuple | list | Mapping):
        return json.dumps(plain(value), ensure_ascii=False)
    return as_text(value)


def interpolate_json(data: Any, scope: Scope) -> Any:
    """Settings with their references filled in; a text that is one reference becomes the value with its type."""
    if isinstance(data, str):
        name = whole_reference(data)
        return plain(scope.param(name)) if name is not None else interpolate(data, scope)
    if isinstance(data, Mapping):
        return {interpolate(str(key), scope): interpolate_json(item, scope) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [interpolate_json(item, scope) for item in data]
    return data


def secrets_in(data: Any) -> Iterator[str]:
    """The names of the secrets that a text, or any text inside some data, refers to."""
    if isinstance(data, str):
        yield from (found.group(1) for found in _SECRET.finditer(data))
    elif isinstance(data, Mapping):
        for key, item in data.items():
            yield from secrets_in(key)
            yield from secrets_in(item)
    elif isinstance(data, list | tuple):
        for item in data:
            yield from secrets_in(item)


def reveal(data: Any, environment: Mapping[str, str], allowed: Collection[str]) -> Any:
    """The data with its secrets filled in. Call it last, where the value is used, and store the result nowhere.

    ``allowed`` are the secrets that the definition itself refers to (``WorkflowVersion.secrets``): a text that came out
    of data and looks like a reference to another one stays the text it is.
    """
    if isinstance(data, str):
        return _SECRET.sub(lambda found: _secret(found, environment, allowed), data)
    if isinstance(data, Mapping):
        return {key: reveal(item, environment, allowed) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [reveal(item, environment, allowed) for item in data]
    return data


def _secret(found: re.Match[str], environment: Mapping[str, str], allowed: Collection[str]) -> str:
    name = found.group(1)
    if name not in allowed:
        return found.group()
    if name not in environment:
        raise MissingSecretError(f"the secret $ENV{{{name}}} is not set", hint=f"export {name}=… where the worker runs")
    return environment[name]
