"""The jars that Spark needs beyond its own: a locked list, fetched once, kept by checksum.

``jars.lock.json`` names each jar by its Maven coordinates, SHA-256 and size. :func:`ensure` brings what is missing into a cache
with the Ivy that ships inside PySpark, so no tool has to be installed and no repository is named here: Ivy's own default,
or the mirror or ``ivysettings.xml`` that the user gives (``ICEFLOE_MAVEN_MIRROR``, ``ICEFLOE_IVY_SETTINGS``). A jar enters the cache by a rename after its
checksum has been verified, so the cache never holds half a file and any number of processes may fill it at once. It enters as
soon as it has arrived, while others are still on their way: a fetch that is broken off goes on from there.

It does not resolve dependencies of jars: the list is complete as it stands.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO
from xml.sax.saxutils import quoteattr

from icefloe import config as configuration
from icefloe.config import Config
from icefloe.errors import IcefloeError, MissingComponentError, UnreachableError
from icefloe.spark import transfer

_PAUSES = (0.0, 1.0, 3.0, 9.0, 27.0, 60.0)
"""Seconds before each try."""
_LOOK_SECONDS = 0.2
_SCRATCH = ".fetch-"
LOCK_FILE = Path(__file__).with_name("jars.lock.json")
Note = Callable[[str], None]


class ChecksumError(IcefloeError):
    """A fetched jar is not the one that was locked. It was thrown away."""

    code = "jars.checksum"


@dataclass(frozen=True)
class Jar:
    """One locked jar."""

    organisation: str
    module: str
    revision: str
    sha256: str
    need: str
    classifier: str | None = None
    size: int = 0
    """In bytes; 0: not known."""

    @property
    def file_name(self) -> str:
        return f"{self.module}-{self.revision}{f'-{self.classifier}' if self.classifier else ''}.jar"

    @property
    def coordinates(self) -> str:
        return ":".join(filter(None, (self.organisation, self.module, self.revision, self.classifier)))


def locked(file: Path = LOCK_FILE) -> tuple[Jar, ...]:
    """The locked list."""
    entries = json.loads(file.read_text(encoding="utf-8"))["jars"]
    return tuple(_jar(entry) for entry in entries)


def needs(config: Config) -> frozenset[str]:
    """Which groups of the list this configuration uses."""
    wanted = {"base"}
    if config.catalog.needs_postgres:
        wanted.add("postgres")
    if config.catalog.needs_s3:
        wanted.add("s3")
    if config.catalog.on_local_disk:
        wanted.add("local")
    return frozenset(wanted)


def required(config: Config) -> tuple[Jar, ...]:
    """The locked jars this configuration uses."""
    wanted = needs(config)
    return tuple(jar for jar in locked() if jar.need in wanted)


def cache_folder(env: Mapping[str, str] | None = None) -> Path:
    """``ICEFLOE_JARS``, else ``icefloe/jars`` in the user's cache folder."""
    env = configuration.variables() if env is None else env
    if env.get("ICEFLOE_JARS"):
        return Path(env["ICEFLOE_JARS"])
    base = env.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "icefloe" / "jars"


def missing(jars: Iterable[Jar], folder: Path | None = None) -> list[Jar]:
    """Those that are not in the cache yet."""
    folder = folder or cache_folder()
    return [jar for jar in jars if not (folder / jar.file_name).is_file()]


def ensure(
    jars: Sequence[Jar],
    java: Path,
    *,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    note: Note | None = None,
) -> list[Path]:
    """The jars' paths in the cache, fetching what is missing with ``java`` and PySpark's Ivy."""
    env = configuration.variables() if env is None else env
    folder = folder or cache_folder(env)
    wanted = missing(jars, folder)
    if wanted:
        if note:
            megabytes = sum(jar.size for jar in wanted) / 1e6
            note(f"fetching {', '.join(jar.file_name for jar in wanted)} ({megabytes:.0f} MB) into {folder} (once)")
        with transfer.shown(sum(jar.size for jar in wanted), note) as update:
            _fetch(wanted, folder, java, env, note or (lambda line: None), update)
    return [folder / jar.file_name for jar in jars]


