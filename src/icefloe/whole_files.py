"""Files that are there whole or not at all, whatever dies while they are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_json(file: Path, value: Any) -> None:
    """Replace the file. Who reads it meanwhile reads the old one."""
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(value), encoding="utf-8")
    partial.replace(file)
