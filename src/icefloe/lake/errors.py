"""What can go wrong while reading Iceberg metadata, each with its own code."""

from __future__ import annotations

from icefloe.errors import ConflictError, IcefloeError, NotFoundError, UsageError


class TableNotFoundError(NotFoundError):
    code = "lake.table-not-found"


class RefNotFoundError(NotFoundError):
    code = "lake.ref-not-found"


class ColumnNotFoundError(NotFoundError):
    code = "lake.column-not-found"


class SnapshotNotFoundError(NotFoundError):
    """The id is in no snapshot the table still has: it belongs to another table, or was expired long ago."""

    code = "lake.snapshot-not-found"


class SnapshotOrderError(UsageError):
    """Two snapshots were given that are not one after the other on the ref."""

    code = "lake.snapshot-order"


class HistoryLostError(IcefloeError):
    """The way from the checkpoint to the head is not there any more. Subclasses say why.

    ``diff_possible`` tells whether both ends are still in the metadata, so that ``on_gap: diff`` can answer.
    """

    code = "lake.history-lost"

    def __init__(
        self, message: str, *, where: str | None = None, hint: str | None = None, diff_possible: bool = False
    ) -> None:
        choices = "full (take the table as it is)"
        if diff_possible:
            choices += " or diff (compare the live files of both snapshots)"
        super().__init__(message, where=where, hint=hint or f"choose by on_gap: in a capture, --on-gap here: {choices}")
        self.diff_possible = diff_possible


class HistoryExpiredError(HistoryLostError):
    code = "lake.history-expired"


class HistoryRolledBackError(HistoryLostError):
    code = "lake.history-rolled-back"


class TableReplacedError(HistoryLostError):
    code = "lake.table-replaced"


class TableRecreatedError(HistoryLostError):
    code = "lake.table-recreated"


class RefGoneError(HistoryLostError):
    """No ``on_gap`` helps: there is nothing to read any more."""

    code = "lake.ref-gone"


class DiffImpossibleError(IcefloeError):
    """``on_gap: diff`` was asked for, but one of the two ends is gone."""

    code = "lake.diff-impossible"


class MetadataUnreadableError(IcefloeError):
    """A metadata file is corrupt, or not what its name says."""

    code = "lake.metadata-unreadable"


class MetadataMissingError(IcefloeError):
    """A metadata file that the table names is not there. Retried: maintenance may have run at the same moment."""

    code = "lake.metadata-missing"
    retryable = True


class UnsupportedTableError(IcefloeError):
    """The table uses a feature that a change table cannot carry."""

    code = "lake.table-unsupported"


class StorageError(IcefloeError):
    """The warehouse refused a write or a delete."""

    code = "lake.storage"


class NameTakenError(UsageError):
    code = "lake.name-taken"


class NotAChangeTableError(UsageError):
    """Asked to drop or replace something that Icefloe did not make."""

    code = "lake.not-a-change-table"


class CatalogRefusedError(IcefloeError):
    """The catalog answers, and will not: rights are missing, or it is read-only."""

    code = "lake.catalog-refused"
    exit_code = 3


class CommitConflictError(ConflictError):
    code = "lake.commit-conflict"


class PinRefusedError(IcefloeError):
    """``pin: require``, and the catalog would not take the reference."""

    code = "lake.pin-refused"
