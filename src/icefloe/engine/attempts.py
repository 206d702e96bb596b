"""One attempt in the hands of this worker: its context, its process or handle, and its log."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from icefloe.engine.processes import AttemptLink
from icefloe.engine.run_snapshot import RunSnapshot
from icefloe.engine.supervisor import MASK, Masker, SegmentedLog
from icefloe.engine.threads import Call
from icefloe.steps.contract import AttemptKey, Outcome, StepContext, StepRuntime
from icefloe.store import logs
from icefloe.store.logs import LogKey
from icefloe.workflow.values import TypedValue


def attempt_folder(home: Path, key: AttemptKey) -> Path:
    """Derived from the key, so that another worker on this machine finds what a dead one left."""
    return home / "attempts" / hashlib.sha256(str(key).encode()).hexdigest()[:20]


@dataclass(slots=True)
class Attempt:
    key: AttemptKey
    snapshot: RunSnapshot
    runtime: StepRuntime
    context: StepContext
    params: Mapping[str, TypedValue]
    """The step's own parameters as they are stored: secrets are references."""
    timeout: float | None
    over: threading.Event
    """Tells the step's own code that its attempt is cancelled or over: ``context.cancelled``."""
    deadline: float | None
    """For work in this process. A supervisor keeps its command's time by itself."""
    link: AttemptLink | None = None
    handle: Any = None
    started: bool = False
    """Whether the store says RUNNING."""
    cancelled: bool = False
    lost: bool = False
    """The claim is gone: whatever comes of it is not recorded."""
    call: Call | None = None
    """A thread is in one of the runtime's methods."""
    patience_ends: float | None = None
    """When a thread that was told to end is left behind."""
    note: str = ""
    """What it waits for, as recorded."""
    noted_at: float = -math.inf
    shipped: dict[int, int] = field(default_factory=dict)
    """Log segments that the store has, with their sizes."""
    _shipping: tuple[dict[int, bytes], list[int]] = field(default_factory=lambda: ({}, []))

    @property
    def busy(self) -> bool:
        return self.call is not None

    @property
    def ends_at(self) -> float:
        """When the worker itself has to end it."""
        if self.link is not None:
            return math.inf
        patience = self.patience_ends if self.busy else None
        return min((at for at in (self.deadline, patience) if at is not None), default=math.inf)

    @property
    def label(self) -> str:
        return f"run {self.key.run_id}, step {self.key.step_id}"

    @property
    def log_key(self) -> LogKey:
        return LogKey(self.key.run_id, self.key.step_id, self.key.attempt)

    def without_secrets(self, outcome: Outcome) -> Outcome:
        """What is recorded of an outcome: a step may have put a secret into its outputs, or into its error."""
        if not self.context.secrets:
            return outcome
        masked = self.without_secrets_in
        outputs = {
            name: TypedValue.from_dict({"type": item.type.value, "value": masked(item.value)})
            for name, item in outcome.outputs.items()
        }
        cause = outcome.cause and replace(
            outcome.cause, message=masked(outcome.cause.message), hint=masked(outcome.cause.hint)
        )
        return replace(outcome, outputs=outputs, cause=cause)

    def without_secrets_in(self, data: Any) -> Any:
        if isinstance(data, str):
            for secret in sorted(self.context.secrets, key=len, reverse=True):
                data = data.replace(secret, MASK.decode())
            return data
        if isinstance(data, Mapping):
            return {key: self.without_secrets_in(item) for key, item in data.items()}
        return [self.without_secrets_in(item) for item in data] if isinstance(data, list | tuple) else data

    def new_log(self) -> tuple[dict[int, bytes], list[int]]:
        """Segments that are new or have grown since they were last shipped, and segments that are gone."""
        try:
            names = [entry.name for entry in os.scandir(self.context.folder) if entry.name.startswith("log.")]
        except FileNotFoundError:
            return {}, []
        present = {int(name[4:]): self.context.folder / name for name in names}
        grown: dict[int, bytes] = {}
        for number, path in present.items():
            try:
                if path.stat().st_size != self.shipped.get(number, 0):
                    grown[number] = path.read_bytes()
            except FileNotFoundError:
                continue  # dropped from the middle between the two looks
        dropped = [number for number in self.shipped if number not in present]
        return grown, dropped

    def ship_log(self, connection: Connection) -> None:
        """Write what is new of the log; :meth:`log_shipped` follows when the transaction was committed."""
        self._shipping = self.new_log()
        grown, dropped = self._shipping
        if grown or dropped:
            logs.write(connection, self.log_key, grown, dropped)

    def log_shipped(self) -> None:
        grown, dropped = self._shipping
        for number in dropped:
            del self.shipped[number]
        self.shipped.update((number, len(content)) for number, content in grown.items())

    def clean_up(self) -> None:
        self.over.set()
        if isinstance(self.context.log, InlineLog):
            self.context.log.close()
        shutil.rmtree(self.context.folder, ignore_errors=True)


class InlineLog:
    """The log of a step without a process: written by the step itself, bounded and masked like the others."""

    def __init__(self, folder: Path, secrets: tuple[str, ...], head: int, tail: int) -> None:
        self._folder = folder
        self._masker = Masker([secret.encode() for secret in secrets])
        self._bounds = head, tail
        self._log: SegmentedLog | None = None
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """The attempt is over: what a thread that was left behind still says is dropped, and makes no folder anew."""
        with self._lock:
            self._closed = True
            if self._log is not None:
                self._log.close()
                self._log = None

    def __call__(self, line: str) -> None:
        with self._lock:
            if self._closed:
                return
            if self._log is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._log = SegmentedLog(str(self._folder), *self._bounds)
            text = line if line.endswith("\n") else line + "\n"
            self._log.write(self._masker.feed(text.encode()) + self._masker.end())
