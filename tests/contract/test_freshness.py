"""How fresh each target is, against its workflow's goal; and the metadata of many tables, read once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from icefloe.errors import IcefloeError
from icefloe.lake import Lake
from icefloe.lake.catalog import LoadedTable
from icefloe.service.definition_tables import read_by
from icefloe.service.freshness import TableFreshness, freshness
from icefloe.service.table_metadata import TableMetadataCache
from icefloe.store import captures
from icefloe.store.captures import CaptureRecord
from tests.contract.triggers.conftest import Stage, stage  # noqa: F401 - a fixture

COPY = """
Workflow:
  id: {id}
  freshness: {goal}
  jobs:
    - job: {{id: capture, type: IpCapture, ip_capture: {{source_tables: [{source}]}}}}
    - job:
        id: write
        type: Spark
        spark: {{script: "SELECT id, day FROM {source}", write: {{table: {target}, keys: [id], pattern: auto}}}}
    - job: {{id: commit, type: IpCommit, ip_commit: {{capture_step: capture}}}}
  dag: sequential
"""


def now_of(stage: Stage) -> dict[str, TableFreshness]:  # noqa: F811
    client = stage.project.client
    client.table_metadata.forget()
    client.definition_tables.forget()
    return {one.table: one for one in freshness(client)}


def test_without_definitions_there_is_nothing_to_be_late(stage: Stage) -> None:  # noqa: F811
    assert now_of(stage) == {}


def test_a_target_is_late_when_its_workflow_has_not_taken_what_is_older_than_the_goal(stage: Stage) -> None:  # noqa: F811
    for table in ("db.events", "db.copy", "db.slow"):
        stage.create(table)
    stage.append("db.events", 1, 2)
    stage.project.push(COPY.format(id="quick", goal="0.001", source="db.events", target="db.copy"))
    stage.project.push(COPY.format(id="slow", goal="1h", source="db.events", target="db.slow"))
    stage.append("db.copy", 1, mark={"icefloe.run": "r"})
    first, second = freshness(stage.project.client)
    assert (first.table, first.state, first.workflow_id, first.goal_seconds) == ("db.copy", "late", "quick", 0.001)
    assert first.rows == 1
    assert first.newest_at is not None
    assert "db.events" in first.why
    assert (second.table, second.state, second.newest_at, second.rows) == ("db.slow", "fresh", None, None)


def test_completeness_comes_from_the_watermark_and_the_table_itself_and_no_goal_is_said(stage: Stage) -> None:  # noqa: F811
    stage.create("db.events")
    stage.create("db.copy")
    stage.project.push(
        COPY.format(id="flow", goal="1h", source="db.events", target="db.copy").replace("  freshness: 1h\n", "")
    )
    stage.project.client.triggers.set_watermark("db.copy", "2026-03-01")
    found = now_of(stage)["db.copy"]
    assert (found.state, found.goal_seconds, found.complete_through) == ("unknown", None, 1772323200.0)
    assert "no goal" in found.why
    with stage.catalog.load_table("db.copy").transaction() as change:
        change.set_properties({"icefloe.valid-through": "2026-03-02"})
    assert now_of(stage)["db.copy"].complete_through == 1772409600.0


def test_without_a_freshness_the_greatest_lag_is_the_goal(stage: Stage) -> None:  # noqa: F811
    for table in ("db.events", "db.copy"):
        stage.create(table)
    stage.append("db.events", 1)
    text = COPY.format(id="flow", goal="1h", source="db.events", target="db.copy")
    stage.project.push(text.replace("freshness: 1h", "alerting: {max_lag: {time: 0.001}}"))
    found = now_of(stage)["db.copy"]
    assert (found.state, found.goal_seconds) == ("late", 0.001)


def test_a_source_that_is_gone_makes_the_state_unknown_and_says_so(stage: Stage) -> None:  # noqa: F811
    stage.create("db.copy")
    stage.project.push(COPY.format(id="flow", goal="1h", source="db.events", target="db.copy"))
    found = now_of(stage)["db.copy"]
    assert (found.state, found.behind_seconds) == ("unknown", None)
    assert "db.events cannot be read" in found.why


def test_a_broken_table_is_told_in_its_place_and_the_others_are_read(stage: Stage) -> None:  # noqa: F811
    stage.create("db.good")
    stage.create("db.broken")
    location = stage.catalog.load_table("db.broken").metadata_location
    Path(location.removeprefix("file://")).write_text("{not json")
    cache = TableMetadataCache(lambda: Lake.open(stage.project.config))
    found = cache.load(["db.good", "db.broken", "db.none", "nonsense"])
    assert isinstance(found["db.good"], LoadedTable)
    codes = {name: one.code for name, one in found.items() if isinstance(one, IcefloeError)}
    assert codes == {"db.broken": "lake.metadata-unreadable", "db.none": "lake.table-not-found", "nonsense": "usage"}


def test_metadata_is_read_again_only_when_it_is_another_file(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    stage.create("db.events")
    cache = TableMetadataCache(lambda: Lake.open(stage.project.config), fresh_seconds=0)
    tables = cache.lake.tables
    loads = []
    load = tables.load
    monkeypatch.setattr(tables, "load", lambda name: loads.append(name) or load(name))
    for _ in range(3):
        cache.load(["db.events"])
    assert len(loads) == 1
    snapshot = stage.append("db.events", 1)
    answer = cache.load(["db.events"])["db.events"]
    assert isinstance(answer, LoadedTable)
    assert list(answer.metadata.snapshots) == [snapshot]
    assert len(loads) == 2


def test_a_catalog_that_hangs_is_not_waited_for_and_what_it_says_later_is_shown(stage: Stage) -> None:  # noqa: F811
    stage.create("db.events")
    goes_on = threading.Event()

    def slowly() -> Lake:
        assert goes_on.wait(30)
        return Lake.open(stage.project.config)

    cache = TableMetadataCache(slowly, patience_seconds=0.05)
    first = cache.load(["db.events"])["db.events"]
    assert isinstance(first, IcefloeError)
    assert "not answered within" in first.message
    goes_on.set()
    patient = TableMetadataCache.load
    cache._patience_seconds = 30
    assert isinstance(patient(cache, ["db.events"])["db.events"], LoadedTable)


def test_sql_tells_what_it_reads() -> None:
    script = """
        WITH recent AS (SELECT * FROM lake.db.a JOIN db.b USING (id))
        INSERT INTO db.target SELECT * FROM recent, db.`odd name`, plain_view;
        MERGE INTO db.target t USING (SELECT * FROM db.c VERSION AS OF 3) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *;
        SELECT * FROM db.d.snapshots; SELECT * FROM db.e.branch_x; SELEKT nonsense FROM db.f
    """
    assert read_by(script, "lake") == {"db.a", "db.b", "db.`odd name`", "db.c", "db.d", "db.e"}


def test_what_was_published_in_fact_is_a_target_and_new_batches_are_seen_at_the_next_look(stage: Stage) -> None:  # noqa: F811
    client = stage.project.client
    client.definition_tables._fresh_seconds = 0.0

    def publish(capture: str, target: str, at: float) -> None:
        with client.database.write() as connection:
            captures.ensure_consumer(connection, "flow/capture", "flow", at)
            record = CaptureRecord(capture, "flow/capture", "run", "capture", "", "committed", 0, [], True, 0.0, at)
            captures.add_capture(connection, record)
            captures.publish(
                connection, capture_id=capture, step_path="write", iteration=None, target=target, snapshot_id=1, now=at
            )

    publish("c1", "db.a", 1000.0)
    assert client.definition_tables.known().published == {"db.a": 1000.0}
    publish("c2", "db.a", 1500.0)
    publish("c3", "db.b", 1400.0)
    known = client.definition_tables.known()
    assert (known.published, known.writers("db.b")) == ({"db.a": 1500.0, "db.b": 1400.0}, ["flow"])
    assert {one.table: one.state for one in freshness(client)} == {"db.a": "unknown", "db.b": "unknown"}
