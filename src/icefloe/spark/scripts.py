"""Runs a user's PySpark code: a ``.py`` file, or a function of a module, with the step's session and parameters at hand."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from icefloe import job as jobs
from icefloe.errors import IcefloeError, UsageError
from icefloe.job import Job
from icefloe.job.parameters import converted
from icefloe.spark.failure import explain


class ScriptError(IcefloeError):
    """The user's code raised. The message is the exception, ``where`` the last line of the user's own code."""

    code = "spark.script"


class FunctionError(UsageError):
    """``module:function`` cannot be found or called."""

    code = "spark.function"


def admit_modules(*folders: Path) -> None:
    """Make the modules in these folders importable, and send their functions to Spark's workers by value.

    By name, a worker would have to find the module itself: it may be on another machine, and on this one it may have imported an
    earlier version of it.
    """
    from pyspark.cloudpickle import cloudpickle

    paths = [str(folder) for folder in folders]
    sys.path[:0] = paths
    # Its `register_pickle_by_value` takes only what is imported already.
    cloudpickle._PICKLE_BY_VALUE_MODULES |= {module.name for module in pkgutil.iter_modules(paths)}


def run_file(script: Path, job: Job, *, shown: str) -> None:
    """Run a file as ``__main__``, with the step's ``args`` as its command line."""
    with jobs.running(job), _command_line(script, job.args), _users_errors(script.parent, shown, script.name):
        runpy.run_path(str(script), run_name="__main__")


def run_function(name: str, job: Job, *, folder: Path) -> None:
    """Call ``module:function`` with what its parameters are named after; a map that it returns becomes outputs."""
    function = load_function(name)
    with jobs.running(job), _users_errors(folder, name, ""):
        result = function(*job.args, **arguments(function, job))
        if isinstance(result, Mapping):
            job.output(result)


def load_function(name: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        raise FunctionError(
            f"there is no module {error.name!r}",
            where=name,
            hint="put it in the project's folder, list it under files:, or install it where the worker runs",
        ) from error
    except AttributeError as error:
        raise FunctionError(f"the module has no {attribute!r}", where=name) from error
    if not callable(function):
        raise FunctionError("is not a function", where=name)
    return function  # type: ignore[no-any-return]


def arguments(function: Callable[..., Any], job: Job) -> dict[str, Any]:
    """``spark`` and ``session`` are the session, ``job`` is the job, every other name a parameter, as its annotation says."""
    own = {"spark": job.session, "session": job.session, "job": job}
    wanted = list(inspect.signature(function).parameters.values())[len(job.args) :]
    values: dict[str, Any] = {}
    for parameter in wanted:
        if parameter.kind is parameter.VAR_KEYWORD:
            values |= {name: value for name, value in job.params.items() if name not in values}
        elif parameter.kind is parameter.VAR_POSITIONAL:
            continue
        elif parameter.name in own:
            values[parameter.name] = own[parameter.name]
        elif parameter.name in job.params or parameter.default is parameter.empty:
            values[parameter.name] = converted(parameter.name, job.params[parameter.name], parameter.annotation)
    return values


@contextmanager
def _command_line(script: Path, args: tuple[Any, ...]) -> Iterator[None]:
    before = sys.argv
    sys.argv = [str(script), *(str(item) for item in args)]
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def _users_errors(folder: Path, shown: str, script: str) -> Iterator[None]:
    """What the user's code raises, short, with its last own line; the whole traceback goes to the log."""
    try:
        yield
    except SystemExit as error:
        if error.code not in (None, 0):
            raise ScriptError(f"it ended with exit code {error.code}", where=shown) from error
    except Exception as error:
        if isinstance(error, IcefloeError) and error.retryable:
            raise
        where = _last_line(error, folder, shown, script)
        if isinstance(error, IcefloeError):
            error.where = f"{where}: {error.where}" if error.where else where
            raise
        short = explain(error, where=where)
        print("".join(traceback.format_exception(error)), file=sys.stderr, flush=True)
        if short is not None:
            raise short from error
        raise ScriptError(f"{type(error).__name__}: {error}", where=where) from error


def _last_line(error: BaseException, folder: Path, shown: str, script: str) -> str:
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(folder) or not _is_library(frame.filename)
    ]
    if not own:
        return shown
    last = own[-1]
    name = Path(last.filename).name
    return f"{shown if name == script else name}, line {last.lineno}"


def _is_library(filename: str) -> bool:
    package = Path(__file__).resolve().parents[1]
    return (
        filename.startswith("<")
        or "site-packages" in filename
        or Path(filename).is_relative_to(package)
        or Path(filename).is_relative_to(Path(runpy.__file__).parent)
    )
