"""The pages of workflows and the home page over a real listener, on both databases, without a script."""

from __future__ import annotations

import re
import time

import pytest

from icefloe.service.access import Role
from icefloe.store import runs as stored_runs
from icefloe.store.tables import incidents, schedulers
from tests.contract.server.browsing import Browser, Site, forms, site, words  # noqa: F401 - a fixture
from tests.projects import wait_until

NIGHTLY = """
Trigger: {cron: "0 3 * * *"}
Workflow:
  id: nightly
  owner: ana
  description: Builds the nightly report
  tags: [sales]
  DAY: 20260101
  region: eu
  'share<double>': 0.5
  'dry<boolean>': false
  since: '2026-01-31'
  parts: [a, b]
  '!computed<long>': "1 + 2"
  'kept(constant)': never
  'needed<long>(provided)':
  jobs:
    - job: {id: extract, type: NoOp}
    - job: {id: load, type: NoOp}
  dag: sequential
"""
PLAIN = "Workflow: {id: %s, owner: %s, jobs: [{job: {id: one, type: NoOp}}]}"
FAILING = "Workflow: {id: broken, jobs: [{job: {id: one, type: Shell, retry: {error: 0}, shell: {script: 'exit 4'}}}]}"
STRICT = """
Workflow:
  id: strict
  run_strategy: {rule: STRICT_SEQUENTIAL}
  jobs: [{job: {id: one, type: Shell, retry: {error: 0}, shell: {script: 'test -f mended'}}}]
"""
FOLLOWER = """
Trigger: {signal: {name: upstream_done, match_params: {region: eu}}}
Workflow: {id: follower, jobs: [{job: {id: one, type: NoOp}}]}
"""


def actions(browser: Browser, path: str) -> set[str]:
    return {form.action.rpartition("/")[2] for form in forms(browser.get(path)) if form.method == "post"}


def test_without_a_workflow_the_pages_say_how_to_push_one(site: Site) -> None:  # noqa: F811
    browser = site.browser()
    assert "No workflow has been pushed yet. Push one: icefloe push FILE" in browser.read("/workflows")
    home = browser.read("/")
    assert "No workflow has been pushed yet." in home and "No run is under way." in home
    assert "there is no workflow 'nothing'" in browser.read("/workflows/nothing", 404)
    for page in ("why", "run", "definition", "explain"):
        browser.get(f"/workflows/nothing/{page}", 404)
    for verb in ("pause", "run", "signal", "watermark"):
        answer = browser.http.post(f"/workflows/nothing/{verb}", data={"csrf": browser.csrf})
        assert answer.status_code == 404, verb


def test_workflows_are_shown_with_outcomes_and_next_start_and_found_by_filters(site: Site) -> None:  # noqa: F811
    site.project.push(NIGHTLY)
    site.project.push(PLAIN % ("calm", "bo"))
    site.project.push(FAILING)
    for _ in range(2):
        site.project.execute("calm")
    site.project.execute("broken")
    browser = site.browser()

    def listed(query: str) -> list[str]:
        page = browser.get(f"/workflows{query}")
        return re.findall(r'<td><a href="/workflows/([^"]+)" class="id">', page)

    assert listed("") == ["broken", "calm", "nightly"]
    page = browser.get("/workflows")
    assert page.count("<svg") == 2 and "Last 2 runs of calm, oldest first" in page
    assert "no run yet" in page
    assert re.search(r"in \d+ (h|min)", words(page)), "the next start by cron"
    assert listed("?owner=ana") == ["nightly"]
    assert listed("?state=failed") == ["broken"]
    assert listed("?text=NIGHTLY+sales") == ["nightly"]
    assert listed("?text=nothing+like+it") == []
    assert listed("?state=invented") == []


def test_the_statements_of_a_listing_do_not_grow_with_its_workflows(site: Site) -> None:  # noqa: F811
    import sqlalchemy as sa

    client = site.project.client
    counted: list[str] = []

    def count(_: object, __: object, statement: str, *___: object) -> None:
        counted.append(statement)

    def statements() -> int:
        counted.clear()
        client.overviews.all()
        return len(counted)

    for number in range(3):
        site.project.push(PLAIN % (f"few{number}", "bo"))
    sa.event.listen(client.database._engine, "before_cursor_execute", count)
    statements()
    few = statements()
    for number in range(30):
        site.project.push(PLAIN % (f"many{number}", "bo"))
    statements()
    assert statements() == few