def verify(jars: Iterable[Jar], folder: Path | None = None) -> list[Jar]:
    """Those in the cache whose content is not the locked one (for ``doctor``; :func:`ensure` trusts the cache)."""
    folder = folder or cache_folder()
    present = [jar for jar in jars if (folder / jar.file_name).is_file()]
    return [jar for jar in present if checksum(folder / jar.file_name) != jar.sha256]


def checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def spark_jars_folder() -> Path:
    """The folder of Spark's own jars inside PySpark, found without importing it."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise MissingComponentError("PySpark is not installed", hint="pip install 'pyspark[connect]>=4.1.4,<4.2'")
    return Path(spec.submodule_search_locations[0]) / "jars"


# -- fetching ------------------------------------------------------------------------------------------------------------


def _fetch(
    wanted: Sequence[Jar], folder: Path, java: Path, env: Mapping[str, str], note: Note, update: transfer.Update
) -> None:
    """A large jar's transfer breaks now and then, and may do so again at once. What has arrived is kept, whatever becomes of the rest."""
    ivy = next(iter(sorted(spark_jars_folder().glob("ivy-*.jar"))), None)
    if ivy is None:
        raise MissingComponentError("PySpark ships no Ivy jar", hint="reinstall pyspark 4.1")
    whole = wanted
    for number, pause in enumerate(_PAUSES, start=1):
        time.sleep(pause)
        kept = sum(jar.size for jar in whole if jar not in wanted)
        log = _try(wanted, folder, [str(java), "-jar", str(ivy)], env, partial(_add, update, kept))
        wanted = missing(wanted, folder)
        if not wanted or _final(log):
            break
        if number < len(_PAUSES):
            note(f"{wanted[0].file_name} did not arrive{_reason(log)}; trying again in {_PAUSES[number]:.0f} s")
    if wanted:
        raise UnreachableError(
            f"{wanted[0].coordinates} could not be fetched{_reason(log)}",
            hint="run it again: what has arrived is kept; or check the network, or name a mirror in ICEFLOE_MAVEN_MIRROR, "
            f"or put {wanted[0].file_name} into {folder} yourself",
        )


def _add(update: transfer.Update, kept: int, arrived: int) -> None:
    update(kept + arrived)


def _try(
    wanted: Sequence[Jar], folder: Path, ivy: Sequence[str], env: Mapping[str, str], update: transfer.Update
) -> str:
    """Once. Returns what Ivy said."""
    with _scratch(folder) as scratch:
        (scratch / "ivy.xml").write_text(_ivy_file(wanted), encoding="utf-8")
        command = [
            *ivy,
            *_settings(scratch, env),
            *("-cache", str(scratch / "ivy")),
            *("-ivy", str(scratch / "ivy.xml"), "-types", "jar", "-confs", "default", "-warn"),
            *("-retrieve", f"{scratch}/jars/[artifact]-[revision](-[classifier]).[ext]"),
        ]
        log = scratch / "log"
        with log.open("wb") as stream, _running(command, stream, env) as process:
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_SECONDS)
                update(_look(wanted, folder, scratch))
        # Ivy retrieves nothing at all where one jar is missing. The others are in its cache, under names of its own.
        arrived = {} if (scratch / "jars").is_dir() else {checksum(file): file for file in scratch.rglob("*.jar")}
        for jar in missing(wanted, folder):
            fetched = arrived.get(jar.sha256, scratch / "jars" / jar.file_name)
            if fetched.is_file():
                _admit(jar, fetched, folder)
        return log.read_text(encoding="utf-8", errors="replace")


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder for one try, inside the cache's own so that renames stay on one file system. Those of processes that died go."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=folder, ignore_cleanup_errors=True)
    except OSError as error:
        raise IcefloeError(
            f"the jar cache {folder} cannot be written: {error.strerror}", hint="set ICEFLOE_JARS to another folder"
        ) from error
    with temporary as name, (Path(name) / "unlocked").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        Path(lock.name).rename(Path(name) / "lock")  # nobody sees it without its lock
        for lock_file in folder.glob(f"{_SCRATCH}*/lock"):
            with suppress(BlockingIOError, FileNotFoundError, PermissionError), lock_file.open("rb") as theirs:
                fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock_file.parent, ignore_errors=True)
        yield Path(name)


