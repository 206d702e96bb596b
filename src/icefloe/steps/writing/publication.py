"""The attempt's branch on the target: made at the head that the plan was made for, published by fast-forward, once.

The plan says which partitions the target has not. That must still be true when its rows are published: the branch stands on the
very snapshot that was looked at, and main is only moved while it is still there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from icefloe.lake import Lake, history
from icefloe.lake.metadata import TableMetadata
from icefloe.planner.errors import SpecChangedError
from icefloe.spark.fence import published_snapshot
from icefloe.spark.marks import PROPERTY, Mark
from icefloe.steps.writing.facts import Facts


class Publication:
    """One attempt at one target."""

    def __init__(self, session: Any, lake: Lake, facts: Facts, branch: str, log: Callable[[str], None]) -> None:
        self._session = session
        self._lake = lake
        self._facts = facts
        self._branch = branch
        self._log = log
        self._catalog, _, self._name = facts.target.sql_name.partition(".")

    def open(self, mark: Mark) -> None:
        """Make the branch, and have the session mark what it commits."""
        for key, value in mark.properties().items():
            self._session.conf.set(f"{PROPERTY}{key}", value)
        base = self._facts.base
        at = f" AS OF VERSION {base}" if base is not None else ""
        # On a table without a snapshot this makes an empty one for the branch to stand on (Iceberg 1.12).
        # An attempt that is killed leaves its branch behind: expiry takes it away.
        self._session.sql(f"ALTER TABLE {self._facts.target.sql_name} CREATE BRANCH `{self._branch}`{at} RETAIN 7 DAYS")

    def publish(self, mark: Mark) -> int:
        """Move main to the branch. The snapshot that is published."""
        name = self._facts.target.name
        metadata = self._lake.table(name).metadata
        self._refuse_if_changed(metadata)
        tip = metadata.refs[self._branch].snapshot_id
        try:
            self._session.sql(
                f"CALL {self._catalog}.system.fast_forward('{self._name}', 'main', '{self._branch}')"
            ).collect()
        except Exception as error:
            found = published_snapshot(self._lake, name, mark, {})
            if found is None:
                raise self._moved(str(error).splitlines()[0]) from error
            self._log(f"{name}: another attempt has published this batch")
            tip = found
        else:
            self._log(f"{name}: published as snapshot {tip}")
        self.discard()
        return tip

    def discard(self) -> None:
        """Take the branch away. What still writes to it lands nowhere."""
        with suppress(Exception):
            self._session.sql(f"ALTER TABLE {self._facts.target.sql_name} DROP BRANCH IF EXISTS `{self._branch}`")

    def _refuse_if_changed(self, metadata: TableMetadata) -> None:
        head = history.head(metadata, "main", table=self._facts.target.name)
        if head != self._facts.base:
            raise self._moved("another writer committed while this batch was computed")
        versions = (int(metadata.raw.get("current-schema-id") or 0), int(metadata.raw.get("default-spec-id") or 0))
        if versions != (self._facts.schema_id, self._facts.spec_id):
            raise self._moved("its schema or partitioning was changed while this batch was computed")

    def _moved(self, reason: str) -> SpecChangedError:
        return SpecChangedError(
            f"{reason}: nothing is published", where=self._facts.target.name, hint="the step is planned again"
        )
