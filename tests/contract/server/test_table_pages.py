"""Pages and REST of tables, lineage, consumers, captures and savings: over a real listener, on both databases."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from icefloe.lake.pins import checkpoint_tag
from icefloe.server.listening import Listener
from icefloe.service.access import Access, Role
from icefloe.store import captures, savings
from icefloe.store.savings import SavingsRecord
from tests.contract.capture.conftest import Bench
from tests.contract.capture.test_micro_batches import CONSUMER, copy
from tests.contract.server.browsing import forms, words
from tests.projects import make_project

PAGES = ("/tables", "/consumers", "/lineage", "/savings")
HOSTILE = "<script>alert(1)</script> ' OR 1=1 -- \" & \u202e"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"
AGGREGATE = """
Workflow:
  id: {id}
  freshness: {goal}
  jobs:
    - job: {{id: capture, type: IpCapture, ip_capture: {{source_tables: [{source}]}}}}
    - job:
        id: write
        type: Spark
        spark:
          script: "SELECT id, day FROM {source} JOIN db.countries USING (id)"
          write: {{table: {target}, keys: [id], pattern: auto}}
    - job: {{id: commit, type: IpCommit, ip_commit: {{capture_step: capture}}}}
  dag: sequential
"""
Browser = Callable[[Role], httpx.Client]


@pytest.fixture
def bench(state_url: str, tmp_path: Path) -> Iterator[Bench]:
    made = make_project(tmp_path / "project", state_url)
    yield Bench(made)
    made.client.close()


@pytest.fixture
def browser(bench: Bench) -> Iterator[Browser]:
    """Opens a browser that has logged in by a one-time link. What is looked at is never older than now."""
    client = bench.project.client
    client.table_metadata._fresh_seconds = client.definition_tables._fresh_seconds = 0.0
    listener = Listener(client, "127.0.0.1:0")
    listener.start(on_failure=lambda: None)
    opened: list[httpx.Client] = []

    def open_as(role: Role) -> httpx.Client:
        made = httpx.Client(base_url=listener.address, timeout=60)
        key = Access(client.database).make_link(role, actor=f"the {role}")
        assert made.get("/login", params={"key": key}).status_code == 303
        opened.append(made)
        return made

    yield open_as
    for one in opened:
        one.close()
    listener.close()


@pytest.fixture
def viewer(browser: Browser) -> httpx.Client:
    return browser(Role.viewer)


@pytest.fixture
def read(bench: Bench) -> Bench:
    """A consumer that has read two appends of three."""
    bench.create("db.events")
    bench.append("db.events", 1, 2)
    bench.project.push(copy())
    bench.project.execute("copy")
    bench.append("db.events", 3, day=2)
    bench.project.execute("copy")
    bench.append("db.events", 4, 5)
    return bench


def page(client: httpx.Client, path: str, status: int = 200, **query: str) -> str:
    answer = client.get(path, params=query or None)
    assert answer.status_code == status, answer.text[:2000]
    assert "<script>alert" not in answer.text
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=", answer.text), "the security policy forbids it"
    return answer.text


def fields_of(text: str, action: str) -> dict[str, str]:
    """What the page's form would send when nobody touches it."""
    return next(form.fields for form in forms(text) if form.action == action)


def preview(client: httpx.Client, **query: str) -> dict[str, str]:
    return fields_of(page(client, "/consumers/preview", **query), "/consumers/confirm")


# -- looking ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_nothing_says_what_would_fill_it(viewer: httpx.Client, path: str) -> None:
    assert 'class="empty"' in page(viewer, path)


@pytest.mark.parametrize("path", ["/tables/db.none", "/captures/none", "/tables/db.none.at.all"])
def test_what_is_not_there_is_not_found(viewer: httpx.Client, path: str) -> None:
    page(viewer, path, 404)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/tables/nonsense", 400), ("/lineage?table=nonsense", 400), ("/lineage?table=db.none", 404), ("/lineage?depth=9", 400),
     ("/consumers?name=none", 404), ("/consumers/preview?verb=explode&name=x", 400), ("/savings?days=-1", 400)],
)  # fmt: skip
def test_an_address_that_cannot_be_meant_gets_a_page_that_says_so(viewer: httpx.Client, path: str, status: int) -> None:
    page(viewer, path, status)


