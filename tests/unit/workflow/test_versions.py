"""Versions contain every file they refer to, and are the same when they mean the same."""

from __future__ import annotations

import hashlib
import json

import pytest

from icefloe.workflow.diff import diff
from icefloe.workflow.files import MemoryFiles, script_key
from icefloe.workflow.loading import load
from icefloe.workflow.model import Workflow
from icefloe.workflow.problems import DefinitionError
from icefloe.workflow.serialization import MalformedModelError
from icefloe.workflow.versions import Packed, WorkflowVersion, pack

TEXT = """
Workflow:
  id: files
  query: $S3{bucket/query.sql}
  jobs:
    - job: {id: a, type: Spark, spark: {script: clean.sql, files: [helper.py]}}
    - job: {id: b, type: Shell, shell: {script: "cat <<EOF\\n$FILE{notes.txt}\\nEOF", env: {PW: "$ENV{DB_PASSWORD}"}}}
    - job: {id: c, type: Python, python: {script: "my.module:function"}}
    - job: {id: d, type: Spark, spark: {script: "s3://bucket/job.py"}}
  dag: sequential
"""
FILES = {
    "s3:bucket/query.sql": b"select 1",
    "file:clean.sql": b"delete from t",
    "file:helper.py": b"x = 1",
    "file:notes.txt": b"notes for $ENV{OTHER_SECRET}",
    "s3:bucket/job.py": b"print('x')",
}


def packed(text: str = TEXT, files: dict[str, bytes] | None = None) -> Packed:
    return pack(load(text, "wf.yaml"), MemoryFiles(FILES if files is None else files))


def test_a_version_contains_every_file_it_refers_to_by_content_hash() -> None:
    found = packed()
    assert [file.key for file in found.version.files] == sorted(FILES)
    for file in found.version.files:
        assert file.digest == hashlib.sha256(FILES[file.key]).hexdigest()
        assert found.contents[file.digest] == FILES[file.key]


def test_files_that_cannot_be_had_are_all_named_with_their_places() -> None:
    with pytest.raises(DefinitionError) as caught:
        packed(files={"file:clean.sql": b""})
    places = [(problem.code, problem.position and problem.position.line) for problem in caught.value.problems]
    assert places == [("file.unreadable", 4), ("file.unreadable", 6), ("file.unreadable", 7), ("file.unreadable", 9)]


def test_a_file_that_is_too_large_is_refused() -> None:
    with pytest.raises(DefinitionError, match="too large"):
        packed(files={**FILES, "file:clean.sql": b"x" * (11 * 1024 * 1024)})


@pytest.mark.parametrize(
    ("script", "key"),
    [
        ("job.py", "file:job.py"),
        ("sql/clean.SQL", "file:sql/clean.SQL"),
        ("s3://b/k.sql", "s3:b/k.sql"),
        ("select 1", None),
        ("select a.py", None),
        ("my.module:function", None),
        ("${dir}/x.sql", None),
        ("line\njob.py", None),
        (5, None),
    ],
)
def test_a_script_names_a_file_by_its_ending(script: object, key: str | None) -> None:
    assert script_key(script) == key


def test_the_digest_depends_on_meaning_and_contents_alone() -> None:
    same = TEXT.replace("Workflow:", "# a comment\nworkflow:").replace("type: Spark", "type: spark")
    assert packed(same).version.digest() == packed().version.digest()
    changed = {**FILES, "file:helper.py": b"x = 2"}
    assert packed(files=changed).version.digest() != packed().version.digest()
    assert packed(TEXT.replace("clean.sql", "clean.sql ")).version.files == packed().version.files


def test_a_version_survives_being_stored() -> None:
    version = packed().version
    again = WorkflowVersion.from_dict(json.loads(json.dumps(version.to_dict())))
    assert again == version
    assert again.digest() == version.digest()


def test_only_secrets_that_the_definition_or_its_files_name_belong_to_it() -> None:
    found = packed()
    assert found.version.secrets() == {"DB_PASSWORD"}
    assert found.version.secrets(lambda digest: found.contents[digest]) == {"DB_PASSWORD", "OTHER_SECRET"}


def test_files_that_are_no_text_are_left_out_of_the_texts() -> None:
    found = packed(files={**FILES, "file:helper.py": b"\xff\xfe"})
    assert "file:helper.py" not in found.version.file_texts(lambda digest: found.contents[digest])


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"format": 2, "id": "x"},
        {"format": 1},
        {"format": 1, "id": 5},
        {"format": 1, "id": "x", "steps": [{"kind": "nope"}]},
        {"format": 1, "id": "x", "steps": [{"kind": "cron", "cron": "@daily"}]},
        {"format": 1, "id": "x", "colour": "red"},
        {"format": 1, "id": "x", "params": [{"name": "p", "type": "LONG", "value": "text"}]},
        {"format": 1, "id": "x", "run_strategy": {"rule": "SOMETIMES"}},
    ],
)
def test_stored_definitions_that_are_not_ours_are_refused(data: dict[str, object]) -> None:
    with pytest.raises(MalformedModelError):
        Workflow.from_dict(data)


# --- differences ---------------------------------------------------------------------------------------------------------


def test_no_difference_is_empty_and_false() -> None:
    found = diff(packed().version, packed().version)
    assert not found
    assert (found.changes, found.text) == ((), "")


def test_differences_are_named_by_path() -> None:
    text = (
        TEXT.replace("  dag: sequential", "  owner: me\n  dag: [a -> b]")
        .replace("helper.py", "other.py")
        .replace("query: $S3{bucket/query.sql}", "query: select 2")
    )
    files = {**FILES, "file:other.py": b"", "file:clean.sql": b"changed"}
    found = diff(packed().version, packed(text, files).version)
    kinds = {change.path: change.kind for change in found.changes}
    assert kinds == {
        "owner": "added",
        "params.query.value": "changed",
        "steps.a.settings.files": "changed",
        "transitions.b -> c []": "removed",
        "transitions.c -> d []": "removed",
        "files.file:clean.sql": "changed",
        "files.file:helper.py": "removed",
        "files.file:other.py": "added",
        "files.s3:bucket/query.sql": "removed",
    }
    assert "+  owner: me" in found.text
    assert found.to_dict()["changed"] is True


def test_another_order_of_steps_is_a_difference() -> None:
    one = packed("Workflow: {id: w, jobs: [{job: {id: a, type: NoOp}}, {job: {id: b, type: NoOp}}]}")
    other = packed("Workflow: {id: w, jobs: [{job: {id: b, type: NoOp}}, {job: {id: a, type: NoOp}}]}")
    assert [change.path for change in diff(one.version, other.version).changes] == ["steps (order)"]


@pytest.mark.parametrize("script", ["${dir}/clean.sql", "$FILE{${part}.sql}", "$S3{bucket/${day}}"])
def test_a_file_whose_name_depends_on_a_parameter_is_refused(script: str) -> None:
    text = f"Workflow: {{id: w, dir: d, part: n, day: x, jobs: [{{job: {{id: a, type: Spark, spark: {{script: '{script}'}}}}}}]}}"
    with pytest.raises(DefinitionError) as caught:
        load(text)
    assert [problem.code for problem in caught.value.problems] == ["file.dynamic"]
