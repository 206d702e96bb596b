"""Finds a Java that Spark 4.1 runs on: version 17 or 21.

A newer or older Java on the PATH is passed over, not tried: Spark 4.1 fails on Java 25 long after its start, with an
error that does not name the cause.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from icefloe.errors import MissingComponentError

SUPPORTED = (17, 21)
USUAL_FOLDERS = (
    *("/usr/lib/jvm", "/usr/java", "/opt/java", "/opt"),
    *("/Library/Java/JavaVirtualMachines", "/opt/homebrew/opt", "/usr/local/opt"),
)


@dataclass(frozen=True)
class Java:
    """One Java installation: the launcher and its major version."""

    launcher: Path
    version: int

    @property
    def home(self) -> Path:
        return self.launcher.parent.parent


def find(
    configured: str | None = None,
    *,
    env: Mapping[str, str] | None = None,
    folders: Iterable[str | Path] = USUAL_FOLDERS,
) -> Java:
    """The Java to run Spark on.

    Looked for in this order: ``configured`` (``[spark] java_home``), ``JAVA_HOME``, the PATH, the usual folders. A
    configured one must fit, since somebody meant it; all others are passed over when they do not.
    """
    env = os.environ if env is None else env
    if configured:
        launcher = _launcher(Path(configured))
        version = version_of(launcher) if launcher else None
        if launcher is None or version not in SUPPORTED:
            state = f"is Java {version}" if version else "holds no Java"
            raise MissingComponentError(
                f"[spark] java_home: {configured} {state}; Spark 4.1 needs Java 17 or 21", hint=install_hint()
            )
        return Java(launcher, version)
    passed_over: list[str] = []
    for launcher in _candidates(env, folders):
        version = version_of(launcher)
        if version in SUPPORTED:
            return Java(launcher, version)
        if version is not None:
            passed_over.append(f"Java {version} in {launcher.parent.parent}")
    note = f" (passed over: {', '.join(passed_over)})" if passed_over else ""
    raise MissingComponentError(f"Spark needs Java 17 or 21, and none was found{note}", hint=install_hint())


def install_hint(os_release: Path = Path("/etc/os-release"), platform: str = sys.platform) -> str:
    """What to type to get a fitting Java here. Debian 12 has only 17, Debian 13 only 21."""
    release = os_release.read_text(encoding="utf-8") if os_release.is_file() else ""
    families = " ".join(re.findall(r"^ID(?:_LIKE)?=(.*)$", release, re.MULTILINE))
    old = re.search(r'^VERSION_ID="?(12|11|22\.04|20\.04)"?$', release, re.MULTILINE) is not None
    debian = f"apt-get install -y openjdk-{17 if old else 21}-jre-headless"
    fedora, macos = "dnf install -y java-21-openjdk-headless", "brew install openjdk@21"
    if platform == "darwin":
        words = macos
    elif re.search("debian|ubuntu", families):
        words = debian
    elif re.search("rhel|fedora|centos", families):
        words = fedora
    else:
        words = f"{debian} (Debian, Ubuntu), {fedora} (Red Hat, Fedora), {macos} (macOS)"
    return f"{words}, or set JAVA_HOME to a Java 17 or 21"


@lru_cache(maxsize=64)
def version_of(launcher: Path) -> int | None:
    """The major version, or None when this is no Java that runs."""
    release = launcher.resolve().parent.parent / "release"
    if release.is_file():  # cheaper than starting it, and there in every JDK and JRE since 9
        match = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
        if match:
            return int(match[1])
    try:
        result = subprocess.run([launcher, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
    return int(match[1]) if match else None


def _candidates(env: Mapping[str, str], folders: Iterable[str | Path]) -> Iterator[Path]:
    if env.get("JAVA_HOME") and (launcher := _launcher(Path(env["JAVA_HOME"]))):
        yield launcher
    if on_path := shutil.which("java", path=env.get("PATH", "")):
        # Resolved: /usr/bin/java is a chain of links, and the home it leads to is what gets shown.
        yield Path(on_path).resolve()
    for folder in map(Path, folders):
        if not folder.is_dir():
            continue
        for home in sorted(folder.iterdir(), reverse=True):
            if launcher := _launcher(home):
                yield launcher


def _launcher(home: Path) -> Path | None:
    for place in (home / "bin" / "java", home / "Contents" / "Home" / "bin" / "java"):
        if place.is_file() and os.access(place, os.X_OK):
            return place.resolve()
    return None
