"""Which SELECT counts as the one that filled a target, and which text of it is compared."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from icefloe.lake.metadata import Snapshot
from icefloe.planner.errors import LogicChangedError
from icefloe.planner.logic import Logic, LogicVersion
from icefloe.planner.plan import Plan
from icefloe.steps.write.columns import ResultColumn
from icefloe.steps.write.defined_select import defined_select
from icefloe.steps.write.versions import COMPLETE, LOGIC, LogicOrder, LogicVersions
from icefloe.workflow.loading import inspect
from icefloe.workflow.model import TypedStep
from tests.unit.planner.tables import plan_of

OLD, NEW = (
    "SELECT id, count(*) AS n FROM db.events GROUP BY id",
    "SELECT id, sum(view_min) AS n FROM db.events GROUP BY id",
)
COLUMNS = [ResultColumn("id", "bigint"), ResultColumn("n", "bigint")]
PAIRS = (("id", "bigint"), ("n", "bigint"))


def snapshot(number: int, **summary: str) -> Snapshot:
    return Snapshot(
        id=number,
        parent_id=None,
        sequence_number=number,
        timestamp_ms=0,
        manifest_list=None,
        summary=summary,
        schema_id=0,
    )


def published(number: int, text: str, writer: str = "w/agg", run: str = "w-1") -> Snapshot:
    return snapshot(number, **{LOGIC: f"{writer}@{Logic(text, PAIRS).fingerprint}", "icefloe.run": run})


def version(text: str, run: str = "w-1") -> LogicVersion:
    return LogicVersion(Logic(text, PAIRS).fingerprint, run, Logic(text, PAIRS))


class Session:
    """Remembers what it was set to."""

    def __init__(self) -> None:
        self.conf = self
        self.settings: dict[str, str] = {}

    def set(self, key: str, value: str) -> None:
        self.settings[key] = value


def looked(order: LogicOrder, *past: Snapshot) -> Any:
    return LogicVersions(Session(), order, lambda line: None).change_since(past, COLUMNS)


def test_where_nothing_is_known_nothing_has_changed() -> None:
    assert looked(LogicOrder("w/agg", NEW)) is None
    assert looked(LogicOrder("w/agg", NEW), snapshot(1), published(2, OLD, writer="other/agg")) is None


def test_a_target_that_is_made_anew_holds_nothing_of_the_old_logic() -> None:
    order = LogicOrder("w/agg", NEW, known=(version(OLD),))
    assert LogicVersions(Session(), order, lambda line: None).change_since(None, COLUMNS) is None


def test_the_target_s_own_history_wins_over_the_record() -> None:
    restored = LogicOrder("w/agg", NEW, known=(version(OLD),))
    assert looked(restored) is not None
    assert looked(restored, published(2, NEW), published(1, OLD)) is None
    rolled_back = LogicOrder("w/agg", NEW, known=(version(NEW), version(OLD, "w-0")))
    found = looked(rolled_back, snapshot(3), published(1, OLD))
    assert found is not None and found.since.run == "w-0" and any("count(*)" in line for line in found.lines)


def test_another_tokenizer_s_fingerprint_of_the_same_text_is_no_change() -> None:
    assert looked(LogicOrder("w/agg", NEW, known=(LogicVersion("of.old", "w-1", Logic(NEW, PAIRS)),))) is None


@pytest.mark.parametrize(("on_change", "pattern", "stops"), [
    ("ask", "key_filter", True),
    ("ask", "full", False),
    ("from_now_on", "key_filter", False),
    ("rebuild", "full", False),
])  # fmt: skip
def test_only_what_would_mix_two_versions_is_asked_about(on_change: Any, pattern: str, stops: bool) -> None:
    session = Session()
    order = LogicOrder("w/agg", NEW, on_change, (version(OLD),), "w-7")
    versions = LogicVersions(session, order, lambda line: None)
    change = versions.change_since([], COLUMNS)
    plan: Plan = plan_of(NEW, "id", **({"pattern": "full"} if pattern == "full" else {}))
    assert plan.pattern == pattern
    if stops:
        with pytest.raises(LogicChangedError) as caught:
            versions.decide(change, plan, "db.target")
        assert caught.value.fatal and "icefloe restart w-7 ON_LOGIC_CHANGE=rebuild" in (caught.value.hint or "")
        assert session.settings == {}
        return
    versions.decide(change, plan, "db.target")
    (carried,) = session.settings.values()
    assert carried == f"w/agg@{Logic(NEW, PAIRS).fingerprint}"


def test_only_what_the_published_snapshot_holds_is_recorded() -> None:
    versions = LogicVersions(Session(), LogicOrder("w/agg", NEW), lambda line: None)
    assert versions.published(None) is None
    assert versions.published(snapshot(1)) is None
    assert versions.published(published(1, OLD)) is None, (
        "an earlier attempt has published the batch, with the old SELECT"
    )
    found = versions.published(published(1, NEW, run="w-3"))
    assert found == LogicVersion(Logic(NEW, PAIRS).fingerprint, "w-3", Logic(NEW))


DEFINITION = """
Workflow:
  id: w
  LIMIT: 5
  TABLE: db.events
  WHERE: a > ${LIMIT}
  DAY: ${RUN_DATE}
  jobs:
    - job:
        id: agg
        type: Spark
        OWN: 7
        spark: {script: "%s", write: {table: db.t}}
