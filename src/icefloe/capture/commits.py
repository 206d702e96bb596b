"""Moving checkpoints: all captures of a commit in one transaction, by compare-and-set. Watermarks derived from them go along."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.engine import Connection

from icefloe.capture import completeness
from icefloe.capture.capture_attempt import checkpoints_after
from icefloe.capture.errors import CaptureLostError
from icefloe.capture.sources import Source
from icefloe.store import captures, signals
from icefloe.store.captures import CaptureRecord
from icefloe.store.signals import WatermarkRecord


def commit(connection: Connection, records: Sequence[CaptureRecord], now: float) -> None:
    """Move the checkpoints of these captures. Raises, and so moves nothing, if one of them is not this run's any more."""
    for record in records:
        if captures.move_capture(connection, record, state="committed", ended_at=now, settled=False) is None:
            raise CaptureLostError(f"capture {record.id} is not open and owned by this run any more")
        if not captures.raise_version(connection, record.consumer, record.base_version):
            raise CaptureLostError(
                f"the checkpoint of {record.consumer!r} was moved by somebody else since capture {record.id}"
            )
        for checkpoint in checkpoints_after(record, now).values():
            captures.set_checkpoint(connection, checkpoint)
        complete = completeness.reached([Source.from_json(data) for data in record.sources])
        if complete is not None:
            target, through = complete
            signals.raise_watermark(connection, WatermarkRecord(target, through, f"capture {record.id}", now))
