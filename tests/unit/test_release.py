"""What a release does to the changelog, which versions it takes, and what it finds wrong with artifacts."""

from __future__ import annotations

import importlib.util
import json
import sys
import tarfile
import zipfile
from datetime import date
from io import BytesIO
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DAY = date(2026, 11, 18)
METADATA = b"""Metadata-Version: 2.4
Name: icefloe
Version: 0.2.0
License-Expression: Apache-2.0
Requires-Python: >=3.11
Description-Content-Type: text/markdown

# Icefloe
"""


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


artifacts = script("artifacts")
changelog = script("changelog")
release = script("release")


def test_what_is_unreleased_becomes_the_section_of_the_version_with_its_date() -> None:
    text = (
        "# Changelog\n\nHow it is kept.\n\n## Unreleased\n\n- new,\n  in two lines\n\n## 0.1.0 (2026-03-01)\n\n- old\n"
    )
    assert changelog.released(text, "0.2.0", DAY) == (
        "# Changelog\n\nHow it is kept.\n\n## Unreleased\n\n## 0.2.0 (2026-11-18)\n\n- new,\n  in two lines\n\n"
        "## 0.1.0 (2026-03-01)\n\n- old\n"
    )


@pytest.mark.parametrize(
    ("unreleased", "prepared", "expected"),
    [
        ("- new\n", "- old\n", "- new\n- old\n"),
        ("", "- old\n", "- old\n"),
        ("- new\n", "### Tables\n\n- old\n", "- new\n\n### Tables\n\n- old\n"),
    ],
)
def test_a_section_that_is_being_prepared_takes_what_is_unreleased_and_the_date(
    unreleased: str, prepared: str, expected: str
) -> None:
    text = f"# Changelog\n\n## Unreleased\n\n{unreleased}\n## 0.1.0\n\n{prepared}"
    assert changelog.released(text, "0.1.0", DAY).endswith(f"## Unreleased\n\n## 0.1.0 (2026-11-18)\n\n{expected}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.2.0 (2026-03-01)\n\n- old\n",
            "has '## 0.2.0 (2026-03-01)' already",
        ),
        ("# Changelog\n\n## Unreleased\n\n## 0.1.0 (2026-03-01)\n\n- old\n", "nothing to release"),
        ("# Changelog\n\n## 0.1.0 (2026-03-01)\n\n- old\n\n## Unreleased\n\n- new\n", "the first section must be"),
        ("", "the first section must be"),
    ],
)
def test_a_changelog_that_does_not_fit_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(changelog.ChangelogError) as refused:
        changelog.released(text, "0.2.0", DAY)
    assert reason in str(refused.value)


def test_the_changelog_of_this_project_can_be_released_and_loses_nothing() -> None:
    text = (
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("## Unreleased\n", "## Unreleased\n\n- news\n", 1)
    )
    lines = changelog.released(text, "999.0.0", DAY).splitlines()
    assert [line for line in text.splitlines() if line and line not in lines] == []
    assert lines[lines.index("- news") - 2] == "## 999.0.0 (2026-11-18)"


def test_a_version_is_written_in_its_normal_form() -> None:
    assert release.next_version("0.2", "0.1.0", set()) == "0.2"
    assert release.next_version("v0.2.0-rc1", "0.1.0", set()) == "0.2.0rc1"
    assert release.next_version("0.1.0", "0.1.0", {"v0.0.9"}) == "0.1.0"


@pytest.mark.parametrize(
    ("text", "reason"),
    [("next", "is not a version"), ("0.0.9", "older than 0.1.0"), ("0.1.0", "the tag v0.1.0 exists")],
)
def test_a_version_that_cannot_be_the_next_one_is_refused(text: str, reason: str) -> None:
    with pytest.raises(release.ReleaseError) as refused:
        release.next_version(text, "0.1.0", {"v0.1.0"})
    assert reason in str(refused.value)


