"""What a capture step would take now. ``explain`` and ``run --dry-run`` look at the same, and neither moves anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from icefloe.capture import building, planning
from icefloe.capture.sources import Source, found_in
from icefloe.lake import Lake
from icefloe.service.client import Client
from icefloe.steps.ip_capture import bounds_of, wish_of
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
    wish = wish_of(settings, lake, tables, range_columns, client.config)
    sources = []
    for table in tables:
        planned = planning.plan(
            lake,
            table,
            ref=settings.ref,
            checkpoint=checkpoints.get(table),
            start=settings.start,
            bounds=bounds_of(settings),
        )
        changes = building.find(lake, planned, wish)
        short = table.rsplit(".", 1)[-1].strip("`")
        name = f"{'.'.join(lake.change_table_namespace)}.{short}_{suffix}" if wish.change_tables else None
        sources.append(replace(planned, change_table=name, found=found_in(changes)))
    return None, sources


def source_tables(lake: Lake, settings: IpCaptureSettings) -> tuple[str, ...]:
    return tuple(lake.canonical_name(table) for table in settings.source_tables)
