"""What people do to runs from a page: the verbs, refused when somebody else was faster than the page could show.

A page says what it has seen of the run (``seen``). When the run is otherwise by now, nothing is done, and the error tells
what happened to it and by whom. Two who act in the same moment are told apart by the engine, which takes the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from icefloe.engine.events import Refused
from icefloe.errors import ConflictError, NotFoundError, UsageError
from icefloe.service.run_form import fields_of, values_of
from icefloe.service.views import RunView
from icefloe.store import audits
from icefloe.store.run_history import RunLine
from icefloe.workflow.model import Workflow

if TYPE_CHECKING:
    from icefloe.service.client import Client

VERBS = ("stop", "kill", "pause", "resume")
_Result = TypeVar("_Result")


class RunChangedError(ConflictError):
    """Somebody else acted on the run after the page was opened."""

    code = "run.changed"
    retryable = False


def seen(view: RunView | RunLine) -> str:
    """What a form about a run carries."""
    return f"{view.status}.{view.request or ''}.{view.restarts}"


class RunActions:
    def __init__(self, client: Client) -> None:
        self._client = client

    def act(self, verb: str, run_id: str, *, by: str, seen: str = "") -> RunView:
        """Stop, kill, pause, resume."""
        runs = self._client.runs
        verbs = {"stop": runs.stop, "kill": runs.kill, "pause": runs.pause, "resume": runs.resume}
        if verb not in verbs:
            known = ", ".join(verbs)
            raise NotFoundError(f"nothing that can be done to a run is called {verb[:40]!r}", hint=f"one of {known}")
        return self._unless_changed(run_id, seen, lambda: verbs[verb](run_id, by))

    def skip(self, run_id: str, step: str, *, by: str, seen: str = "") -> RunView:
        return self._unless_changed(run_id, seen, lambda: self._client.runs.skip(run_id, step, by))

    def restart(
        self,
        run_id: str,
        *,
        by: str,
        seen: str = "",
        step: str | None = None,
        from_beginning: bool = False,
        version: str | None = None,
        typed: Mapping[str, str] | None = None,
    ) -> RunView:
        """``typed``: parameters as typed into the fields of a form; what is empty stays as it was."""

        def restart() -> RunView:
            workflow = self.definition(run_id, version)
            fields = tuple(field for field in fields_of(workflow, restart=True) if field.name in (typed or {}))
            params: dict[str, Any] = values_of(fields, typed or {}, unchanged_counts=True)
            return self._client.runs.restart(
                run_id, step=step, from_beginning=from_beginning, version=version, params=params, by=by
            )

        return self._unless_changed(run_id, seen, restart)

    def definition(self, run_id: str, version: str | None = None) -> Workflow:
        """The definition that a restart would take."""
        view = self._client.runs.show(run_id, events=False)
        if version is not None and version != "latest" and not version.isdigit():
            raise UsageError(f"{version[:40]!r} is not a version", hint="a number, or latest")
        definitions = self._client.conductor.definitions
        with self._client.database.read() as connection:
            if version == "latest":
                return definitions.latest(connection, view.workflow_id).workflow
            number = int(version) if version is not None else view.version
            return definitions.get(connection, view.workflow_id, number).workflow

    def _unless_changed(self, run_id: str, seen_before: str, act: Callable[[], _Result]) -> _Result:
        if seen_before:
            view = self._client.runs.show(run_id, events=False)
            if seen_before != seen(view):
                raise self._changed(view, "nothing was done")
        try:
            return act()
        except Refused as error:
            raise self._changed(self._client.runs.show(run_id, events=False), error.message) from error

    def _changed(self, view: RunView, told: str) -> RunChangedError:
        with self._client.database.read() as connection:
            last = next(iter(audits.listing(connection, subject=view.run_id, most=1)), None)
        ago = f"{max(time.time() - last.at, 0):.0f} s ago" if last else ""
        did = f"; the last to act on it was {last.who}: {last.verb}, {ago}" if last else ""
        return RunChangedError(
            f"run {view.run_id} is {view.request or view.status} now{did}: {told}", hint="look at it again"
        )
