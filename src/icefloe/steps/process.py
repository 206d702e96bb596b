"""What all steps with a process share: their environment, their outputs, and what an exit code means."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from icefloe.steps.contract import Cause, Outcome, OutcomeKind, ProcessResult, StepContext
from icefloe.workflow.values import Mismatch, TypedValue, plain, type_of

OUTPUT_VARIABLE = "ICEFLOE_OUTPUT"
PARAMS_VARIABLE = "ICEFLOE_PARAMS"
PUBLISHED_FILE = "published.json"
"""Where a Spark step's process tells what it has published; ``result.json`` is the supervisor's own."""
MOST_OUTPUT_BYTES = 1024 * 1024


def environment(context: StepContext, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables a step's process finds: who it is, its parameters, and where to write outputs.

    Each parameter whose name is fit for it is also a variable of that name, as texts; lists and maps as JSON.
    """
    params_file = context.folder / "params.json"
    write_private(params_file, json.dumps({name: plain(item.value) for name, item in context.params.items()}).encode())
    own = {
        OUTPUT_VARIABLE: str(context.folder / "outputs.json"),
        PARAMS_VARIABLE: str(params_file),
        "ICEFLOE_RUN_ID": context.key.run_id,
        "ICEFLOE_WORKFLOW_ID": context.workflow_id,
        "ICEFLOE_STEP_ID": context.key.step_id,
        "ICEFLOE_STEP_ATTEMPT": str(context.key.attempt),
        "ICEFLOE_ATTEMPT": str(context.key),
        "PYTHONUNBUFFERED": "1",
    }
    values = {name: _text(item) for name, item in context.params.items() if _fit(name)}
    return {**values, **(extra or {}), **own}


def _fit(name: str) -> bool:
    # A parameter must not redirect the loader or the shell of the process it is handed to.
    reserved = name.startswith(("LD_", "DYLD_", "PYTHON", "ICEFLOE_")) or name in (
        "PATH",
        "HOME",
        "IFS",
        "ENV",
        "BASH_ENV",
        "SHELL",
    )
    return name.isascii() and name.isidentifier() and not reserved


def _text(item: TypedValue) -> str:
    value = plain(item.value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def default_outcome(context: StepContext, result: ProcessResult) -> Outcome:
    """Exit code 0 is success. What the platform did to it is not the user's fault."""
    if result.error is not None:
        return Outcome(OutcomeKind.FATAL, cause=Cause(result.error, "step.start"))
    if result.reason == "timeout":
        return Outcome(OutcomeKind.TIMEOUT, cause=Cause("it took longer than its timeout", "step.timeout"))
    if result.reason == "cancelled":
        return Outcome(OutcomeKind.STOPPED, cause=Cause("it was told to end"))
    if result.reason is not None:
        return Outcome(OutcomeKind.PLATFORM, cause=Cause("its worker was gone", "worker.lost"), retry_at_once=True)
    if result.exit_code == 0:
        return _with_outputs(context)
    if result.exit_code is None:
        return Outcome(
            OutcomeKind.PLATFORM, cause=Cause("its supervisor was killed", "supervisor.lost"), retry_at_once=True
        )
    # A shell whose own child was killed passes that on as 128 + 9.
    if result.exit_code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return Outcome(
            OutcomeKind.PLATFORM,
            cause=Cause("it was killed (signal 9) from outside: out of memory, or by hand", "step.killed"),
            retry_at_once=True,
        )
    if result.exit_code < 0:
        return Outcome(
            OutcomeKind.ERROR, cause=Cause(f"it was ended by signal {_signal_name(-result.exit_code)}", "step.signal")
        )
    return Outcome(OutcomeKind.ERROR, cause=Cause(f"exit code {result.exit_code}", "step.exit"))


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _with_outputs(context: StepContext) -> Outcome:
    try:
        return Outcome(OutcomeKind.SUCCEEDED, read_outputs(context.folder / "outputs.json"))
    except ValueError as error:
        return Outcome(
            OutcomeKind.ERROR,
            cause=Cause(
                f"its outputs cannot be used: {error}", "step.outputs", f'write one JSON object to "${OUTPUT_VARIABLE}"'
            ),
        )


def read_outputs(file: Path) -> dict[str, TypedValue]:
    """The outputs a step wrote: one JSON object, or lines ``name=value``. Raises ValueError."""
    try:
        size = file.stat().st_size
    except FileNotFoundError:
        return {}
    if size > MOST_OUTPUT_BYTES:
        raise ValueError(f"{size} bytes, at most {MOST_OUTPUT_BYTES} are taken")
    text = file.read_bytes().decode("utf-8").strip()
    if not text:
        return {}
    data = json.loads(text) if text.startswith("{") else _lines(text)
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - the caller tells the user, by value
    outputs = {}
    for name, value in data.items():
        try:
            outputs[name] = TypedValue.from_dict({"type": type_of(value).value, "value": value})
        except Mismatch as error:
            raise ValueError(f"{name}: {error}") from None
    return outputs


def _lines(text: str) -> dict[str, object]:
    values: dict[str, object] = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if not separator:
            raise ValueError(f"neither JSON nor name=value: {line[:60]!r}")
        values[name.strip()] = value.strip()
    return values


def python_program() -> str:
    return sys.executable
