"""What the process of a planned write tells the step that started it, beyond what was published: one file in the attempt's folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from icefloe.planner.logic import LogicVersion
from icefloe.steps.write.savings_ledger import SavingsEntry
from icefloe.whole_files import write_json

FILE = "written.json"


@dataclass(frozen=True, slots=True)
class SearchReport:
    """What the step itself has read of data files: see :class:`icefloe.rows.reads.Reads`."""

    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class WriteReport:
    """``savings`` None: not counted. ``logic`` None: nothing was published, or by other logic than the one at hand. ``compared_rows`` None:
    shadow mode is off. ``searched`` None: Spark has read everything. ``plan`` is what was carried out, as ``icefloe explain`` prints it;
    ``None``: the batch was published already."""

    savings: SavingsEntry | None = None
    logic: LogicVersion | None = None
    compared_rows: int | None = None
    searched: SearchReport | None = None
    plan: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "savings": self.savings.to_json() if self.savings is not None else None,
            "logic": self.logic.to_json() if self.logic is not None else None,
            "compared_rows": self.compared_rows,
            "searched": asdict(self.searched) if self.searched is not None else None,
            "plan": dict(self.plan) if self.plan is not None else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WriteReport:
        savings, logic, searched = data.get("savings"), data.get("logic"), data.get("searched")
        return cls(
            SavingsEntry.from_json(savings) if savings is not None else None,
            LogicVersion.from_json(logic) if logic is not None else None,
            data.get("compared_rows"),
            SearchReport(**searched) if searched is not None else None,
            data.get("plan"),
        )


def write(report: WriteReport) -> None:
    """Beside the result file, and before it: who finds a result finds this."""
    write_json(Path(os.environ["ICEFLOE_RESULT"]).with_name(FILE), report.to_json())


def read(folder: Path) -> WriteReport:
    """What an attempt has told; nothing, if it has not."""
    try:
        return WriteReport.from_json(json.loads((folder / FILE).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return WriteReport()
