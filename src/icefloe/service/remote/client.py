"""``icefloe.Client`` of a server elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from icefloe.errors import UsageError
from icefloe.service.remote.connection import Connection, segment
from icefloe.service.remote.runs import RemoteRuns
from icefloe.service.remote.values import value
from icefloe.service.views import Pushed, RunView
from icefloe.store import workers
from icefloe.store.audits import AuditRecord
from icefloe.store.workers import WorkerRecord

if TYPE_CHECKING:
    from icefloe.service.remote.consumers import RemoteConsumers
    from icefloe.service.remote.triggers import RemoteTriggers
    from icefloe.service.remote.workflows import RemoteWorkflows
    from icefloe.service.savings import Savings
    from icefloe.workflow.diff import Diff

TOKEN_VARIABLE = "ICEFLOE_TOKEN"
LOOK_SECONDS = 0.5


class RemoteClient:
    """The same verbs, the same values and the same errors as :class:`icefloe.service.client.Client`, over REST.

    What needs this machine's project is not here: ``work``, ``lake``, a consumer's ``preview`` in a notebook.

    with Client("https://icefloe.example.com", token="icefloe_…") as icefloe:
        run = icefloe.runs.start("playback.agg", {"DAY": 20260101})
        icefloe.wait(run.run_id)
    """

    def __init__(self, address: str, token: str | None = None, *, transport: httpx.BaseTransport | None = None) -> None:
        token = token or os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            raise UsageError(
                "a server wants to know who asks, and there is no token",
                hint=f"an admin makes one: icefloe tokens add NAME --role operator; put it into {TOKEN_VARIABLE}",
            )
        self._connection = Connection(address, token, transport=transport)
        self.address = self._connection.address
        self.runs = RemoteRuns(self._connection)

    def __enter__(self) -> RemoteClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @cached_property
    def workflows(self) -> RemoteWorkflows:
        from icefloe.service.remote.workflows import RemoteWorkflows

        return RemoteWorkflows(self._connection)

    @cached_property
    def triggers(self) -> RemoteTriggers:
        from icefloe.service.remote.triggers import RemoteTriggers  # PyIceberg takes a second to import

        return RemoteTriggers(self._connection)

    @cached_property
    def consumers(self) -> RemoteConsumers:
        from icefloe.service.remote.consumers import RemoteConsumers  # PyIceberg takes a second to import

        return RemoteConsumers(self._connection)

    # -- definitions -------------------------------------------------------------------------------------------------------

    def push(self, files: Sequence[Path]) -> list[Pushed]:
        return self.workflows.push_files(files)

    def diff(self, file: Path) -> dict[str, Diff | None]:
        return self.workflows.diff_file(file)

    def next_fires(self) -> dict[str, float | None]:
        return {each["id"]: each["next_fire"] for each in self.workflows.documents()}

    # -- looking -----------------------------------------------------------------------------------------------------------

    def explain_documents(self, workflow_id: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        found = self._connection.post(f"/workflows/{segment(workflow_id)}/explain", {"params": dict(params or {})})
        return list(found["steps"])

    def changes_document(self, table: str, *, create: str | None = None, **options: Any) -> dict[str, Any]:
        """What changed in a table; with ``create`` also a change table of it."""
        wanted = {name: told for name, told in options.items() if told is not None}
        if create is None:
            listed = {name: ",".join(told) if isinstance(told, list) else told for name, told in wanted.items()}
            return dict(self._connection.get(f"/tables/{segment(table)}/changes", **listed))
        return dict(self._connection.post(f"/tables/{segment(table)}/change-tables", {"name": create, **wanted}))

    def change_table_documents(self) -> list[dict[str, Any]]:
        return list(self._connection.get("/change-tables")["change_tables"])

    def drop_change_table(self, name: str) -> dict[str, Any]:
        return dict(self._connection.delete(f"/change-tables/{segment(name)}"))

    def clean_change_tables(self, older_than_hours: float) -> list[str]:
        return list(self._connection.post("/change-tables/clean", {"older_than_hours": older_than_hours})["removed"])

    def savings(self, workflow_id: str | None = None, *, since: float | None = None) -> Savings:
        from icefloe.service.savings import Savings  # the planner takes a second to import

        return Savings.from_dict(self._connection.get("/savings", workflow=workflow_id, since=since))

    def audit(self, subject: str | None = None, most: int = 50, before: int | None = None) -> list[AuditRecord]:
        from icefloe.service.remote.consumers import audit

        return audit(self._connection, subject, most, before)

    def workers(self) -> list[WorkerRecord]:
        found = self._connection.get("/workers")["workers"]
        return [value(WorkerRecord, each, lock_file="", beat=0) for each in found]

    def worker_alive(self) -> bool:
        return any(worker.serves == "*" and worker.status == workers.ALIVE for worker in self.workers())

    def works_in_place(self) -> bool:
        """Never: runs are worked on over there."""
        return False

    def wait(
        self, run_id: str, *, on_change: Callable[[RunView], None] | None = None, timeout: float | None = None
    ) -> RunView:
        """Wait for the run's end."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            view = self.runs.show(run_id, events=False)
            if on_change is not None:
                on_change(view)
            if view.ended:
                return self.runs.show(run_id)
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"run {run_id} has not ended within {timeout} s")
            time.sleep(LOOK_SECONDS)
