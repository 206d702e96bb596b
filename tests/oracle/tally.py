"""What was exercised, for the report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    histories: int = 0
    ranges: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reads: Counter[str] = field(default_factory=Counter)
    rows: int = 0
