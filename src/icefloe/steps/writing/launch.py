"""From a Spark step with ``write:`` to the order of its process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from icefloe.capture.sources import Source
from icefloe.config import FILE_NAME
from icefloe.errors import UsageError
from icefloe.planner import query
from icefloe.planner.inputs import Request
from icefloe.spark.marks import Mark
from icefloe.steps.contract import Command, Launch, StepContext
from icefloe.steps.process import PUBLISHED_FILE, environment, python_program, write_private
from icefloe.steps.writing.order import Order
from icefloe.store.captures import CaptureRecord
from icefloe.workflow.step_types import SparkSettings, WriteSettings


def launch(
    context: StepContext,
    settings: SparkSettings,
    held: Sequence[CaptureRecord],
    *,
    mark: Mark,
    known: Mapping[str, int],
    branch: str,
) -> Launch:
    """``held`` are the captures that the run owns: their sources are what the SELECT may read incrementally."""
    assert settings.write is not None
    where = f"run {context.key.run_id}, step {context.key.step_id}"
    if settings.publish == "direct":
        raise UsageError(
            "write: is always published whole, publish: direct cannot be had with it",
            where=where,
            hint="leave publish out",
        )
    asked = request(settings.write, context.script(settings.script), where)
    # Read here already: what is no SELECT fails at once, before a session is asked for.
    query.read(asked.text, where=where)
    order = Order(
        config=str(context.config.root / FILE_NAME),
        request=asked,
        sources=tuple(Source.from_json(one) for capture in held for one in capture.sources),
        mark=mark,
        known=known,
        branch=branch,
        conf={key: str(value) for key, value in settings.conf.items()},
        properties=settings.write.properties,
    )
    file = context.folder / "order.json"
    write_private(file, order.to_json().encode())
    result = {"ICEFLOE_RESULT": str(context.folder / PUBLISHED_FILE)}
    return Launch(
        Command(
            (python_program(), "-m", "icefloe.steps.writing.program", str(file)),
            {**environment(context), **result},
            context.config.root,
        )
    )


def request(write: WriteSettings, text: str, where: str) -> Request:
    return Request(
        text=text,
        target=write.table,
        keys=tuple(write.keys),
        pattern=write.pattern,
        partition_by=tuple(write.partition_by),
        lookup_tables=tuple(write.lookup_tables),
        where=where,
    )
