"""Icefloe: incremental processing for Apache Iceberg tables on Spark.

``icefloe.Client`` has the verbs of the command line, ``icefloe.Lake`` reads what changed in tables. Both are imported when they
are first used: either brings a second's worth of packages along.
"""

from typing import Any

__version__ = "0.1.0"

_LAZY = {"Client": "icefloe.service.client", "Lake": "icefloe.lake"}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _LAZY:
        raise AttributeError(f"module 'icefloe' has no attribute {name!r}")
    if name == "Client":
        from icefloe import platforms

        platforms.require_locks()
    return getattr(importlib.import_module(_LAZY[name]), name)
