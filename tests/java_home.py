"""The Java of the tests: this machine's, with the first tier of its compiler only.

A test has a few rows and a JVM that lives for minutes: most of what the second tier compiles is never run again. A Spark server is up in
half the processor time and runs its first statements in half of it (``docs/decisions/detached-spark-server.md``). Whatever finds its Java
by ``JAVA_HOME`` gets this one, also below steps and servers, whose environment is an allow-list.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from icefloe.errors import MissingComponentError
from icefloe.spark import java

OPTIONS = ("-XX:TieredStopAtLevel=1",)


def first_tier(folder: Path) -> Path | None:
    """A Java home in ``folder``, the same for everybody who asks: a server's settings name its Java. None: there is no Java."""
    try:
        found = java.find()
    except MissingComponentError:
        return None  # which is for those tests to say that need one
    launcher = folder / "bin" / "java"
    if found.launcher == launcher.resolve():
        return folder
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    words = " ".join(shlex.quote(word) for word in (str(found.launcher), *OPTIONS))
    _write(folder / "release", f'JAVA_VERSION="{found.version}"\n')
    _write(launcher, f'#!/bin/sh\nexec {words} "$@"\n')
    return folder


def _write(file: Path, text: str) -> None:
    """Whole or not at all: two suites may do this at the same moment, and Linux runs no program that is open for writing."""
    if file.exists() and file.read_text(encoding="utf-8") == text:
        return
    new = file.with_name(f"{file.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.chmod(0o755)
    new.replace(file)
