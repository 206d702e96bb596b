"""What people do to workflows from a page: the verbs, refused when somebody else did the same before."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from icefloe.errors import ConflictError, NotFoundError
from icefloe.service.workflow_overview import WorkflowOverview
from icefloe.store import audits

if TYPE_CHECKING:
    from icefloe.service.client import Client

VERBS = ("pause", "resume", "activate", "deactivate", "unblock")


class WorkflowChangedError(ConflictError):
    """Somebody else did it after the page was opened."""

    code = "workflow.changed"
    retryable = False


def act(client: Client, verb: str, workflow_id: str, *, by: str, seen: str = "") -> None:
    """``seen``: the workflow's state as a page has shown it (see :func:`state_of`); empty: whatever it is."""
    if verb not in VERBS:
        raise NotFoundError(
            f"nothing that can be done to a workflow is called {verb[:40]!r}", hint=f"one of {', '.join(VERBS)}"
        )
    overview = client.overviews.one(workflow_id)
    if overview is None:
        raise NotFoundError(f"there is no workflow {workflow_id!r}", hint="icefloe workflows")
    if seen and seen != state_of(overview):
        raise _changed(client, workflow_id, overview)
    if verb == "unblock":
        client.runs.unblock(workflow_id, by=by)
    elif verb in ("pause", "resume"):
        client.workflows.set_paused(workflow_id, verb == "pause", by=by)
    else:
        client.workflows.set_active(workflow_id, verb == "activate", by=by)


def state_of(overview: WorkflowOverview) -> str:
    """What a form about a workflow carries."""
    return f"{int(overview.active)}.{int(overview.paused)}.{overview.blocked_by or ''}"


def _changed(client: Client, workflow_id: str, overview: WorkflowOverview) -> WorkflowChangedError:
    words = [] if overview.active else ["deactivated"]
    words += ["paused"] if overview.paused else []
    words += ["blocked"] if overview.blocked_by else []
    with client.database.read() as connection:
        last = next(iter(audits.listing(connection, subject=workflow_id, most=1)), None)
    ago = f"{max(time.time() - last.at, 0):.0f} s ago" if last else ""
    did = f"; the last to act on it was {last.who}: {last.verb}, {ago}" if last else ""
    state = " and ".join(words) or "active"
    return WorkflowChangedError(
        f"workflow {workflow_id} is {state} now{did}: nothing was done", hint="look at it again"
    )
