"""Runs of a server elsewhere. See :class:`icefloe.service.runs.Runs` for what the verbs do."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from icefloe.errors import NotFoundError
from icefloe.service.remote.connection import Connection, segment
from icefloe.service.remote.values import value
from icefloe.service.views import LogPart, RunView, Started


class RemoteRuns:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    # -- starting and changing ---------------------------------------------------------------------------------------------

    def start(
        self,
        workflow_id: str,
        params: Mapping[str, Any] | None = None,
        *,
        texts: Mapping[str, str] | None = None,
        version: int | None = None,
        occasion: str | None = None,
    ) -> Started:
        body = {
            "workflow": workflow_id, "params": dict(params or {}), "texts": dict(texts or {}), "version": version,
            "occasion": occasion,
        }  # fmt: skip
        return value(Started, self._connection.post("/runs", body))

    def stop(self, run_id: str, *, seen: int | None = None) -> RunView:
        return self._act(run_id, "stop", None, seen)

    def kill(self, run_id: str, *, seen: int | None = None) -> RunView:
        return self._act(run_id, "kill", None, seen)

    def pause(self, run_id: str, *, seen: int | None = None) -> RunView:
        return self._act(run_id, "pause", None, seen)

    def resume(self, run_id: str, *, seen: int | None = None) -> RunView:
        return self._act(run_id, "resume", None, seen)

    def skip(self, run_id: str, step_id: str, *, seen: int | None = None) -> RunView:
        return self._act(run_id, "skip", {"step": step_id}, seen)

    def restart(
        self,
        run_id: str,
        *,
        step: str | None = None,
        from_beginning: bool = False,
        texts: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        version: str | None = None,
        seen: int | None = None,
    ) -> RunView:
        body = {
            "step": step, "from_beginning": from_beginning, "texts": dict(texts or {}), "params": dict(params or {}),
            "version": version,
        }  # fmt: skip
        return self._act(run_id, "restart", body, seen)

    def unblock(self, workflow_id: str) -> None:
        self._connection.post(f"/workflows/{segment(workflow_id)}/unblock")

    def _act(self, run_id: str, verb: str, body: Mapping[str, Any] | None, seen: int | None) -> RunView:
        return value(RunView, self._connection.post(f"/runs/{segment(run_id)}/{verb}", body, seen=seen))

    # -- looking -----------------------------------------------------------------------------------------------------------

    def listing(
        self,
        workflow_id: str | None = None,
        status: str | None = None,
        most: int = 50,
        before: str | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        below: int | None = None,
    ) -> list[RunView]:
        if before:
            below = self.show(before, events=False).seq
        found = self._connection.pages(
            "/runs", "runs", most, workflow=workflow_id, status=status, since=since, until=until, after=below
        )
        return [value(RunView, each) for each in found]

    def show(self, run_id: str, *, events: bool = True) -> RunView:
        return value(RunView, self._connection.get(f"/runs/{segment(run_id)}", events=events))

    def status(self, run_id: str) -> str:
        return self.show(run_id, events=False).status

    def url(self, run_id: str) -> str | None:
        return f"{self._connection.address}/runs/{segment(run_id)}"

    # -- logs --------------------------------------------------------------------------------------------------------------

    def log_attempts(self, run_id: str, step_id: str | None = None) -> list[tuple[str, int]]:
        steps = self._connection.get(f"/runs/{segment(run_id)}/attempts")["attempts"]
        chosen = [step for step in steps if step_id is None or step["step"] == step_id]
        if step_id is not None and not chosen:
            raise NotFoundError(f"run {run_id} has no step {step_id!r}", hint=f"icefloe show {run_id}")
        return [(step["step"], number) for step in chosen for number in range(1, step["attempts"] + 1)]

    def log(self, run_id: str, step_id: str, attempt: int, number: int = 0, offset: int = 0) -> LogPart:
        part = self._connection.get(
            f"/runs/{segment(run_id)}/log", step=step_id, attempt=attempt, number=number, offset=offset
        )
        return LogPart(base64.b64decode(part["content"]), part["number"], part["offset"], part["gap"])

    def log_tail(self, run_id: str, step_id: str, attempt: int, lines: int = 20) -> str:
        if attempt < 1:  # it was never tried
            return ""
        found = self._connection.get(f"/runs/{segment(run_id)}/log/tail", step=step_id, attempt=attempt, lines=lines)
        return "\n".join(found["lines"])