def test_files_are_put_back_when_a_release_fails(tmp_path: Path) -> None:
    file = tmp_path / "CHANGELOG.md"
    file.write_text("before")
    with pytest.raises(release.ReleaseError), release.restored_on_failure(file):
        file.write_text("after")
        raise release.ReleaseError("the wheel is not fit")
    assert file.read_text() == "before"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"Version: 0.2.0", b"Version: 0.1.0", "version is 0.1.0"),
        (b"Requires-Python: >=3.11\n", b"", "requires_python is missing"),
        (b"Requires-Python: >=3.11", b"Requires-Python: three", "requires-python"),
        (b"# Icefloe\n", b"", "the description is empty"),
        (b"text/markdown", b"text/x-rst", "description_content_type is text/x-rst"),
        (b"Name: icefloe\n", b"", "name"),
    ],
)
def test_metadata_that_an_index_would_refuse_or_show_wrongly_is_told(old: bytes, new: bytes, reason: str) -> None:
    assert artifacts.problems_of_metadata(METADATA, "0.2.0") == []
    [*problems] = artifacts.problems_of_metadata(METADATA.replace(old, new, 1), "0.2.0")
    assert reason in "\n".join(problems)


def test_a_wheel_is_told_what_it_lacks_and_what_it_has_too_much(tmp_path: Path) -> None:
    wheel = tmp_path / "icefloe-0.2.0-py3-none-any.whl"
    tracked = ("src/icefloe/__init__.py", "src/icefloe/spark/jars.lock.json", "tests/conftest.py", "README.md")
    files = {"icefloe/__init__.py": b"", "icefloe/spark/jars.lock.json": b""}
    files["icefloe-0.2.0.dist-info/METADATA"] = METADATA
    files["icefloe-0.2.0.dist-info/entry_points.txt"] = b"[console_scripts]\nicefloe = icefloe.cli.main:main\n"
    write_wheel(wheel, files)
    assert artifacts.problems_of_wheel(wheel, "0.2.0", tracked) == []
    del files["icefloe/spark/jars.lock.json"], files["icefloe-0.2.0.dist-info/entry_points.txt"]
    write_wheel(wheel, files | {"tests/secrets.env": b""})
    assert [
        problem.removeprefix(f"{wheel.name}: ") for problem in artifacts.problems_of_wheel(wheel, "0.2.0", tracked)
    ] == [
        "icefloe/spark/jars.lock.json is missing",
        "tests/secrets.env does not belong there",
        "the command icefloe is missing",
    ]


def write_wheel(wheel: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(wheel, "w") as opened:
        for name, content in files.items():
            opened.writestr(name, content)


def test_a_source_archive_without_a_file_or_with_a_strange_one_is_told(tmp_path: Path) -> None:
    archive = tmp_path / "icefloe-0.2.0.tar.gz"
    tracked = {*artifacts.FILES_OF_ARCHIVE, "src/icefloe/__init__.py", ".pre-commit-config.yaml"} - {"PKG-INFO"}
    names = {*tracked, "PKG-INFO", "local.env"} - {"LICENSE", ".pre-commit-config.yaml"}
    with tarfile.open(archive, "w:gz") as opened:
        for name in names:
            content = METADATA if name == "PKG-INFO" else b""
            member = tarfile.TarInfo(f"icefloe-0.2.0/{name}")
            member.size = len(content)
            opened.addfile(member, BytesIO(content))
    assert artifacts.problems_of_archive(archive, "0.2.0", tracked) == [
        f"{archive.name}: LICENSE is missing",
        f"{archive.name}: local.env does not belong there",
    ]


def test_the_sbom_names_the_version_and_every_jar_that_is_fetched_later() -> None:
    bill = {"metadata": {"component": {"name": "icefloe"}}, "components": [{"name": "pyspark"}]}
    jars = json.loads(release.JARS.read_text(encoding="utf-8"))
    completed = artifacts.completed_bill(bill, "0.2.0", jars)
    assert completed["metadata"]["component"]["version"] == "0.2.0"
    assert completed["components"][0] == {"name": "pyspark"}
    hashes = {component["hashes"][0]["content"] for component in completed["components"][1:]}
    assert hashes == {jar["sha256"] for jar in jars["jars"]}
    purls = [component["purl"] for component in completed["components"][1:]]
    assert any(purl.startswith("pkg:maven/org.apache.iceberg/iceberg-spark-runtime-") for purl in purls)
