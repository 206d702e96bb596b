"""Prepares a release: version, changelog, wheel, source archive and SBOM, each checked. ``make release VERSION=0.2.0`` runs it.

It changes two files of a clean work tree, ``src/icefloe/__init__.py`` and ``CHANGELOG.md``, and puts the artifacts into ``dist/``.
When a check fails, both files are put back. It commits, tags, pushes and uploads nothing; it ends by printing the commands for that.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import artifacts
import changelog
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
CHANGELOG = ROOT / "CHANGELOG.md"
JARS = ROOT / "src" / "icefloe" / "spark" / "jars.lock.json"
VERSION_FILE = ROOT / "src" / "icefloe" / "__init__.py"
VERSION_LINE = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)


class ReleaseError(Exception):
    """Something that must be mended before this version can be released."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="the version to release, as 0.2.0")
    try:
        release(parser.parse_args().version)
    except (ReleaseError, changelog.ChangelogError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def release(text: str) -> None:
    version = next_version(text, VERSION_LINE.findall(VERSION_FILE.read_text(encoding="utf-8"))[0], tags())
    require_clean_tree()
    with restored_on_failure(VERSION_FILE, CHANGELOG):
        write_version(version)
        notes = changelog.released(CHANGELOG.read_text(encoding="utf-8"), version, datetime.now(UTC).date())
        CHANGELOG.write_text(notes, encoding="utf-8")
        wheel, archive = build(version)
        files = tracked()
        problems = [
            *artifacts.problems_of_wheel(wheel, version, files),
            *artifacts.problems_of_archive(archive, version, files),
        ]
        if problems:
            raise ReleaseError("the artifacts are not fit to be published:\n  " + "\n  ".join(problems))
        bill = try_out(wheel, version)
    write_checksums((wheel, archive, bill))
    print(what_next(version))


# -- before anything is changed ----------------------------------------------------------------------------------------------


def next_version(text: str, current: str, released: set[str]) -> str:
    """The version to release, in its normal form. Refused when it is malformed, older than the current one or tagged already."""
    try:
        version = Version(text)
    except InvalidVersion:
        raise ReleaseError(f"{text!r} is not a version; type VERSION=0.2.0, for example") from None
    if version < Version(current):
        raise ReleaseError(f"{version} is older than {current}, the version of src/icefloe/__init__.py")
    if f"v{version}" in released:
        raise ReleaseError(f"the tag v{version} exists: this version was released before")
    return str(version)


def tags() -> set[str]:
    return set(output("git", "tag", "--list").split())


def require_clean_tree() -> None:
    if changed := output("git", "status", "--porcelain").splitlines():
        raise ReleaseError("commit or remove these first:\n  " + "\n  ".join(changed))


@contextmanager
def restored_on_failure(*files: Path) -> Iterator[None]:
    before = {file: file.read_bytes() for file in files}
    try:
        yield
    except BaseException:
        for file, content in before.items():
            file.write_bytes(content)
        raise


def write_version(version: str) -> None:
    text = VERSION_FILE.read_text(encoding="utf-8")
    VERSION_FILE.write_text(VERSION_LINE.sub(f'__version__ = "{version}"', text), encoding="utf-8")


# -- the artifacts -----------------------------------------------------------------------------------------------------------


def build(version: str) -> tuple[Path, Path]:
    """Builds the source archive, and the wheel from that archive, so that the archive is known to be complete."""
    shutil.rmtree(DIST, ignore_errors=True)
    say("building the source archive, and the wheel from it")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(DIST), str(ROOT))
    wheel, archive = DIST / f"icefloe-{version}-py3-none-any.whl", DIST / f"icefloe-{version}.tar.gz"
    for file in (wheel, archive):
        if not file.is_file():
            raise ReleaseError(f"the build did not make {file.name}")
    return wheel, archive


def try_out(wheel: Path, version: str) -> Path:
    """Installs the wheel into an empty environment, asks for its version, and lists what came along as an SBOM."""
    bill = DIST / f"icefloe-{version}.cdx.json"
    with tempfile.TemporaryDirectory(prefix="icefloe-release-") as folder:
        python = Path(folder) / "bin" / "python"
        say("installing the wheel into an empty environment; this takes some minutes")
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        run(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile", str(wheel))
        run(sys.executable, "-m", "pip", "--python", str(python), "check")
        # Away from the work tree: what is imported must be what was installed.
        answer = output(str(python.with_name("icefloe")), "--version", cwd=Path(folder)).strip()
        if version not in answer.split():
            raise ReleaseError(f"the installed program says {answer!r}, not {version}")
        say(f"writing {bill.name}")
        options = ("--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--output-file", str(bill))
        run(sys.executable, "-m", "cyclonedx_py", "environment", *options, str(python))
    document = artifacts.completed_bill(
        json.loads(bill.read_text(encoding="utf-8")), version, json.loads(JARS.read_text(encoding="utf-8"))
    )
    bill.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return bill


def write_checksums(files: tuple[Path, ...]) -> None:
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (DIST / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def what_next(version: str) -> str:
    return f"""
dist/ has the wheel, the source archive, the SBOM and their checksums. Look at `git diff`, then type:

  git commit -am "Release {version}"
  git tag -a v{version} -m "Icefloe {version}"
  git push --follow-tags
  twine upload dist/icefloe-{version}-py3-none-any.whl dist/icefloe-{version}.tar.gz

Publish dist/icefloe-{version}.cdx.json, dist/SHA256SUMS and the changelog's section with the release.
To take it back instead: git checkout CHANGELOG.md src/icefloe/__init__.py"""


# -- programs ----------------------------------------------------------------------------------------------------------------


def tracked() -> frozenset[str]:
    """The files that git knows; what merely lies in a folder is not released."""
    return frozenset(output("git", "ls-files", "-z").rstrip("\0").split("\0"))


def run(*command: str) -> None:
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise ReleaseError(f"failed: {' '.join(command)}")


def output(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"failed: {' '.join(command)}\n{done.stderr.strip()}")
    return done.stdout


def say(line: str) -> None:
    print(f"release: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
