"""How large a Spark's heap may become that nobody has said anything about."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

LEAST, MOST = 2, 8
"""Gigabytes of the local server. With the least, a day's load of a million rows makes it stop for all of its memory every other time."""
SUBMITTED = "2g"
"""Of a driver that ``spark-submit`` starts, wherever that is."""
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def of_the_server(limits: Iterable[Path] = _LIMITS) -> str:
    """A quarter of what there is on this machine, or in this container."""
    return f"{min(max(_total(limits) // 4 >> 30, LEAST), MOST)}g"


def _total(limits: Iterable[Path]) -> int:
    known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for place in limits:
        try:
            text = place.read_text(encoding="ascii").strip()
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        if text.isdigit():
            known.append(int(text))
    return min(known)
