"""The batch that a step works on: what changed in each source, and where its results go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icefloe.errors import UsageError
from icefloe.job.parameters import Parameters
from icefloe.job.writing import WriteMode, write_frame
from icefloe.whole_files import write_json


class NoSuchSourceError(UsageError):
    """The run's captures do not have the source that the code asks for."""

    code = "job.source"


@dataclass(frozen=True, slots=True)
class Range:
    """The bounds of a column over the changed rows. ``None``: this side is not known."""

    min: Any
    max: Any


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed in one source since the consumer's last commit."""

    session: Any
    source: str
    """The source's name, with its catalog."""
    values: Mapping[str, Any]
    """Everything that the capture step has published about it."""

    @property
    def table(self) -> str:
        """The change table's name. It holds the changed rows only, and any engine reads it."""
        if "icdc_table" not in self.values:
            raise NoSuchSourceError(
                f"there is no change table of {self.source}: its capture has capture_mode: RANGE",
                hint="read source_at_to, filtered by range_filter; or capture with capture_mode: ICDC",
            )
        return str(self.values["icdc_table"])

    def read(self) -> Any:
        """The changed rows as a DataFrame."""
        return self.session.table(self.table)

    def read_source(self) -> Any:
        """The whole source as it was when the changes were captured, not as it is now."""
        return self.session.sql(f"SELECT * FROM {self.values['source_at_to']}")

    @property
    def has_changes(self) -> bool:
        return bool(self.values["has_changes"])

    @property
    def append_only(self) -> bool:
        return bool(self.values["append_only"])

    @property
    def row_count(self) -> int:
        return int(self.values["row_count"])

    @property
    def range_filter(self) -> str:
        """A predicate for the rows of the source within the changed ranges, for ``df.where``."""
        return str(self.values["range_filter"])

    @property
    def partition_filter(self) -> str:
        """A predicate for the changed partitions."""
        return str(self.values["partition_filter"])

    @property
    def partitions(self) -> list[dict[str, Any]]:
        """The changed partitions, one map each; empty when they are not known or too many to list."""
        columns: Mapping[str, Sequence[Any]] = self.values.get("changed_partitions") or {}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def range(self, column: str) -> Range:
        """The bounds of a column that the capture lists under ``columns``."""
        return Range(self.values.get(f"{column}_min"), self.values.get(f"{column}_max"))


@dataclass(slots=True)
class Job:
    """One attempt of a step, as its code sees it. Made by the program that runs steps.

    ``admit`` is asked before a write with the table's name: it protects the table, and answers whether to write at all.
    """

    session: Any
    params: Parameters
    all_changes: tuple[Changes, ...] = ()
    args: tuple[Any, ...] = ()
    admit: Callable[[str], bool] = lambda table: True
    output_file: Path | None = None
    log: Callable[[str], None] = print
    _outputs: dict[str, Any] = field(default_factory=dict)

    def changes(self, source: str | None = None) -> Changes:
        found = self.all_changes
        if source is not None:
            wanted = source.replace("`", "").lower()
            found = tuple(
                one
                for one in found
                if one.source.replace("`", "").lower() == wanted
                or one.source.replace("`", "").lower().endswith("." + wanted)
            )
        if len(found) == 1:
            return found[0]
        known = ", ".join(one.source for one in self.all_changes)
        if not self.all_changes:
            raise NoSuchSourceError(
                "the run holds no capture, so nothing is known to have changed",
                hint="put an IpCapture step before this one",
            )
        raise NoSuchSourceError(
            f"{source!r} is no source of the run's captures" if source else "the run's captures have several sources",
            hint=f"name one of: {known}",
        )

    def write(
        self,
        data: Any,
        table: str,
        *,
        mode: WriteMode = "append",
        keys: Sequence[str] = (),
        where: str | None = None,
        partition_by: Sequence[str] = (),
    ) -> bool:
        """Write a DataFrame to a table. False: an earlier attempt has published it already, nothing is done.

        ``append`` adds the rows. ``overwrite`` replaces the partitions that the rows fall into, or with ``where`` (a
        predicate) what it matches. ``merge`` updates the rows whose ``keys`` are equal and adds the others. A table that
        does not exist is made first, partitioned by ``partition_by``.
        """
        return write_frame(
            self.session,
            data,
            table,
            mode=mode,
            keys=tuple(keys),
            where=where,
            partition_by=tuple(partition_by),
            admit=self.admit,
            log=self.log,
        )

    def output(self, values: Mapping[str, Any]) -> None:
        """Publish output parameters. May be called several times; a later value of a name replaces an earlier one."""
        self._outputs |= {name: _plain(value) for name, value in values.items()}
        if self.output_file is not None:
            write_json(self.output_file, self._outputs)


def _plain(value: Any) -> Any:
    """Dates, decimals and the like as text; numbers of other libraries as Python's own."""
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and callable(value.item):
        return _plain(value.item())
    return str(value)
