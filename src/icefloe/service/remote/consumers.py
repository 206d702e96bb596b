"""Consumers and captures of a server elsewhere. See :class:`icefloe.service.consumers.Consumers` for what the verbs do."""

from __future__ import annotations

from typing import Any

from icefloe.service.consumer_positions import ConsumerPosition
from icefloe.service.consumers import CaptureView, ConsumerView
from icefloe.service.interventions import Preview
from icefloe.service.remote.connection import Connection, segment
from icefloe.service.remote.values import value
from icefloe.store.audits import AuditRecord


class RemoteConsumers:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    # -- looking -----------------------------------------------------------------------------------------------------------

    def listing(self, after: str | None = None, most: int | None = None) -> list[ConsumerPosition]:
        found = self._connection.pages("/consumers", "consumers", most, after=after)
        return [value(ConsumerPosition, each) for each in found]

    def show(self, name: str) -> ConsumerView:
        return value(ConsumerView, self._connection.get(f"/consumers/{segment(name)}"))

    def captures(
        self,
        consumer: str | None = None,
        most: int = 50,
        *,
        before: tuple[float, str] | None = None,
        state: str | None = None,
    ) -> list[CaptureView]:
        after = f"{before[0]!r}:{before[1]}" if before else None
        found = self._connection.pages("/captures", "captures", most, consumer=consumer, state=state, after=after)
        return [value(CaptureView, each) for each in found]

    def capture(self, capture_id: str) -> CaptureView:
        return value(CaptureView, self._connection.get(f"/captures/{segment(capture_id)}"))

    def audit(self, consumer: str | None = None, most: int = 50, before: int | None = None) -> list[AuditRecord]:
        return audit(self._connection, consumer, most, before)

    # -- changing ----------------------------------------------------------------------------------------------------------

    def rewind(
        self,
        consumer: str,
        to: str | int,
        *,
        table: str | None = None,
        yes: bool = False,
        why: str = "",
        agreed: str | None = None,
    ) -> Preview:
        return self._act(f"/consumers/{segment(consumer)}/rewind", yes, why, agreed, to=to, table=table)

    def fast_forward(
        self,
        consumer: str,
        to: str | int = "latest",
        *,
        table: str | None = None,
        yes: bool = False,
        why: str = "",
        agreed: str | None = None,
    ) -> Preview:
        return self._act(f"/consumers/{segment(consumer)}/fast-forward", yes, why, agreed, to=to, table=table)

    def rename(
        self, consumer: str, new: str, *, yes: bool = False, why: str = "", agreed: str | None = None
    ) -> Preview:
        return self._act(f"/consumers/{segment(consumer)}/rename", yes, why, agreed, new=new)

    def remove(self, consumer: str, *, yes: bool = False, why: str = "", agreed: str | None = None) -> Preview:
        return self._act(f"/consumers/{segment(consumer)}/remove", yes, why, agreed)

    def abandon(self, capture_id: str, *, yes: bool = False, why: str = "", agreed: str | None = None) -> Preview:
        return self._act(f"/captures/{segment(capture_id)}/abandon", yes, why, agreed)

    def _act(self, path: str, yes: bool, why: str, agreed: str | None, **more: Any) -> Preview:
        return value(Preview, self._connection.post(path, {"yes": yes, "why": why, "agreed": agreed, **more}))


def audit(connection: Connection, subject: str | None, most: int, before: int | None) -> list[AuditRecord]:
    return [
        value(AuditRecord, each) for each in connection.pages("/audit", "entries", most, subject=subject, after=before)
    ]
