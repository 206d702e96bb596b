"""From files to versions: YAML and Python, unchanged texts, differences."""

from __future__ import annotations

from pathlib import Path

import pytest

from icefloe.service.pushing import diff_file, push_files
from icefloe.workflow.problems import DefinitionError
from tests.projects import Project

YAML = "Workflow: {id: flow, jobs: [{job: {id: a, type: Shell, shell: {script: a.sh}}}]}\n"
PYTHON = "from icefloe.workflow.builder import Pipeline\nflow = Pipeline('flow')\nflow.shell('a', 'a.sh')\n"


def write(project: Project, name: str, text: str) -> Path:
    file = project.root / name
    file.write_text(text, encoding="utf-8")
    return file


def test_a_python_file_makes_the_same_version_as_the_yaml_it_stands_for(project: Project) -> None:
    write(project, "a.sh", "echo 1")
    (first,) = push_files(project.client, [write(project, "flow.yaml", YAML)])
    (second,) = push_files(project.client, [write(project, "flow.py", PYTHON)])
    assert (first.created, first.version) == (True, 1)
    assert (second.created, second.version) == (False, 1)


def test_a_changed_file_makes_a_new_version_and_the_difference_names_it(project: Project) -> None:
    script, definition = write(project, "a.sh", "echo 1"), write(project, "flow.yaml", YAML)
    assert diff_file(project.client, definition) == {"flow": None}
    push_files(project.client, [definition])
    assert not diff_file(project.client, definition)["flow"]
    script.write_text("echo 2", encoding="utf-8")
    found = diff_file(project.client, definition)["flow"]
    assert found is not None
    assert [change.path for change in found.changes] == ["files.file:a.sh"]
    assert push_files(project.client, [definition])[0].version == 2


def test_nothing_is_stored_when_one_of_the_files_is_wrong(project: Project) -> None:
    write(project, "a.sh", "echo 1")
    files = [write(project, "flow.yaml", YAML), write(project, "wrong.yaml", "Workflow: {id: x, jbos: []}")]
    with pytest.raises(DefinitionError):
        push_files(project.client, files)
    assert project.client.workflows.listing() == []