"""


def test_a_target_is_complete_as_long_as_nobody_else_commits_and_the_text_is_the_same() -> None:
    order = LogicOrder("w/agg", OLD)
    ours = snapshot(1, operation="overwrite", **{COMPLETE: order.complete(OLD)})
    compacted, foreign = snapshot(2, operation="replace"), snapshot(3, operation="append")
    assert order.completes([ours], OLD) and order.completes([compacted, ours], OLD.lower())
    assert not order.completes([foreign, ours], OLD)
    assert not order.completes([ours], NEW), "another SELECT, or other parameters in it"
    assert not LogicOrder("w/other", OLD).completes([ours], OLD)
    assert not order.completes([], OLD) and not order.completes([snapshot(1, operation="append")], OLD)


def defined(script: str, values: dict[str, Any], **more: Any) -> str:
    workflow = inspect(textwrap.dedent(DEFINITION % script), "w.yaml").workflow
    assert workflow is not None
    ((_, step),) = workflow.all_steps()
    assert isinstance(step, TypedStep)
    return defined_select(workflow, step, values, lambda key: f"<{key}>", **more)


VALUES = {"LIMIT": 5, "TABLE": "db.events", "WHERE": "a > 5", "DAY": "20260301", "RUN_DATE": "20260301", "OWN": 7}


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("SELECT ${LIMIT}, ${OWN} FROM ${TABLE} WHERE ${WHERE}", "SELECT 5, 7 FROM db.events WHERE a > 5"),
        (
            "SELECT '${DAY}', '${RUN_DATE}', ${capture__icdc_table}",
            "SELECT '${DAY}', '${RUN_DATE}', ${capture__icdc_table}",
        ),
        ("SELECT '$ENV{PASSWORD}'", "SELECT '$ENV{PASSWORD}'"),
        ("agg.sql", "<file:agg.sql>"),
    ],
)
def test_constants_of_the_definition_are_filled_in_and_what_a_run_decides_is_not(script: str, text: str) -> None:
    assert defined(script, VALUES) == text


def test_a_value_that_the_run_gives_for_a_constant_is_seen() -> None:
    assert defined("SELECT ${LIMIT}", {**VALUES, "LIMIT": 6}) == "SELECT 6"


def test_a_secret_that_came_in_with_a_parameter_is_hidden() -> None:
    assert defined("SELECT '${TABLE}'", {**VALUES, "TABLE": "hunter2"}, secrets=["hunter2"]) == "SELECT '***'"
