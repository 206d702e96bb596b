"""Which Java is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from icefloe.errors import MissingComponentError
from icefloe.spark import java


def installation(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    launcher = folder / "bin" / "java"
    launcher.write_text("#!/bin/sh\nexit 1\n")
    launcher.chmod(0o755)
    return folder


def test_java_home_comes_before_the_path_and_the_usual_folders(tmp_path: Path) -> None:
    home = installation(tmp_path / "home", "21.0.2")
    path = installation(tmp_path / "path", "17.0.1")
    found = java.find(env={"JAVA_HOME": str(home), "PATH": str(path / "bin")}, folders=())
    assert (found.version, found.home) == (21, home)


def test_versions_that_spark_does_not_run_on_are_passed_over(tmp_path: Path) -> None:
    newest = installation(tmp_path / "path", "25.0.1")
    installation(tmp_path / "jvm" / "java-8", "1.8.0")
    installation(tmp_path / "jvm" / "java-11", "11.0.1")
    fitting = installation(tmp_path / "jvm" / "java-17", "17.0.9")
    found = java.find(env={"JAVA_HOME": str(newest), "PATH": str(newest / "bin")}, folders=(tmp_path / "jvm",))
    assert found.home == fitting


def test_without_a_fitting_one_the_error_says_what_was_seen_and_what_to_type(tmp_path: Path) -> None:
    newest = installation(tmp_path / "java-25", "25")
    with pytest.raises(MissingComponentError, match=r"passed over: Java 25 in .*java-25") as caught:
        java.find(env={"PATH": str(newest / "bin")}, folders=(tmp_path / "none",))
    assert "apt-get install -y openjdk-" in (caught.value.hint or "")


@pytest.mark.parametrize(("release", "package"), [("12", "openjdk-17"), ("13", "openjdk-21"), ("24.04", "openjdk-21")])
def test_the_hint_names_the_package_that_this_debian_has(tmp_path: Path, release: str, package: str) -> None:
    file = tmp_path / "os-release"
    file.write_text(f'NAME="Debian"\nVERSION_ID="{release}"\n')
    assert package in java.install_hint(file)


@pytest.mark.parametrize(
    ("release", "platform", "words"),
    [
        ("ID=ubuntu\nID_LIKE=debian\n", "linux", "apt-get install -y openjdk-21-jre-headless, or"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "linux", "dnf install -y java-21-openjdk-headless, or"),
        ("", "darwin", "brew install openjdk@21, or"),
        ("ID=nixos\n", "linux", "(Debian, Ubuntu), dnf install -y java-21-openjdk-headless (Red Hat, Fedora), brew"),
    ],
)
def test_the_hint_is_what_one_types_on_this_system(tmp_path: Path, release: str, platform: str, words: str) -> None:
    file = tmp_path / "os-release"
    file.write_text(release)
    hint = java.install_hint(file, platform)
    assert words in hint and "\n" not in hint


def test_a_configured_java_that_does_not_fit_is_an_error_not_a_suggestion(tmp_path: Path) -> None:
    wrong = installation(tmp_path / "java-11", "11.0.1")
    with pytest.raises(MissingComponentError, match="is Java 11"):
        java.find(str(wrong))
    with pytest.raises(MissingComponentError, match="holds no Java"):
        java.find(str(tmp_path / "nowhere"))


def test_the_java_of_this_machine_is_found() -> None:
    assert java.find().version in java.SUPPORTED