def test_a_table_shows_who_reads_it_and_how_far_behind_they_are(read: Bench, viewer: httpx.Client) -> None:
    listed = words(page(viewer, "/tables"))
    assert "db.events" in listed
    assert "copy/look 1 snapshot, 2 rows" in listed
    shown = page(viewer, "/tables/db.events")
    told = words(shown)
    assert "1 snapshot, 2 rows" in told
    assert "Partitioned by day" in told
    assert checkpoint_tag(CONSUMER) in told
    for one in read.captures(CONSUMER):
        assert f"/captures/{one.id}" in shown
    for snapshot in read.catalog.load_table("db.events").history():
        assert str(snapshot.snapshot_id) in told


def test_what_a_capture_would_take_is_worked_out_on_demand(read: Bench, viewer: httpx.Client) -> None:
    _, second, third = (one.snapshot_id for one in read.catalog.load_table("db.events").history())
    told = words(page(viewer, "/tables/db.events", look="copy"))
    assert f"From {second} To {third} Rows 2 in 1 file" in told
    assert "id 4 to 5" in told
    assert read.version(CONSUMER) == 2


def test_the_lateness_of_a_table_is_drawn_with_its_numbers(read: Bench, viewer: httpx.Client) -> None:
    shown = page(viewer, "/tables/db.events")
    days = [
        int(one)
        for one in re.findall(r"Lookback for [\d.]+ % of the rows</dt><dd>([\d,]+) days?", shown.replace(",", ""))
    ]
    today = (int(time.time()) // 86_400) - 20_513  # 2026-03-01 is day 20513
    assert days[-1] == today
    assert "The first load (2 rows)" in words(shown)
    told = viewer.get("/api/v1/lateness/db.events").json()
    assert told["profile"]["rows"] == 3
    assert sum(one["rows"] for one in told["arrivals"]) == 5
    assert {one["event"] for one in told["arrivals"]} == {"2026-03-01", "2026-03-02"}


def test_a_table_that_was_dropped_or_is_broken_says_so_in_its_place(read: Bench, viewer: httpx.Client) -> None:
    for name in ("db.broken", "db.dropped"):
        read.create(name)
        read.append(name, 1)
        read.project.client.triggers.set_watermark(name, "2026-03-01")
    location = read.catalog.load_table("db.broken").metadata_location
    Path(location.removeprefix("file://")).write_text("{not json")
    read.catalog.drop_table("db.dropped")
    listed = words(page(viewer, "/tables"))
    assert "db.broken watermark only cannot be read lake.metadata-unreadable" in listed
    assert "db.dropped watermark only not there it is not in the catalog" in listed
    assert "db.events" in listed
    assert "lake.metadata-unreadable" in words(page(viewer, "/tables/db.broken"))
    assert "there is no such table" in words(page(viewer, "/tables/db.dropped"))
    by_name = {one["table"]: one for one in viewer.get("/api/v1/tables").json()["tables"]}
    assert (by_name["db.dropped"]["missing"], by_name["db.broken"]["missing"]) == (True, False)
    assert viewer.get("/api/v1/tables/db.dropped").status_code == 404


def test_a_consumer_whose_source_is_gone_or_whose_history_has_expired_says_so(
    read: Bench, viewer: httpx.Client
) -> None:
    first = read.catalog.load_table("db.events").history()[0].snapshot_id
    read.project.client.consumers.rewind(CONSUMER, first, yes=True, why="to be left behind")
    read.lake.remove_checkpoint_tag("db.events", consumer=CONSUMER)
    raw = dict(read.lake.table("db.events").metadata.raw)
    raw |= {"snapshots": raw["snapshots"][2:], "refs": {"main": raw["refs"]["main"]}}
    location = f"{raw['location']}/metadata/99999-expired.metadata.json"
    Path(location.removeprefix("file://")).write_text(json.dumps(raw))
    read.catalog.drop_table("db.events")
    read.catalog.register_table("db.events", location)
    for path in ("/consumers", f"/consumers?name={CONSUMER}", "/tables/db.events"):
        assert "lake.history-expired" in words(page(viewer, path))
    read.catalog.drop_table("db.events")
    for path in ("/consumers", f"/consumers?name={CONSUMER}"):
        assert "lake.table-not-found" in words(page(viewer, path))


def test_a_hostile_name_or_comment_is_only_text(bench: Bench, viewer: httpx.Client) -> None:
    odd = "<script>alert(1)</script> 'x' &"
    schema = Schema(NestedField(1, "<b>id</b>", LongType(), doc=HOSTILE))
    bench.catalog.create_table(("db", odd), schema=schema, properties={"comment": HOSTILE})
    name = f"db.`{odd}`"
    bench.project.client.triggers.set_watermark(name, "2026-03-01")
    assert ESCAPED in page(viewer, "/tables")
    link = re.search(r'href="(/tables/db\.[^"]*)"', page(viewer, "/tables"))
    assert link is not None
    shown = page(viewer, html.unescape(link[1]))
    assert ESCAPED in shown
    assert "&lt;b&gt;id&lt;/b&gt;" in shown
    page(viewer, "/tables", q=HOSTILE)
    page(viewer, "/consumers", q=HOSTILE)
    page(viewer, "/savings", workflow=HOSTILE)
    page(viewer, "/consumers", 404, name=HOSTILE)
    page(viewer, "/lineage", table=name)
    page(viewer, "/tables", namespace="no`where")
    assert ESCAPED in page(viewer, "/tables", namespace="db")


def test_a_namespace_of_the_catalog_is_listed_on_demand(read: Bench, viewer: httpx.Client) -> None:
    read.create("db.unnamed")
    assert "db.unnamed" not in page(viewer, "/tables")
    assert "db.unnamed" in page(viewer, "/tables", namespace="db")
    assert viewer.get("/api/v1/tables", params={"namespace": "db"}).json()["elsewhere"] == ["db.unnamed"]
    assert viewer.get("/api/v1/tables").json()["elsewhere"] == []


def test_a_capture_shows_what_was_found_and_what_it_waits_for(read: Bench, viewer: httpx.Client) -> None:
    (read.project.root / "broken").touch()
    assert read.project.execute("copy").status == "FAILED"
    opened, committed, *_ = read.captures(CONSUMER)
    told = words(page(viewer, f"/captures/{opened.id}"))
    assert "Rows 2" in told
    assert "the next run takes this capture over" in told
    assert f"lake.{opened.sources[0]['change_table']}" in told
    assert "day = 2026-03-01" in told
    done = words(page(viewer, f"/captures/{committed.id}"))
    assert "Waits for" not in done
    assert "committed" in done


def test_lineage_is_drawn_around_a_table_as_far_as_asked(bench: Bench, viewer: httpx.Client) -> None:
    bench.create("db.t0")
    bench.append("db.t0", 1)
    for number in range(4):
        bench.project.push(
            AGGREGATE.format(id=f"flow{number}", goal="1h", source=f"db.t{number}", target=f"db.t{number + 1}")
        )
    near = viewer.get("/api/v1/lineage", params={"table": "db.t0", "depth": 1}).json()
    assert {node["id"] for node in near["nodes"]} == {"table:db.t0", "workflow:flow0", "table:db.t1"}
    far = viewer.get("/api/v1/lineage", params={"table": "db.t2", "depth": 2}).json()
    assert {node["name"] for node in far["nodes"]} == {
        "db.t0", "flow0", "db.t1", "flow1", "db.t2", "flow2", "db.t3", "flow3", "db.t4", "db.countries",
    }  # fmt: skip
    whole = viewer.get("/api/v1/lineage").json()
    assert {"source": "table:db.countries", "target": "workflow:flow3", "by": "definition"} in whole["edges"]
    shown = page(viewer, "/lineage", table="db.t0", depth="1")
    assert "<svg" in shown
    assert "/workflows/flow0" in shown
    assert "more beyond" in words(shown)


def test_what_was_published_in_fact_is_lineage_too(read: Bench, viewer: httpx.Client) -> None:
    with read.project.client.database.write() as connection:
        captures.publish(
            connection,
            capture_id=read.captures(CONSUMER)[0].id,
            step_path="use",
            iteration=None,
            target="db.out",
            snapshot_id=1,
            now=1.0,
        )
    edges = viewer.get("/api/v1/lineage").json()["edges"]
    assert {"source": "table:db.events", "target": "workflow:copy", "by": "definition"} in edges
    assert {"source": "workflow:copy", "target": "table:db.out", "by": "record"} in edges
    assert "/workflows/copy" in page(viewer, "/lineage", table="db.out")


def test_freshness_is_late_first(bench: Bench, viewer: httpx.Client) -> None:
    bench.create("db.t0")
    bench.append("db.t0", 1)
    bench.project.push(AGGREGATE.format(id="slow", goal="30d", source="db.t0", target="db.a"))
    bench.project.push(AGGREGATE.format(id="quick", goal="0.001", source="db.t0", target="db.b"))
    told = viewer.get("/api/v1/freshness").json()["tables"]
    assert [(one["table"], one["state"]) for one in told] == [("db.b", "late"), ("db.a", "unknown")]
    assert "cannot be read" in told[1]["why"]


def test_savings_are_summed_by_day_and_say_what_they_are_compared_with(bench: Bench, viewer: httpx.Client) -> None:
    now = time.time()

    def line(number: int, workflow: str, days: float, read: int, instead: int) -> SavingsRecord:
        return SavingsRecord(
            f"run{number}", "write", "db.agg", workflow, "write", "merge", "a lookback of 3 days", 1, 10, read, 4, 900, instead,
            1, 9, 5, 0, 2.0 if number else None, (HOSTILE,), now - 86_400 * days,
        )  # fmt: skip

    with bench.project.client.database.write() as connection:
        for one in (
            line(0, "a", 0, 10**6, 10**7),
            line(1, "a", 0, 10**6, 10**7),
            line(2, "b", 3, 5 * 10**6, 6 * 10**6),
        ):
            savings.add(connection, one)
    shown = page(viewer, "/savings")
    told = words(shown)
    assert "Not read 19.0 MB" in told
    assert "a lookback of 3 days" in told
    assert ESCAPED in shown
    assert "Was read 2.0 MB" in words(page(viewer, "/savings", workflow="a", days="7"))
    assert "Batches 3" in words(page(viewer, "/savings", days="0"))


# -- moving a consumer -------------------------------------------------------------------------------------------------------


def test_a_rewind_is_shown_then_done_as_shown_and_is_on_record_by_name(read: Bench, browser: Browser) -> None:
    operator = browser(Role.operator)
    first, second, _ = (one.snapshot_id for one in read.catalog.load_table("db.events").history())
    form = preview(operator, verb="rewind", name=CONSUMER, to=str(first))
    shown = words(page(operator, "/consumers/preview", verb="rewind", name=CONSUMER, to=str(first)))
    assert f"db.events {second} {first} 1 1" in shown
    assert read.version(CONSUMER) == 2
    done = operator.post("/consumers/confirm", data={**form, "why": "Monday was wrong"})
    assert done.status_code == 303
    told = words(page(operator, done.headers["location"]))
    assert "Done: rewind" in told
    assert "the operator rewind Monday was wrong" in told
    checkpoint = read.checkpoint(CONSUMER)
    assert checkpoint is not None
    assert (checkpoint.snapshot_id, read.version(CONSUMER)) == (first, 3)


@pytest.mark.parametrize(
    "query",
    [{"verb": "rewind", "to": "earliest"}, {"verb": "fast-forward", "to": "latest"}, {"verb": "remove"},
     {"verb": "rename", "new": "another"}],
    ids=lambda query: query["verb"],
)  # fmt: skip
def test_a_confirmation_is_refused_when_a_run_has_moved_the_consumer_since(
    read: Bench, browser: Browser, query: dict[str, str]
) -> None:
    operator = browser(Role.operator)
    form = preview(operator, name=CONSUMER, **query)
    read.project.execute("copy")
    moved = read.checkpoint(CONSUMER)
    answer = operator.post("/consumers/confirm", data={**form, "why": "too late"})
    assert answer.status_code == 409, words(answer.text)
    assert "Somebody was faster" in answer.text
    assert read.checkpoint(CONSUMER) == moved


def test_of_two_who_rewind_at_once_the_second_is_told_who_was_first(read: Bench, browser: Browser) -> None:
    first, second = browser(Role.operator), browser(Role.admin)
    forms = [preview(one, verb="rewind", name=CONSUMER, to="earliest") for one in (first, second)]
    assert first.post("/consumers/confirm", data={**forms[0], "why": "one"}).status_code == 303
    late = second.post("/consumers/confirm", data={**forms[1], "why": "two"})
    assert late.status_code == 409
    assert read.version(CONSUMER) == 3
    assert len(read.project.client.consumers.audit(CONSUMER)) == 1


def test_latest_means_what_it_meant_when_it_was_shown(read: Bench, browser: Browser) -> None:
    operator = browser(Role.operator)
    third = read.catalog.load_table("db.events").current_snapshot().snapshot_id
    form = preview(operator, verb="fast-forward", name=CONSUMER, to="latest")
    read.append("db.events", 6)
    assert operator.post("/consumers/confirm", data={**form, "why": "skip it"}).status_code == 303
    checkpoint = read.checkpoint(CONSUMER)
    assert checkpoint is not None
    assert checkpoint.snapshot_id == third


def test_an_open_capture_is_abandoned_once(read: Bench, browser: Browser) -> None:
    (read.project.root / "broken").touch()
    read.project.execute("copy")
    held = read.captures(CONSUMER)[0]
    operator = browser(Role.operator)
    forms = [preview(operator, verb="abandon", capture=held.id, name=CONSUMER) for _ in range(2)]
    done = operator.post("/consumers/confirm", data={**forms[0], "why": "broken"})
    assert done.status_code == 303
    assert "abandoned" in words(page(operator, done.headers["location"]))
    assert read.captures(CONSUMER)[0].state == "abandoned"
    assert operator.post("/consumers/confirm", data={**forms[1], "why": "again"}).status_code == 409


def test_a_renamed_consumer_goes_on_and_a_removed_one_begins_anew(read: Bench, browser: Browser) -> None:
    operator = browser(Role.operator)
    form = preview(operator, verb="rename", name=CONSUMER, new="other/name")
    done = operator.post("/consumers/confirm", data={**form, "why": "a better name"})
    assert "other/name" in words(page(operator, done.headers["location"]))
    form = preview(operator, verb="remove", name="other/name")
    assert operator.post("/consumers/confirm", data={**form, "why": "not needed"}).status_code == 303
    assert read.checkpoint("other/name") is None


def test_a_viewer_may_look_at_a_preview_and_may_not_do_it(read: Bench, browser: Browser, viewer: httpx.Client) -> None:
    form = preview(browser(Role.operator), verb="rewind", name=CONSUMER, to="earliest")
    shown = page(viewer, "/consumers/preview", verb="rewind", name=CONSUMER, to="earliest")
    assert "To do it takes an operator" in shown
    assert "/consumers/confirm" not in shown
    token = re.search(r'name="csrf" value="([^"]*)"', shown)
    assert token is not None
    answer = viewer.post("/consumers/confirm", data={**form, "csrf": token[1], "why": "I want it"})
    assert answer.status_code == 403
    assert read.version(CONSUMER) == 2


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"why": "  "}, 400),
        ({"agreed": "nonsense"}, 409),
        ({"agreed": ""}, 400),
        ({"csrf": "wrong"}, 403),
        ({"verb": "explode"}, 400),
    ],
)
def test_a_form_that_was_tampered_with_does_nothing(
    read: Bench, browser: Browser, change: dict[str, Any], status: int
) -> None:
    operator = browser(Role.operator)
    form = preview(operator, verb="rewind", name=CONSUMER, to="earliest")
    answer = operator.post("/consumers/confirm", data={**form, "why": "so", **change})
    assert answer.status_code == status, words(answer.text)
    assert read.version(CONSUMER) == 2
