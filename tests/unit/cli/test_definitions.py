"""``icefloe validate``, ``graph``, ``convert`` and ``schema`` as people and scripts use them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from icefloe.cli import definitions
from icefloe.errors import NotFoundError

SEEDS = Path(__file__).parent.parent / "workflow" / "seeds"


app = typer.Typer()
definitions.register(app)


def icefloe(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_a_valid_definition_is_said_to_be_valid() -> None:
    done = icefloe("validate", str(SEEDS / "playback_agg.yaml"))
    assert (done.exit_code, done.stderr) == (0, "")
    assert "playback.agg is valid" in done.stdout


def test_errors_show_their_line_with_a_mark_and_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "wf.yaml"
    file.write_text("Workflow:\n  id: w\n  timout: 5m\n  jobs: [{job: {id: a, type: NoOp}}]\n", encoding="utf-8")
    done = icefloe("validate", "wf.yaml")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "wf.yaml:3:3: error [definition.misspelt-key]: 'timout' is no workflow key",
        "  3 │   timout: 5m",
        "    │   ^",
        "  → did you mean 'timeout'? A parameter of this name goes under params:",
    ]


def test_json_goes_to_stdout_and_has_every_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text(
        "Workflow: {id: w, jobs: [{job: {id: a, type: Spark, spark: {script: gone.sql}}}]}"
    )
    done = icefloe("validate", "bad.yaml", str(SEEDS / "auto_remediation.yaml"), "--output", "json")
    report = json.loads(done.stdout)
    assert done.exit_code == 2
    assert report["valid"] is False
    bad, good = report["files"]
    assert (bad["valid"], bad["problems"][0]["code"], bad["problems"][0]["line"]) == (False, "file.unreadable", 1)
    assert (good["valid"], good["workflows"]) == (True, ["auto.remediation.pipeline"])


def test_files_outside_the_definitions_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "secret.sql").write_text("x")
    (tmp_path / "sub" / "wf.yaml").write_text(
        "Workflow: {id: w, jobs: [{job: {id: a, type: Spark, spark: {script: ../secret.sql}}}]}"
    )
    done = icefloe("validate", "sub/wf.yaml")
    assert done.exit_code == 2
    assert "outside the definition's folder" in done.stderr


@pytest.mark.parametrize("name", ["gone.yaml", "gone.py", "."])
def test_a_file_that_is_not_there_is_a_plain_error(tmp_path: Path, name: str) -> None:
    assert isinstance(icefloe("validate", str(tmp_path / name)).exception, NotFoundError)


def test_the_command_ends_with_2_and_no_traceback_when_a_file_is_not_there(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "icefloe.cli.main", "validate", "gone.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr == "error [not-found] there is no file gone.yaml\n"


def test_a_graph_is_drawn_in_every_format() -> None:
    file = str(SEEDS / "auto_remediation.yaml")
    assert "│ check_status │" in icefloe("graph", file).stdout
    assert icefloe("graph", file, "--format", "mermaid").stdout.startswith("flowchart TD\n")
    svg = icefloe("graph", file, "--format", "svg").stdout
    assert svg.startswith("<svg ")
    assert svg.endswith("</svg>\n")
    assert json.loads(icefloe("graph", file, "-o", "json").stdout)["steps"][0] == {
        "id": "normal_workflow",
        "path": "normal_workflow",
        "type": "Subworkflow",
    }


def test_a_graph_with_a_circle_is_drawn_and_refused(tmp_path: Path) -> None:
    file = tmp_path / "wf.yaml"
    file.write_text(
        "Workflow: {id: w, jobs: [{job: {id: a, type: NoOp}}, {job: {id: b, type: NoOp}}], dag: [a -> b -> a]}"
    )
    done = icefloe("graph", str(file))
    assert done.exit_code == 2
    assert "│ a │" in done.stdout
    assert "in a circle" in done.stderr


def test_a_short_form_is_written_out_by_convert() -> None:
    done = icefloe("convert", str(SEEDS / "playback_daily.yaml"))
    assert done.exit_code == 0
    assert "capture_icdc_commit" in done.stdout
    stored = json.loads(icefloe("convert", str(SEEDS / "playback_daily.yaml"), "-o", "json").stdout)
    assert stored["id"] == "playback_daily_workflow"
    assert len(stored["digest"]) == 64


def test_the_schema_is_printed() -> None:
    assert json.loads(icefloe("schema").stdout)["title"] == "Icefloe workflow definition"
