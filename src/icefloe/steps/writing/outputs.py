"""Output parameters of a step with ``write:``, for other steps to read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from icefloe.steps.process import OUTPUT_VARIABLE


def publish(values: Mapping[str, int | str]) -> None:
    """Beside what was published before; a later value of a name replaces an earlier one. Outside of a step nothing is written."""
    if OUTPUT_VARIABLE not in os.environ:
        return
    file = Path(os.environ[OUTPUT_VARIABLE])
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps({**known, **values}), encoding="utf-8")
    partial.replace(file)
