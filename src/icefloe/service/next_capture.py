"""What a capture step would take now. ``explain`` and ``run --dry-run`` look at the same, and neither moves anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from icefloe.capture import build, snapshot_ranges
from icefloe.capture.sources import Source, change_summary
from icefloe.lake import Lake
from icefloe.service.client import Client
from icefloe.steps.ip_capture import bounds_of, options_of
from icefloe.store import captures
from icefloe.workflow.step_types import IpCaptureSettings


def next_capture(
    client: Client,
    lake: Lake,
    settings: IpCaptureSettings,
    consumer: str,
    range_columns: Mapping[str, Mapping[str, str]],
    *,
    suffix: str,
) -> tuple[str | None, list[Source]]:
    """The open capture that a run would take over, with its sources; else ``None`` and what would be captured. ``suffix`` stands for the
    part of a change table's name that is drawn when it is made."""
    with client.database.read() as connection:
        adopted = captures.open_capture(connection, consumer)
        checkpoints = captures.checkpoints_of(connection, consumer)
    if adopted is not None and adopted.state == "built":
        return adopted.id, [Source.from_json(one) for one in adopted.sources]
    tables = source_tables(lake, settings)
    options = options_of(settings, lake, tables, range_columns, client.config)
    sources = []
    for table in tables:
        planned = snapshot_ranges.plan(
            lake,
            table,
            ref=settings.ref,
            checkpoint=checkpoints.get(table),
            start=settings.start,
            bounds=bounds_of(settings),
        )
        changes = build.find_changes(lake, planned, options)
        short = table.rsplit(".", 1)[-1].strip("`")
        name = f"{'.'.join(lake.change_table_namespace)}.{short}_{suffix}" if options.change_tables else None
        sources.append(replace(planned, change_table=name, found=change_summary(changes)))
    return None, sources


def source_tables(lake: Lake, settings: IpCaptureSettings) -> tuple[str, ...]:
    return tuple(lake.canonical_name(table) for table in settings.source_tables)
