"""The child process that runs a Python pipeline file: ``python -m icefloe.service.pipeline_process FILE RESULT``.

It writes what was built, or what went wrong and in which line of the user's file, as JSON to RESULT.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from icefloe.workflow.builder import Pipeline
from icefloe.workflow.problems import DefinitionError, Position, Problem


def main(file: str, result: str) -> None:
    try:
        sys.path.insert(0, str(Path(file).parent))
        sys.argv = [file]
        found = runpy.run_path(file, run_name="__icefloe__")
        outcome = _built(found)
    except (Exception, SystemExit) as error:
        outcome = _failed(error, file)
    unfinished = Path(f"{result}.part")
    unfinished.write_text(json.dumps(outcome), encoding="utf-8")
    unfinished.rename(result)


def _built(names: dict[str, Any]) -> dict[str, Any]:
    pipelines = {id(value): value for value in names.values() if isinstance(value, Pipeline)}
    if not pipelines:
        hint = "build one at the top level: flow = Pipeline('my.flow')"
        return {"error": "the file holds no Pipeline", "hint": hint}
    return {"workflows": [_described(pipeline) for pipeline in pipelines.values()]}


def _described(pipeline: Pipeline) -> dict[str, Any]:
    problems: tuple[Problem, ...]
    try:
        loaded = pipeline.build()
        workflow, problems = loaded.workflow.to_dict(), loaded.warnings
    except DefinitionError as error:
        workflow, problems = None, error.problems
    places = pipeline.places
    return {
        "workflow": workflow,
        "problems": [
            {
                "code": problem.code,
                "message": problem.message,
                "position": _position(problem.position),
                "hint": problem.hint,
                "severity": problem.severity.value,
            }
            for problem in problems
        ],
        "place": _position(places.workflow),
        "steps": {step: _position(place) for step, place in places.steps.items()},
    }


def _position(place: Position | None) -> list[Any] | None:
    return [place.file, place.line, place.column] if place is not None else None


def _failed(error: BaseException, file: str) -> dict[str, Any]:
    """The error in the user's own words, at the last line of the user's own file that led to it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    line = lines[-1] if lines else error.lineno if isinstance(error, SyntaxError) else None
    if not lines and not isinstance(error, SyntaxError):
        traceback.print_exception(error)
    return {"error": f"{type(error).__name__}: {error}", "line": line}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
    # Threads that a pipeline file started must not keep the push waiting.
    sys.stdout.flush()
    os._exit(0)
