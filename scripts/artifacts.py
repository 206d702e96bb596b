"""What a release publishes: what is wrong with a wheel or a source archive, and what an SBOM of an environment lacks."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from packaging.metadata import InvalidMetadata, Metadata
from packaging.version import Version

FILES_OF_ARCHIVE = ("README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "Makefile", "pyproject.toml", "PKG-INFO")
FOLDERS_OF_ARCHIVE = ("src/", "tests/", "docs/", "examples/", "scripts/")
Json = dict[str, Any]


def problems_of_wheel(wheel: Path, version: str, files: Collection[str]) -> list[str]:
    """What is wrong with a wheel that was built from these files: its metadata, what is missing, what does not belong there."""
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if not name.endswith("/")}
        info = f"icefloe-{version}.dist-info"
        metadata = opened.read(f"{info}/METADATA") if f"{info}/METADATA" in names else b""
        scripts = opened.read(f"{info}/entry_points.txt").decode() if f"{info}/entry_points.txt" in names else ""
    wanted = {name.removeprefix("src/") for name in files if name.startswith("src/")}
    problems = [f"{wheel.name}: {name} is missing" for name in sorted(wanted - names)]
    strangers = {name for name in names - wanted if not name.startswith(f"{info}/")}
    problems += [f"{wheel.name}: {name} does not belong there" for name in sorted(strangers)]
    if "icefloe = icefloe.cli.main:main" not in scripts:
        problems.append(f"{wheel.name}: the command icefloe is missing")
    return problems + [f"{wheel.name}: {problem}" for problem in problems_of_metadata(metadata, version)]


def problems_of_archive(archive: Path, version: str, files: Collection[str]) -> list[str]:
    folder = f"icefloe-{version}/"
    with tarfile.open(archive) as opened:
        names = {member.name for member in opened.getmembers() if member.isfile()}
        info = opened.extractfile(f"{folder}PKG-INFO") if f"{folder}PKG-INFO" in names else None
        metadata = info.read() if info else b""
    inside = {name.removeprefix(folder) for name in names}
    wanted = {*FILES_OF_ARCHIVE, *(name for name in files if name.startswith(FOLDERS_OF_ARCHIVE))}
    problems = [f"{archive.name}: {name} is missing" for name in sorted(wanted - inside)]
    strangers = inside - set(files) - {"PKG-INFO"}
    problems += [f"{archive.name}: {name} does not belong there" for name in sorted(strangers)]
    return problems + [f"{archive.name}: {problem}" for problem in problems_of_metadata(metadata, version)]


def problems_of_metadata(content: bytes, version: str) -> list[str]:
    """What a package index would refuse, and what it would show wrongly."""
    try:
        metadata = Metadata.from_email(content, validate=True)
    except ExceptionGroup as errors:
        return [
            f"{error.field}: {error}" if isinstance(error, InvalidMetadata) else str(error)
            for error in errors.exceptions
        ]
    expected = {
        "name": "icefloe",
        "version": Version(version),
        "license_expression": "Apache-2.0",
        "description_content_type": "text/markdown",
    }
    problems = [
        f"{field} is {getattr(metadata, field)}, not {value}"
        for field, value in expected.items()
        if getattr(metadata, field) != value
    ]
    if metadata.requires_python is None:
        problems.append("requires_python is missing")
    if not (metadata.description or "").strip():
        problems.append("the description is empty")
    return problems


def completed_bill(bill: Json, version: str, jars: Json) -> Json:
    """The SBOM of an environment with what no environment shows: the version, and the jars that are fetched when they are needed."""
    subject = bill["metadata"]["component"] | {"version": version, "purl": f"pkg:pypi/icefloe@{version}"}
    return bill | {
        "metadata": bill["metadata"] | {"component": subject},
        "components": [*bill["components"], *map(jar_component, jars["jars"])],
    }


def jar_component(jar: Json) -> Json:
    group, name, version = jar["coordinates"].split(":")
    purl = f"pkg:maven/{group}/{name}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "group": group,
        "name": name,
        "version": version,
        "purl": purl,
        "scope": "required" if jar["for"] == "base" else "optional",
        "hashes": [{"alg": "SHA-256", "content": jar["sha256"]}],
    }
