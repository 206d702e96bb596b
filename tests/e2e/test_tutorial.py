"""The tutorial, typed as it is printed: every command of it, in order, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "tutorial" / "first-incremental-workflow.md"


def blocks(text: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page: language and content."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_every_command_of_the_tutorial_does_what_the_tutorial_says(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("ICEFLOE_CONFIG", None)
    outputs: list[str] = []
    try:
        for language, content in blocks(TUTORIAL.read_text(encoding="utf-8")):
            if language == "yaml":
                (tmp_path / "playback.yaml").write_text(content, encoding="utf-8")
                continue
            done = subprocess.run(
                ["bash", "-ec", content],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            assert done.returncode == 0, f"{content}\n{done.stdout}\n{done.stderr}"
            outputs.append(done.stdout)
    finally:
        subprocess.run(["icefloe", "spark", "stop"], cwd=tmp_path, env=environment, check=False, capture_output=True)
    *_, second_runs, third_run, repaired, _ = outputs
    for event in "12345":
        assert re.search(rf"^\W*{event}\b", second_runs, flags=re.MULTILINE), second_runs
    assert "SKIPPED" in third_run
    assert re.search(r"\b6\W+6\b", repaired), repaired
