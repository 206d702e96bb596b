"""A launcher that has imported what a Spark step needs: a step's process is a fork of it and starts in milliseconds, not seconds.

``python -m icefloe.engine.warm SOCKET MODULE…`` imports the modules and then is a launcher as :mod:`icefloe.engine.supervisor`
has it, whose supervisors call a module's ``main()`` in a fork where they would execute a new interpreter. No code of a user has run
in it and it has no session, so every fork begins as clean as a new process. If an import fails, commands are executed as usual,
and tell by themselves what is missing.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import socket
import sys
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from icefloe import faults
from icefloe.engine import supervisor

ROOM = "-" * 1000
"""Space in the launcher's own command line and environment, in which its forks show what they are."""


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    ready = True
    for name in sys.argv[2].split(","):
        try:
            importlib.import_module(name)
        except Exception:
            traceback.print_exc()
            ready = False
    gc.collect()
    gc.freeze()  # what forks share should not be written to
    supervisor.launcher(control, run if ready else None)


def run(spec: Mapping[str, Any]) -> NoReturn:
    """In the fork: be what ``python -m MODULE ARGUMENTS`` would be."""
    code = 1
    try:
        _show(spec)
        os.environ.clear()
        os.environ.update(spec["env"])
        faults.arm(os.environ.get(faults.VARIABLE, ""))  # not what the launcher was started with
        sys.argv = [spec["module"], *spec["argv"][3:]]
        sys.path.insert(0, spec["cwd"])
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(write_through=True)  # type: ignore[union-attr] # as PYTHONUNBUFFERED has it
        code = _exit_code(importlib.import_module(spec["module"]).main)
        threading._shutdown()  # type: ignore[attr-defined] # as at the end of every program: waits for its threads
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _exit_code(function: Any) -> int:
    try:
        return int(function() or 0)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
            return 1
        return int(ended.code or 0)


def _show(spec: Mapping[str, Any]) -> None:
    """Put the command, and the variable by which leftovers are found, where ``ps`` and ``/proc`` read them (Linux)."""
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    arg_start, arg_end, env_start, env_end = (int(address) for address in fields[45:49])
    attempt = f"{supervisor.ATTEMPT_VARIABLE}={spec['env'].get(supervisor.ATTEMPT_VARIABLE, '')}"
    shown = [f"{name}={spec['env'][name]}" for name in ("ICEFLOE_PARAMS",) if name in spec["env"]]
    _overwrite(arg_start, arg_end, spec["argv"])
    _overwrite(env_start, env_end, [attempt, *shown])


def _overwrite(start: int, end: int, words: list[str]) -> None:
    text = b"".join(word.encode() + b"\0" for word in words)
    if len(text) <= end - start:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, text, len(text))


if __name__ == "__main__":
    main()
