"""``icefloe db prune``: what people read and what programs parse, on both state databases."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from icefloe.cli.main import main
from tests.projects import Project

Prune = Callable[..., tuple[str, str]]


@pytest.fixture
def prune(project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Prune:
    """In a project with 22 runs of a workflow, none of which is to be kept longer than necessary."""
    workflow = project.push("Workflow: {id: w, jobs: [{job: {id: a, type: NoOp}}]}")
    for number in range(22):
        project.client.work(project.client.runs.start(workflow, occasion=f"at {number}").run_id)
    url = project.config.state.url
    text = f'[state]\nurl = "{url}"\n[keep]\nruns = "0"\nlogs = "0"\nevents = "0"\n'
    (project.root / "icefloe.toml").write_text(text)
    monkeypatch.setenv("ICEFLOE_CONFIG", str(project.root / "icefloe.toml"))
    monkeypatch.setenv("COLUMNS", "160")

    def run(*words: str) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["icefloe", "db", "prune", *words])
        with pytest.raises(SystemExit) as raised:
            main()
        printed = capsys.readouterr()
        assert not raised.value.code, printed.err
        return printed.out, printed.err

    return run


def test_a_dry_run_counts_what_prune_then_deletes_and_deletes_nothing(project: Project, prune: Prune) -> None:
    def parsed(*words: str) -> dict[str, Any]:
        return dict(json.loads(prune(*words, "--output", "json")[0]))

    counted = parsed("--dry-run")
    assert (counted["dry_run"], counted["released"], counted["freed_bytes"]) == (True, 0, None)
    assert len(project.client.runs.listing("w", most=100)) == 22
    assert parsed("--dry-run") == counted
    done = parsed()
    assert (done["dry_run"], done["released"], done["release_trouble"]) == (False, 0, None)
    assert done["kinds"] == counted["kinds"]
    runs = next(item for item in done["kinds"] if item["kind"] == "runs")
    assert runs["items"] == 2 * 3 and runs["bytes"] > 0 and runs["error"] is None, "runs, steps and attempts"
    assert len(project.client.runs.listing("w", most=100)) == 20
    assert all(item["items"] == 0 for item in parsed()["kinds"])


def test_people_read_a_table_and_what_became_of_the_pins(prune: Prune) -> None:
    for words, heading, verb in (
        (("--dry-run",), "would go", "would be"),
        ((), "deleted", "are"),
        (("--vacuum",), "deleted", "are"),
    ):
        out, err = prune(*words)
        assert heading in out.splitlines()[0] and any(line.split()[0] == "runs" for line in out.splitlines())
        assert f"pins and change tables of 0 batches {verb} released" in err
