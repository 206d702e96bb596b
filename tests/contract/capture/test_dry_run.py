"""Before pushing: what a run would capture and run, with nothing moved and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from icefloe.service.dry_run import dry_run
from tests.contract.capture.conftest import Bench
from tests.contract.capture.test_capture_settings import bench  # noqa: F401 - SQLite only
from tests.contract.capture.test_micro_batches import CONSUMER

TEXT = """
Workflow:
  id: copy
  TARGET: db.copies
  DAY: "2026-03-01"
  jobs:
    - job: {id: look, type: IpCapture, ip_capture: {source_tables: [db.events], columns: [day]}}
    - job:
        id: write
        type: Spark
        spark:
          script: |
            INSERT INTO ${TARGET} SELECT * FROM ${look__icdc_table} WHERE day >= DATE'${look__day_min}' AND day <> DATE'${DAY}'
    - job: {id: after, type: Shell, shell: {script: "echo ${write__published_tables}"}}
    - job: {id: commit, type: IpCommit, ip_commit: {capture_step: look}}
  dag: sequential
"""


@pytest.fixture
def definition(bench: Bench) -> Path:  # noqa: F811
    file = bench.project.root / "copy.yaml"
    file.write_text(TEXT, encoding="utf-8")
    bench.create("db.events")
    bench.append("db.events", 1, 2, day=3)
    return file


def test_it_shows_what_would_be_captured_and_the_sql_as_it_would_run(bench: Bench, definition: Path) -> None:  # noqa: F811
    before = bench.lake.table("db.events").metadata.refs
    (found,) = dry_run(bench.project.client, definition, {"DAY": "2026-03-09"})
    (take,) = found.captures
    assert (take.consumer, take.adopts, take.has_changes, take.problem) == (CONSUMER, None, True, None)
    assert take.sources[0]["rows"] == 2 and take.sources[0]["from_snapshot"] is None
    write, after = found.steps
    assert write.text.startswith("INSERT INTO db.copies SELECT * FROM lake.icdc.events_…")
    assert "DATE'2026-03-03'" in write.text and "DATE'2026-03-09'" in write.text
    assert after.text == "echo ${write__published_tables}", "only the run itself knows"
    assert bench.lake.table("db.events").metadata.refs == before
    assert bench.lake.change_tables() == [] and bench.captures(CONSUMER) == []
    assert bench.project.client.workflows.listing() == []


def test_what_it_would_fail_with_is_told_with_the_hint(bench: Bench, definition: Path) -> None:  # noqa: F811
    definition.write_text(TEXT.replace("columns: [day]", "columns: [dai]"), encoding="utf-8")
    (found,) = dry_run(bench.project.client, definition)
    assert found.captures[0].problem is not None
    assert found.captures[0].problem["code"] == "lake.column-not-found"
