"""Whether a capture's batch is in a target already: by the store, and by the marks in the targets themselves.

The store is told of a publication after it has happened, so a process that died in between leaves only the mark. Which
tables to look into is known from the batches that this consumer published before, and from the Spark steps of the run that
holds the capture, with their parameters filled in as they were for the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from icefloe.engine.conductor import Conductor
from icefloe.engine.evaluation import Evaluation
from icefloe.engine.run_snapshot import RunSnapshot
from icefloe.errors import NotFoundError, UsageError
from icefloe.lake import Lake, history
from icefloe.spark import targets
from icefloe.store import captures, definitions, runs
from icefloe.store.captures import CaptureRecord
from icefloe.store.database import Database
from icefloe.workflow.files import script_key
from icefloe.workflow.model import TypedStep

CAPTURE_LABEL = "icefloe.capture"


@dataclass(frozen=True, slots=True)
class Published:
    """A snapshot of a target that holds a batch."""

    target: str
    snapshot_id: int

    def __str__(self) -> str:
        return f"{self.target} (snapshot {self.snapshot_id})"


class PublishedMarks:
    """Reads only."""

    def __init__(self, database: Database, lake: Lake, conductor: Conductor) -> None:
        self._database = database
        self._lake = lake
        self._conductor = conductor

    def of(self, capture: CaptureRecord) -> list[Published]:
        with self._database.read() as connection:
            stored = captures.publications_of(connection, [capture.id])
            known = captures.targets_of(connection, capture.consumer)
        found = {(one["target"], one["snapshot_id"]): None for one in stored}
        for target in dict.fromkeys((*known, *self._targets_of_run(capture.run_id))):
            for snapshot_id in self._marked(target, capture.id):
                found[(target, snapshot_id)] = None
        return [Published(*one) for one in found]

    def _marked(self, target: str, capture_id: str) -> Iterator[int]:
        try:
            metadata = self._lake.table(target).metadata
            head = history.head(metadata, "main", table=target)
        except NotFoundError:
            return  # a table that is not there holds nothing
        for snapshot in history.ancestors(metadata, head) if head is not None else ():
            if capture_id in snapshot.summary.get(CAPTURE_LABEL, "").split(","):
                yield snapshot.id

    def _targets_of_run(self, run_id: str) -> Iterator[str]:
        """What the Spark steps of a run and of the runs inside it write to, as far as they came."""
        with self._database.read() as connection:
            members = [one.id for one in runs.members(connection, run_id)]
            images = [self._conductor.snapshots.get(connection, member) for member in members]
        for image in images:
            evaluation = Evaluation(self._image, image, self._file)
            for step in image.definition.container(image.record.path).steps:
                if isinstance(step, TypedStep) and step.type == "Spark":
                    try:
                        settings = evaluation.step(step).settings
                        yield from (self._lake.canonical_name(name) for name in self._written(image, settings))
                    except UsageError:
                        continue  # its parameters were never complete: it cannot have run

    def _written(self, image: RunSnapshot, settings: Any) -> Iterator[str]:
        write = settings.get("write")
        if write:
            yield str(write["table"])
            return
        script = str(settings["script"])
        yield from settings.get("targets") or ()
        key = script_key(script)
        if key is not None and script.strip().lower().endswith(".py"):
            return  # what it writes is known from what it has published before, and from its targets:
        if key is not None:
            script = (self._file(image.definition.files[key]) or b"").decode("utf-8")
        yield from (one.target for one in targets.parse(script) if one.target is not None)

    def _image(self, run_id: str) -> RunSnapshot:
        with self._database.read() as connection:
            return self._conductor.snapshots.get(connection, run_id)

    def _file(self, digest: str) -> bytes | None:
        with self._database.read() as connection:
            return definitions.file(connection, digest)