def test_a_workflow_shows_strip_grid_durations_graph_and_what_starts_it(site: Site) -> None:  # noqa: F811
    site.project.push(NIGHTLY)
    runs = [site.project.execute("nightly", needed=number).run_id for number in range(3)]
    page = site.browser().get("/workflows/nightly")
    told = words(page)
    assert all(f"/runs/{run}" in page for run in runs)
    grid = page[page.index('id="workflow-grid"') : page.index('id="workflow-times"')]
    assert grid.count('scope="row"') == 2 and grid.count("✓") >= 6
    assert "How long the last 3 runs took: as a table" in told
    assert "Graph of version 1" in told and page.count("arrow-head") >= 2
    assert "by cron" in told and "owner ana" in told


def test_a_grid_of_many_steps_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr("icefloe.service.run_history.MOST_STEPS", 5)
    jobs = "\n".join(f"    - job: {{id: step{number}, type: NoOp}}" for number in range(12))
    site.project.push(f"Workflow:\n  id: wide\n  jobs:\n{jobs}\n")
    site.project.execute("wide")
    page = site.browser().get("/workflows/wide")
    grid = page[page.index('id="workflow-grid"') : page.index('id="workflow-times"')]
    assert grid.count('scope="row"') == 5 and "7 steps are not shown" in words(grid)


def test_triggers_are_paused_and_resumed_and_workflows_switched_off_and_on(site: Site) -> None:  # noqa: F811
    site.project.push(NIGHTLY)
    browser = site.browser("bo")
    path = "/workflows/nightly"
    assert "Its triggers start no more runs." in browser.press(path, "/pause")
    assert site.project.client.workflows.show("nightly").paused
    assert "resume" in actions(browser, path) and "pause" not in actions(browser, path)
    assert "Paused: its triggers start no runs" in browser.read("/")
    browser.press(path, "/resume")
    assert not site.project.client.workflows.show("nightly").paused
    browser.press(path, "/deactivate")
    assert not site.project.client.workflows.show("nightly").active
    assert "Deactivated: nothing starts it" in browser.read("/")
    browser.press("/", "/activate")
    assert site.project.client.workflows.show("nightly").active
    assert site.audits("nightly") == [("bo", verb) for verb in ("pause", "resume", "deactivate", "activate")]


def test_the_second_who_pauses_is_told_who_did_before(site: Site) -> None:  # noqa: F811
    site.project.push(NIGHTLY)
    ana, bo = site.browser("ana"), site.browser("bo")
    first, second = ana.form("/workflows/nightly", "/pause"), bo.form("/workflows/nightly", "/pause")
    assert ana.send(first).status_code == 200
    late = bo.send(second)
    assert late.status_code == 409 and "ana: pause" in words(late.text)
    assert site.audits("nightly") == [("ana", "pause")]


def test_a_strict_workflow_is_unblocked(site: Site) -> None:  # noqa: F811
    site.project.push(STRICT)
    site.project.execute("strict")
    waiting = site.project.start("strict")
    assert site.project.show(waiting).status == "CREATED"
    browser = site.browser("bo")
    assert "runs strictly in sequence" in browser.read("/workflows/strict")
    assert "unblock" in actions(browser, "/workflows/strict/why") and "unblock" in actions(browser, "/")
    browser.press("/workflows/strict", "/unblock")
    assert site.project.show(waiting).status == "IN_PROGRESS"
    assert ("bo", "unblock") in site.audits("strict")
    assert "unblock" not in actions(browser, "/workflows/strict")


@pytest.mark.parametrize("verb", ["pause", "resume", "activate", "deactivate", "unblock", "run", "signal", "watermark"])
def test_a_viewer_and_a_forged_form_change_nothing(site: Site, verb: str) -> None:  # noqa: F811
    site.project.push(NIGHTLY)
    viewer, operator = site.browser("eva", Role.viewer), site.browser("ana")
    fields = {"name": "x", "table": "db.t", "valid_through": "2026-01-01", "p.needed": "1"}
    for path in ("/workflows/nightly", "/workflows/nightly/why", "/"):
        assert actions(viewer, path) == {"logout"}, path
    answer = viewer.http.post(f"/workflows/nightly/{verb}", data={**fields, "csrf": viewer.csrf})
    assert answer.status_code == 403
    assert operator.http.post(f"/workflows/nightly/{verb}", data=fields).status_code == 403
    shown = site.project.client.workflows.show("nightly")
    assert (shown.paused, shown.active, shown.last_run) == (False, True, None)
    assert site.project.client.triggers.signals() == []
    assert site.audits("nightly") == []


