"""What starts workflows of a server elsewhere. See :class:`icefloe.service.triggers.Triggers` for what the verbs do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from icefloe.service.remote.connection import Connection, segment
from icefloe.service.remote.values import value
from icefloe.service.triggers import Why
from icefloe.store.incidents import IncidentRecord
from icefloe.store.signals import SignalRecord, WatermarkRecord
from icefloe.store.triggers import SchedulerRecord
from icefloe.triggers.explanation import Explanation
from icefloe.triggers.verdicts import Verdict, VerdictKind

_OWN = ("trigger", "what", "verdict", "reason", "hint", "occasion", "in_seconds", "last_run", "next_fires", "problem")


class RemoteTriggers:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def why(self, workflow_id: str) -> Why:
        found = self._connection.get(f"/workflows/{segment(workflow_id)}/why")
        incidents = tuple(value(IncidentRecord, each) for each in found["incidents"])
        triggers = tuple(_explanation(each) for each in found["triggers"])
        return Why(found["workflow_id"], triggers, tuple(found["remarks"]), incidents)

    def next_fire(self, workflow_id: str) -> float | None:
        fire = self._connection.get(f"/workflows/{segment(workflow_id)}")["next_fire"]
        return None if fire is None else float(fire)

    def schedulers(self) -> list[SchedulerRecord]:
        return [value(SchedulerRecord, each) for each in self._connection.get("/workers")["schedulers"]]

    def signal(self, name: str, params: Mapping[str, Any], *, signal_id: str | None = None) -> tuple[str, bool]:
        found = self._connection.post("/signals", {"name": name, "params": dict(params), "id": signal_id})
        return str(found["id"]), bool(found["created"])

    def signals(self, name: str | None = None, most: int = 50, before: int | None = None) -> list[SignalRecord]:
        found = self._connection.pages("/signals", "signals", most, name=name, after=before)
        return [value(SignalRecord, each) for each in found]

    def set_watermark(
        self, table: str, valid_through: str | int, *, back: bool = False
    ) -> tuple[WatermarkRecord, bool]:
        found = self._connection.post("/watermarks", {"table": table, "valid_through": valid_through, "back": back})
        return value(WatermarkRecord, found["watermark"]), bool(found["moved"])

    def watermarks(self, table: str | None = None) -> list[WatermarkRecord]:
        return [value(WatermarkRecord, each) for each in self._connection.get("/watermarks", table=table)["watermarks"]]

    def incidents(
        self, workflow_id: str | None = None, most: int = 50, before: int | None = None, only_open: bool = False
    ) -> list[IncidentRecord]:
        found = self._connection.pages(
            "/incidents", "incidents", most, workflow=workflow_id, open=only_open, after=before
        )
        return [value(IncidentRecord, each) for each in found]


def _explanation(data: Mapping[str, Any]) -> Explanation:
    details = {name: told for name, told in data.items() if name not in _OWN}
    verdict = Verdict(
        VerdictKind(data["verdict"]), data["reason"], data["hint"], data["occasion"], data["in_seconds"], details
    )
    return Explanation(
        data["trigger"], data["what"], verdict, data["last_run"], tuple(data["next_fires"]), data["problem"]
    )