@contextmanager
def _running(command: Sequence[str], log: BinaryIO, env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Ends with us, also when we are interrupted."""
    with subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=dict(env)) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def _look(wanted: Sequence[Jar], folder: Path, scratch: Path) -> int:
    """Takes into the cache what has arrived in full, and returns how many bytes have arrived in all."""
    arriving = 0
    by_size = {jar.size: jar for jar in missing(wanted, folder) if jar.size}
    for file in (scratch / "ivy").rglob("*.jar*"):
        with suppress(FileNotFoundError):  # Ivy renames what has arrived, and removes what it had in between
            size = file.stat().st_size
            jar = by_size.get(size)
            if file.suffix == ".jar" and jar is not None and checksum(file) == jar.sha256:
                _link(file, folder / jar.file_name)
            elif file.suffix == ".part":
                arriving += size
    return arriving + sum(jar.size for jar in wanted if (folder / jar.file_name).is_file())


def _link(file: Path, place: Path) -> None:
    """Ivy still wants to find the file where it put it."""
    with tempfile.TemporaryDirectory(prefix=".link-", dir=file.parent) as between:
        copy = Path(between) / place.name
        try:
            os.link(file, copy)
        except OSError:  # a file system without hard links
            shutil.copyfile(file, copy)
        copy.chmod(0o644)
        copy.rename(place)


def _admit(jar: Jar, fetched: Path, folder: Path) -> None:
    actual = checksum(fetched)
    if actual != jar.sha256:
        raise ChecksumError(
            f"{jar.file_name} has the checksum {actual}, locked is {jar.sha256}; it was not kept",
            hint="the repository or something in between serves another file: do not use it",
        )
    fetched.chmod(0o644)
    fetched.rename(folder / jar.file_name)


def _final(log: str) -> bool:
    """The repository has answered that there is no such jar; a connection that failed is told in the same place, with other words."""
    words = log.lower()
    return "not found" in words and "access" not in words and "failed" not in words


def _reason(log: str) -> str:
    lines = [line.strip(" :\t") for line in log.splitlines()]
    line = next((line for word in ("access error", "FAILED", "not found") for line in lines if word in line), "")
    return f": {line[:300]}" if line else ""


def _settings(scratch: Path, env: Mapping[str, str]) -> list[str]:
    if env.get("ICEFLOE_IVY_SETTINGS"):
        return ["-settings", env["ICEFLOE_IVY_SETTINGS"]]
    if not env.get("ICEFLOE_MAVEN_MIRROR"):
        return []
    file = scratch / "ivysettings.xml"
    file.write_text(
        '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
        f'<ibiblio name="mirror" m2compatible="true" root={quoteattr(env["ICEFLOE_MAVEN_MIRROR"])}/>'
        "</resolvers></ivysettings>",
        encoding="utf-8",
    )
    return ["-settings", str(file)]


def _ivy_file(wanted: Sequence[Jar]) -> str:
    """One module description for all jars, so that one short JVM fetches them all."""
    modules: dict[tuple[str, str, str], list[Jar]] = {}
    for jar in wanted:
        modules.setdefault((jar.organisation, jar.module, jar.revision), []).append(jar)
    lines = []
    for (organisation, module, revision), jars in modules.items():
        artifacts = "".join(
            f'<artifact name={quoteattr(module)} type="jar" ext="jar"'
            + (f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else "")
            + "/>"
            for jar in jars
        )
        lines.append(
            f"<dependency org={quoteattr(organisation)} name={quoteattr(module)} rev={quoteattr(revision)}"
            f' transitive="false">{artifacts}</dependency>'
        )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="icefloe" module="jars"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )


def _jar(entry: Mapping[str, Any]) -> Jar:
    organisation, module, revision, *classifier = entry["coordinates"].split(":")
    return Jar(
        organisation,
        module,
        revision,
        entry["sha256"],
        entry["for"],
        classifier=classifier[0] if classifier else None,
        size=int(entry["size"]),
    )