def test_a_form_of_the_parameters_types_starts_a_run_once(site: Site) -> None:  # noqa: F811
    site.project.push(NIGHTLY)
    browser = site.browser("bo")
    page = browser.get("/workflows/nightly/run")
    for name, kind in (("DAY", "number"), ("region", "text"), ("share", "number"), ("since", "date")):
        assert re.search(rf'name="p\.{name}" type="{kind}"', page), name
    assert "<select" in page and "computed by" in page and "Fixed by the definition" in page
    form = browser.form("/workflows/nightly/run", "/run")
    assert (form.fields["p.DAY"], form.fields["p.parts"], form.fields["p.region"]) == ("20260101", "a\nb", "eu")
    assert "p.kept" not in form.fields

    refused = browser.send(form, **{"p.needed": "many", "p.region": "us"})
    assert refused.status_code == 400
    assert "'many' is not a whole number" in words(refused.text)
    assert 'value="us"' in refused.text, "what was typed is still there"
    missing = browser.send(form)
    assert missing.status_code == 400 and "needed: no value" in words(missing.text)

    typed = {"p.needed": "7", "p.dry": "true", "p.parts": "x, y\nz", "p.share": "0.25"}
    assert browser.send(form, **typed).status_code == 200
    assert "has started this run before" in words(browser.send(form, **typed).text)
    (made,) = site.project.client.runs.listing("nightly")
    assert made.initiator["by"] == "bo"
    assert made.initiator["given"] == {"needed": 7, "dry": True, "parts": ["x, y", "z"], "share": 0.25}
    assert (made.params["region"], made.params["computed"]) == ("eu", 3)
    assert ("bo", "run") in site.audits(made.run_id)


def test_an_older_version_is_run_and_a_deactivated_workflow_is_not(site: Site) -> None:  # noqa: F811
    site.project.push(PLAIN % ("two", "ana"))
    site.project.push(PLAIN % ("two", "bo"))
    browser = site.browser()
    browser.press("/workflows/two/run", "/run", version="1")
    assert site.project.client.runs.listing("two")[0].version == 1
    form = browser.form("/workflows/two/run", "/run")
    for version in ("9", "x"):
        assert browser.send(form, version=version).status_code == 400
    site.project.client.workflows.set_active("two", False)
    refused = browser.send(browser.form("/workflows/two/run", "/run"))
    assert refused.status_code == 400 and "is deactivated" in words(refused.text)
    assert len(site.project.client.runs.listing("two")) == 1


def test_every_version_is_shown_and_what_differs_between_two(site: Site) -> None:  # noqa: F811
    site.project.push(NIGHTLY)
    site.project.push(NIGHTLY.replace("region: eu", "region: us").replace("nightly report", "<b>report</b>"))
    browser = site.browser()
    latest = browser.get("/workflows/nightly/definition")
    assert "version 2" in words(latest) and "region: us" in latest and "&lt;b&gt;report" in latest
    assert "region: eu" in browser.get("/workflows/nightly/definition?version=1")
    compared = browser.get("/workflows/nightly/definition?version=2&against=1")
    changed = words(compared)
    assert "From version 1 to 2" in changed and "params.region" in changed
    assert re.search(r'<span class="added">\+.*us', compared) and re.search(r'<span class="removed">-.*eu', compared)
    assert "They say the same." in browser.read("/workflows/nightly/definition?version=2&against=2")
    browser.get("/workflows/nightly/definition?version=9", 404)
    browser.get("/workflows/nightly/definition?version=2&against=9", 404)
    browser.get("/workflows/nightly/definition?against=x", 400)


def test_why_says_what_each_trigger_waits_for_and_publishes_its_signal(site: Site) -> None:  # noqa: F811
    site.project.push(FOLLOWER)
    browser = site.browser("bo")
    told = browser.read("/workflows/follower/why")
    assert "signal upstream_done" in told and "no scheduler is running" in told
    form = browser.form("/workflows/follower/why", "/signal")
    assert form.fields["params"] == '{"region": "eu"}'
    assert "Signal upstream_done was published." in words(browser.send(form).text)
    (signal,) = site.project.client.triggers.signals()
    assert (signal.name, signal.params, signal.publisher) == ("upstream_done", {"region": "eu"}, "bo")
    for params in ("{", "[1]", "[" * 20_000):
        assert browser.send(form, params=params).status_code == 400
    site.project.client.workflows.set_paused("follower", True)
    assert "resume" in actions(browser, "/workflows/follower/why")
    site.project.push(PLAIN % ("byhand", "ana"))
    assert "it has no triggers" in browser.read("/workflows/byhand/why")


