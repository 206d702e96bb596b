"""What a capture or a commit can refuse, each with its own code."""

from __future__ import annotations

from icefloe.errors import ConflictError, IcefloeError, UsageError


class OtherOperationsError(IcefloeError):
    """Rows were changed by an operation that the consumer did not ask for."""

    code = "capture.other-operations"


class CaptureLostError(ConflictError):
    """Another attempt or run has taken this capture over; this one changed nothing."""

    code = "capture.lost"


class StartError(UsageError):
    """Where a consumer begins is not said, not known or not there."""

    code = "capture.start"


class ConsumerRenamedError(UsageError):
    """A version that was pushed before a consumer was renamed: run, it would read everything again under the old name."""

    code = "capture.consumer-renamed"


class CommitRefusedError(IcefloeError):
    """A checkpoint is not moved, because something that used the capture did not succeed."""

    code = "commit.refused"


class NoCaptureError(UsageError):
    """A commit names a capture step that has captured nothing in this run."""

    code = "commit.no-capture"
