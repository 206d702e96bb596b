"""Definition files on disk: YAML as text, Python pipelines run in a process of their own, the files they refer to.

This is the rim of the pure ``workflow`` package: here files are opened and user code is run, nowhere below.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from icefloe.environment import for_user_code
from icefloe.errors import NotFoundError, UsageError
from icefloe.workflow import document
from icefloe.workflow.files import FileProblem
from icefloe.workflow.loading import Inspected, Loaded, inspect
from icefloe.workflow.model import Workflow
from icefloe.workflow.places import Places
from icefloe.workflow.problems import DefinitionError, Position, Problem, Severity
from icefloe.workflow.step_types import BUILTIN, StepType, StepTypes

STEP_GROUP = "icefloe.steps"
PYTHON_SECONDS = 60.0


class PipelineFileError(UsageError):
    """A Python file of pipelines could not be run to its end, or holds none."""

    code = "definition.python"


def installed_types() -> StepTypes:
    """The built-in step types and those that installed packages add by entry point."""
    loaded = (point.load() for point in entry_points(group=STEP_GROUP))
    described = (getattr(runtime, "type", None) for runtime in loaded)
    return BUILTIN.extended(found for found in described if isinstance(found, StepType))


def load_file(file: Path, types: StepTypes = BUILTIN) -> tuple[Loaded, ...]:
    """Every workflow in a file, checked. Raises :class:`DefinitionError` with all that is wrong."""
    found = inspect_file(file, types)
    problems = tuple(problem for each in found for problem in each.problems)
    if any(problem.severity is Severity.ERROR for problem in problems):
        raise DefinitionError(problems)
    return tuple(Loaded(each.workflow, each.problems, each.places) for each in found if each.workflow is not None)


def inspect_file(file: Path, types: StepTypes = BUILTIN) -> tuple[Inspected, ...]:
    """What can be understood of a file's workflows, with all findings."""
    if file.suffix == ".py":
        if not file.is_file():
            raise NotFoundError(f"there is no file {file}")
        return _run_pipelines(file)
    return (inspect(_read(file), str(file), types),)


def _read(file: Path) -> bytes:
    """At most what a definition may have, and one byte more to notice: a giant file is not read into memory."""
    try:
        if not file.is_file():
            raise NotFoundError(f"there is no file {file}" if not file.exists() else f"{file} is not a file")
        with file.open("rb") as stream:
            data = stream.read(document.MAX_BYTES + 1)
    except OSError as error:
        raise NotFoundError(f"{file} cannot be read: {error.strerror}") from error
    return data


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Reads the files a definition refers to from its own folder and below; object storage is left unread."""

    folder: Path

    def read(self, key: str) -> bytes:
        kind, _, path = key.partition(":")
        if kind != "file":
            return b""
        place = (self.folder / path).resolve()
        if not place.is_relative_to(self.folder.resolve()):
            raise FileProblem(f"'{path}' lies outside the definition's folder", hint="put it beside the definition")
        try:
            return place.read_bytes()
        except OSError as error:
            raise FileProblem(f"'{path}' cannot be read: {error.strerror}", hint=f"looked in {self.folder}") from error


# --- Python pipelines ----------------------------------------------------------------------------------------------------


def _run_pipelines(file: Path) -> tuple[Inspected, ...]:
    """Runs a pipeline file in a child process and takes over what it built. What it prints goes to stderr."""
    with tempfile.TemporaryDirectory(prefix="icefloe-") as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, "-m", "icefloe.service.pipeline_process", str(file.resolve()), str(result)]
        child = subprocess.Popen(
            command,
            cwd=file.resolve().parent,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            start_new_session=True,
            env=for_user_code(),
        )
        try:
            status = child.wait(PYTHON_SECONDS)
        except subprocess.TimeoutExpired:
            raise PipelineFileError(
                f"it did not end within {PYTHON_SECONDS:.0f} s", where=str(file), hint="a pipeline file only describes"
            ) from None
        finally:
            _end(child)
        if not result.exists():
            raise PipelineFileError(f"it ended with status {status} before it said anything", where=str(file))
        data = json.loads(result.read_text(encoding="utf-8"))
    if "error" in data:
        where = f"{file}:{data['line']}" if data.get("line") else str(file)
        raise PipelineFileError(data["error"], where=where, hint=data.get("hint"))
    return tuple(_taken_over(each, file) for each in data["workflows"])


def _end(child: subprocess.Popen[bytes]) -> None:
    """The child and whatever it started are gone after this."""
    if os.name == "posix":
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        except PermissionError:  # the group is empty but for a zombie that is another user's
            pass
    child.kill()
    child.wait()


def _taken_over(data: Mapping[str, Any], file: Path) -> Inspected:
    def position(found: Any) -> Position | None:
        return Position(str(file) if found[0] == file.name else found[0], found[1], found[2]) if found else None

    problems = tuple(
        Problem(each["code"], each["message"], position(each["position"]), each["hint"], Severity(each["severity"]))
        for each in data["problems"]
    )
    steps = {step: place for step, found in data["steps"].items() if (place := position(found)) is not None}
    places = Places(workflow=position(data["place"]), steps=steps)
    workflow = Workflow.from_dict(data["workflow"]) if data["workflow"] is not None else None
    return Inspected(workflow, problems, places)
