"""Names of tables, as Spark SQL takes them and as tuples. Apart from the lake, so that a name can be read without a catalog."""

from __future__ import annotations

import re
from collections.abc import Sequence

from icefloe.errors import UsageError

Identifier = tuple[str, ...]


def parse_identifier(name: str | Sequence[str], *, catalog: str) -> Identifier:
    """``db.table``, ``catalog.db.table`` or ``db.`odd name``` as a tuple without the catalog."""
    parts = split_name(name) if isinstance(name, str) else tuple(name)
    if len(parts) > 2 and parts[0] == catalog:
        parts = parts[1:]
    if len(parts) < 2 or not all(parts):
        raise UsageError(f"{name!r} has no namespace", hint="write it as db.table")
    if any(not part.isprintable() for part in parts):
        raise UsageError(f"{name!r} has unprintable characters in it", hint="write it as db.table")
    return parts


def split_name(name: str) -> Identifier:
    """The parts of a name as Spark SQL takes it, without their backticks."""
    if not _WHOLE.fullmatch(name):
        raise UsageError(f"{name!r} is not a table name", hint="write it as db.table; quote odd names with backticks")
    return tuple(m[1].replace("``", "`") if m[1] is not None else m[2] for m in _PART.finditer(name))


def format_identifier(identifier: Identifier) -> str:
    """The name as Spark SQL takes it, quoted only where it must be."""
    return ".".join(p if _PLAIN.fullmatch(p) else "`" + p.replace("`", "``") + "`" for p in identifier)


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_WHOLE = re.compile(r"(?:`(?:[^`]|``)+`|[^.`]+)(?:\.(?:`(?:[^`]|``)+`|[^.`]+))*")