def test_why_sets_the_watermark_that_a_trigger_waits_for(site: Site) -> None:  # noqa: F811
    site.project.push(
        "Trigger: {watermark: {table: db.events}}\nWorkflow: {id: daily, jobs: [{job: {id: one, type: NoOp}}]}"
    )
    browser = site.browser("bo")
    form = browser.form("/workflows/daily/why", "/watermark")
    assert browser.send(form, valid_through="soon").status_code == 400
    assert "complete up to there now" in words(browser.send(form, valid_through="2026-03-01").text)
    (held,) = site.project.client.triggers.watermarks()
    assert (held.source, held.publisher) == ("db.events", "bo")


def test_explain_of_a_workflow_that_writes_nothing_says_so(site: Site) -> None:  # noqa: F811
    site.project.push(PLAIN % ("calm", "ana"))
    assert "no step of 'calm' has write:" in site.browser().read("/workflows/calm/explain")


def test_home_shows_what_needs_somebody_worst_first_with_the_button_that_helps(site: Site) -> None:  # noqa: F811
    client = site.project.client
    site.project.push(FAILING)
    run_id = site.project.execute("broken").run_id
    site.project.push(NIGHTLY)
    client.workflows.set_paused("nightly", True)
    with client.database.write() as connection:
        values = {"kind": "late", "subject": "", "told": "over", "claim": "", "closed_at": None}
        late = {
            **values,
            "workflow_id": "nightly",
            "message": "its last good run is <2 h> old",
            "opened_at": time.time(),
        }
        connection.execute(incidents.insert(), late)
    browser = site.browser("bo")
    page = browser.get("/")
    told = words(page[page.index('id="attention"') : page.index('id="running"')])
    assert told.index("broken The last run failed") < told.index("its last good run is <2 h> old")
    assert told.index("its last good run") < told.index("Paused: its triggers")
    assert "No worker is alive" in told and "No scheduler is running" in told
    with client.database.write() as connection:
        now = time.time()
        alive = {"id": "s", "host": "h", "pid": 1, "started_at": now, "seen_at": now, "trouble": "the lake is away"}
        connection.execute(schedulers.insert(), alive)
    again = browser.read("/")
    assert "No scheduler is running" not in again and "The scheduler has trouble: the lake is away" in again
    assert "It was restarted." in browser.press("/", "/restart")
    assert site.audits(run_id)[-1] == ("bo", "restart")
    assert "broken-1" in words(browser.get("/"))


def test_home_with_all_well_says_so_and_shows_what_runs(site: Site) -> None:  # noqa: F811
    site.project.push(PLAIN % ("calm", "ana"))
    site.project.push(FOLLOWER.replace("Trigger: {signal: {name: upstream_done, match_params: {region: eu}}}", ""))
    with site.project.worker():
        site.project.execute("calm")
        browser = site.browser()
        wait_until(lambda: "Nothing is broken, late or waits for you in 2 workflows." in browser.read("/"))
        assert "No run is under way." in browser.read("/")


def test_a_hundred_thousand_iterations_do_not_push_a_run_out_of_sight(site: Site) -> None:  # noqa: F811
    """Listings leave iterations out by an index, not by reading over them."""
    site.project.push(PLAIN % ("calm", "ana"))
    run_id = site.project.start("calm")
    client = site.project.client
    with client.database.write() as connection:
        record = stored_runs.load(connection, run_id)
        assert record is not None
        values = {
            "workflow_id": "calm", "version": 1, "root_id": run_id, "parent_id": run_id, "parent_step": "one",
            "path": "one", "status": "SUCCEEDED", "params": "{}", "initiator": "{}", "restarts": 0, "revision": 0,
            "created_at": record.created_at,
        }  # fmt: skip
        from icefloe.store.tables import runs

        connection.execute(
            runs.insert(), [{**values, "id": f"{run_id}:one:{number}", "iteration": number} for number in range(3000)]
        )
    assert [run.id for run in client.history.listing().runs] == [run_id]
    assert [run.id for run in client.overviews.all()[0].outcomes] == [run_id]
    with client.database.read() as connection:
        if connection.dialect.name == "sqlite":
            plan = connection.exec_driver_sql(
                "EXPLAIN QUERY PLAN SELECT id FROM runs WHERE iteration IS NULL AND workflow_id = 'calm' ORDER BY seq DESC"
            ).all()
            assert "runs_listed_by_workflow" in str(plan)
