"""The pages of runs over a real listener, on both databases, without a script."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest

from icefloe.service.access import Role
from icefloe.store import logs
from icefloe.store.logs import LogKey
from tests.contract.server.browsing import Site, forms, site, words  # noqa: F401 - a fixture
from tests.projects import wait_until

FAILING = r"""
Workflow:
  id: report
  DAY: 20260101
  'limit<long>': 10
  jobs:
    - job: {id: extract, type: Shell, shell: {script: "echo read"}}
    - job:
        id: load
        type: Shell
        retry: {error: 0}
        shell:
          script: |
            printf '\033[31mred\033[0m\n'
            test -f mended || { echo 'ValueError: no such partition'; exit 3; }
    - job: {id: mail, type: NoOp}
  dag: sequential
"""
WAITING = """
Workflow:
  id: patient
  jobs:
    - job: {id: wait, type: NoOp, signal_dependencies: [{name: never}]}
    - job: {id: after, type: NoOp}
  dag: sequential
"""
HOSTILE = "<script>alert(1)</script>\u202egnp.exe\"'><img src=x onerror=alert(2)>"


def _begin(site: Site, text: str) -> str:  # noqa: F811
    """A run that has begun and goes no further by itself."""
    run_id = site.project.start(site.project.push(text))
    assert site.project.show(run_id).status == "IN_PROGRESS"
    return run_id


def test_without_a_run_the_pages_say_how_to_get_one(site: Site) -> None:  # noqa: F811
    browser = site.browser()
    assert "No run yet. Start one: icefloe run WORKFLOW" in browser.read("/runs")
    assert "No run is like that." in browser.read("/runs?status=FAILED")


def test_a_failed_run_shows_step_error_line_and_what_to_do_and_restarts_from_there(site: Site) -> None:  # noqa: F811
    run_id = site.project.execute(site.project.push(FAILING)).run_id
    browser = site.browser("ana")
    page = browser.get(f"/runs/{run_id}")
    failure = words(page[page.index('id="run-failure"') : page.index('id="run-graph"')])
    assert "Step load user failed" in failure and "exit code 3" in failure
    assert "ValueError: no such partition" in failure, "the log's own error line"
    assert "Read its log Restart from this step Skip this step" in failure
    (site.project.root / "mended").write_text("")
    told = browser.press(f"/runs/{run_id}", "/restart")
    assert "It was restarted." in told
    assert site.project.client.work(run_id).status == "SUCCEEDED"
    assert [step.attempts for step in site.project.show(run_id).steps] == [1, 2, 1]
    assert site.audits(run_id)[-1] == ("ana", "restart")
    after = browser.read(f"/runs/{run_id}")
    assert "ana restart" in after and "Restart what is incomplete" not in after


def test_a_restart_takes_a_step_other_parameters_and_the_newest_version(site: Site) -> None:  # noqa: F811
    (site.project.root / "mended").write_text("")
    run_id = site.project.execute(site.project.push(FAILING)).run_id
    site.project.push(FAILING.replace("echo read", "echo read more"))
    browser = site.browser()
    form = next(
        form
        for form in forms(browser.get(f"/runs/{run_id}"))
        if form.action.endswith("/restart") and "version" in form.fields
    )
    assert form.fields["start"] == "beginning", "what has succeeded can only be done again from the beginning or a step"
    changes = {"start": "step", "step": "load", "version": "latest", "p.limit": "25", "p.DAY": ""}
    assert browser.send(form, **changes).status_code == 200
    view = site.project.client.work(run_id)
    assert (view.status, view.version, view.params["limit"], view.params["DAY"]) == ("SUCCEEDED", 2, 25, 20260101)
    assert [step.attempts for step in view.steps] == [1, 2, 2]
    again = browser.send(browser.form(f"/runs/{run_id}", "/restart"), **{"start": "beginning", "p.limit": "many"})
    assert again.status_code == 400
    assert "limit" in words(again.text)


@pytest.mark.parametrize(
    ("verb", "status"), [("pause", "PAUSED"), ("stop", "STOPPED"), ("kill", "FAILED"), ("skip", "IN_PROGRESS")]
)
def test_each_button_does_what_it_says(site: Site, verb: str, status: str) -> None:  # noqa: F811
    run_id = _begin(site, WAITING)
    told = site.browser("bo").press(f"/runs/{run_id}", f"/{verb}")
    assert run_id in told
    assert site.project.show(run_id).status == status
    assert site.audits(run_id)[-1] == ("bo", verb)
    if verb == "skip":
        assert site.project.statuses(run_id)["wait"] == "SKIPPED"


def test_a_paused_run_offers_to_resume_and_only_then(site: Site) -> None:  # noqa: F811
    run_id = _begin(site, WAITING)
    browser = site.browser()
    actions = {form.action.rpartition("/")[2] for form in forms(browser.get(f"/runs/{run_id}"))}
    assert {"pause", "stop", "kill", "skip"} <= actions and not actions & {"resume", "restart"}
    browser.press(f"/runs/{run_id}", "/pause")
    actions = {form.action.rpartition("/")[2] for form in forms(browser.get(f"/runs/{run_id}"))}
    assert "resume" in actions and "pause" not in actions
    browser.press(f"/runs/{run_id}", "/resume")
    assert site.project.show(run_id).status == "IN_PROGRESS"


@pytest.mark.parametrize("verb", ["pause", "stop", "kill", "skip", "restart", "resume"])
def test_a_viewer_sees_no_buttons_and_is_refused(site: Site, verb: str) -> None:  # noqa: F811
    run_id = _begin(site, WAITING)
    viewer = site.browser("eva", Role.viewer)
    posts = [form.action for form in forms(viewer.get(f"/runs/{run_id}")) if form.method == "post"]
    assert posts == ["/logout"]
    answer = viewer.http.post(f"/runs/{run_id}/{verb}", data={"csrf": viewer.csrf, "step": "wait"})
    assert answer.status_code == 403
    assert "eva is a viewer" in words(answer.text)
    assert site.project.show(run_id).status == "IN_PROGRESS"


@pytest.mark.parametrize("token", [{}, {"csrf": ""}, {"csrf": "0" * 64}])
def test_a_form_without_the_sessions_token_changes_nothing(site: Site, token: dict[str, str]) -> None:  # noqa: F811
    run_id = _begin(site, WAITING)
    browser = site.browser()
    assert browser.http.post(f"/runs/{run_id}/kill", data=token).status_code == 403
    assert site.project.show(run_id).status == "IN_PROGRESS"


def test_the_second_of_two_people_is_told_what_the_first_did(site: Site) -> None:  # noqa: F811
    run_id = site.project.execute(site.project.push(FAILING)).run_id
    ana, bo = site.browser("ana"), site.browser("bo")
    first, second = ana.form(f"/runs/{run_id}", "/restart"), bo.form(f"/runs/{run_id}", "/restart")
    assert ana.send(first).status_code == 200
    late = bo.send(second)
    assert late.status_code == 409
    assert "Somebody was faster" in words(late.text) and "ana: restart" in words(late.text)
    assert site.project.show(run_id).restarts == 1
    # Once it has failed again the old form still does not count.
    assert site.project.client.work(run_id).status == "FAILED"
    assert bo.send(second).status_code == 409
    assert site.project.show(run_id).restarts == 1


def test_what_is_not_there_is_a_page_that_says_so(site: Site) -> None:  # noqa: F811
    run_id = site.project.start(site.project.push(WAITING))
    browser = site.browser()
    assert "there is no run 'nothing'" in browser.read("/runs/nothing", 404)
    assert "has no step" in browser.read(f"/runs/{run_id}/log?step=nothing", 404)
    answer = browser.http.post(f"/runs/{run_id}/explode", data={"csrf": browser.csrf})
    assert answer.status_code == 404 and "stop, kill, pause, resume" in words(answer.text)
    assert browser.http.post("/runs/nothing/stop", data={"csrf": browser.csrf}).status_code == 404
    step = browser.http.post(f"/runs/{run_id}/skip", data={"csrf": browser.csrf, "step": "nothing"})
    assert step.status_code == 409
    # A step that is not there shows the run, with the step that matters.
    assert "Step wait" in browser.read(f"/runs/{run_id}?step=nothing")


def test_hostile_texts_are_only_texts(site: Site) -> None:  # noqa: F811
    text = """
    Workflow:
      id: odd
      WORDS: plain
      jobs:
        - job: {id: say, type: Shell, retry: {error: 0}, shell: {script: "cat words; exit 1"}}
      dag: sequential
    """
    (site.project.root / "words").write_text(f"\x1b[31mError: {HOSTILE}\x1b]0;title\x07\n", encoding="utf-8")
    run_id = site.project.execute(site.project.push(text), WORDS=HOSTILE + "x" * 5000).run_id
    browser = site.browser(HOSTILE[:25] + "…")
    for path in (f"/runs/{run_id}", "/runs", "/", "/workflows/odd", "/workflows", f"/runs?workflow={HOSTILE}"):
        page = browser.get(path)
        assert "<script>alert" not in page and "<img src=x" not in page, path
        assert "\x1b" not in page, path
    page = browser.get(f"/runs/{run_id}")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    log = page[page.index('role="log"') :]
    assert "\u202e" not in log[: log.index("</pre>")], "a log cannot turn the direction of reading"
    plain = browser.http.get(f"/runs/{run_id}/log", params={"step": "say"})
    assert (
        plain.headers["content-type"].startswith("text/plain") and plain.headers["x-content-type-options"] == "nosniff"
    )
    assert plain.text.startswith("Error: <script>alert(1)</script>gnp.exe")


def test_runs_are_listed_by_pages_without_a_gap_and_by_filters(site: Site) -> None:  # noqa: F811
    first, second = site.project.push(WAITING), site.project.push(WAITING.replace("patient", "other"))
    made = [site.project.start(first if number % 3 else second) for number in range(120)]
    site.project.client.runs.kill(made[5])
    browser = site.browser()

    def listed(page: str) -> list[str]:
        return re.findall(r'<td><a href="/runs/([^"?]+)" class="id">', page[page.index('id="listing"') :])

    seen: list[str] = []
    path = "/runs"
    for _ in range(3):
        page = browser.get(path)
        seen += listed(page)
        older = re.search(r'href="([^"]+)" rel="next"', page)
        path = older[1].replace("&amp;", "&") if older else ""
    assert seen == made[::-1] and not path
    back = re.search(r'href="([^"]+)" rel="prev"', page)
    assert back is not None and listed(browser.get(back[1].replace("&amp;", "&"))) == made[::-1][50:100]
    assert listed(browser.get("/runs?status=FAILED")) == [made[5]]
    assert set(listed(browser.get("/runs?workflow=other"))) == set(made[0::3])
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert listed(browser.get(f"/runs?since=2020-01-01&until={today}")) == []
    assert listed(browser.get("/runs?since=2020-01-01&workflow=patient&status=FAILED")) == [made[5]]
    assert "is not a status" in browser.read("/runs?status=GOOD", 400)
    assert "is not a moment" in browser.read("/runs?since=soon", 400)
    assert browser.http.get("/runs?before=x").status_code == 400
    assert "No run is like that." in browser.read("/runs?workflow=nothing")


def test_a_log_is_followed_in_pieces_and_a_long_one_is_cut_on_the_page(site: Site) -> None:  # noqa: F811
    run_id = site.project.start(
        site.project.push(
            """
            Workflow:
              id: talker
              jobs: [{job: {id: talk, type: Shell, shell: {script: "echo one; until test -f go; do sleep 0.05; done; printf 'tw'; echo o"}}}]
            """
        )
    )
    browser = site.browser()
    path = f"/runs/{run_id}/log?step=talk&attempt=1"
    with site.project.worker():
        wait_until(lambda: site.project.log(run_id, "talk") == "one\n")
        page = browser.get(f"/runs/{run_id}")
        place = re.search(r'data-place="([\d:]+)"', page)
        assert place is not None and 'data-log="/runs/talker-1/log?' in page
        piece = browser.http.get(f"{path}&begin={place[1]}")
        assert (piece.text, piece.headers["x-ended"]) == ("", "0")
        (site.project.root / "go").write_text("")
        wait_until(lambda: site.project.show(run_id).ended)
    piece = browser.http.get(f"{path}&begin={place[1]}")
    assert (piece.text, piece.headers["x-ended"]) == ("two\n", "1")
    assert browser.http.get(f"{path}&begin=garbage").text == "one\ntwo\n"

    line = "a line of a long log, one of many ....................\n"
    chunks = {number: (line * 1200).encode() for number in range(32)}
    with site.project.client.database.write() as connection:
        logs.write(connection, LogKey(run_id, "talk", 1), chunks)
    page = browser.get(f"/runs/{run_id}?step=talk")
    assert len(page) < 150_000 and "characters before this are left out here" in page
    assert len(browser.http.get(path).text) == len(line) * 1200 * 32


def test_attempts_iterations_and_subworkflows_are_linked(site: Site) -> None:  # noqa: F811
    site.project.push("Workflow: {id: child, jobs: [{job: {id: only, type: NoOp}}]}")
    workflow = site.project.push(
        """
        Workflow:
          id: parent
          jobs:
            - subworkflow: {id: sub, workflow_id: child}
            - foreach:
                id: each
                params: {n: [1, 2, 3]}
                jobs: [{job: {id: inner, type: Shell, retry: {error: 0}, shell: {script: "echo ${n}; test ${n} -ne 2"}}}]
          dag: sequential
        """
    )
    run_id = site.project.execute(workflow).run_id
    browser = site.browser()
    page = browser.get(f"/runs/{run_id}?step=each")
    assert "3 iterations" in words(page)
    assert f'href="/runs/{run_id}%3Asub"' in page
    assert page.index("each%3A1") < page.index("each%3A0"), "the failed one first"
    inner = browser.get(f"/runs/{run_id}%3Aeach%3A1")
    assert f'href="/runs/{run_id}"' in inner and "iteration 1" in words(inner)
    assert "restart that" in words(inner), "the run it belongs to"
    assert not [form for form in forms(inner) if form.action.endswith("/restart")]


def test_the_address_that_a_start_prints_opens_the_run_and_is_gone_with_the_server(site: Site) -> None:  # noqa: F811
    client = site.project.client
    started = client.runs.start(site.project.push(WAITING))
    browser = site.browser()
    assert started.url is not None
    answer = browser.http.get(started.url)
    assert answer.status_code == 200 and started.run_id in words(answer.text)
    file = client.config.address_file
    left = json.loads(file.read_text())
    file.write_text(json.dumps({**left, "pid": _gone()}))
    assert client.config.server_url is None, "a server that was killed has left its file behind"
    for broken in ("", "[]", "{}", '{"address": 1, "pid": "x", "host": null}'):
        file.write_text(broken)
        assert client.config.server_url in (None, "1")
    file.write_text(json.dumps({**left, "host": "elsewhere", "pid": _gone()}))
    assert client.config.server_url == left["address"], "of another machine nobody knows its processes here"
    file.write_text(json.dumps(left))
    site.close()
    assert client.config.server_url is None


def _gone() -> int:
    """The id of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_a_part_that_changes_is_asked_for_again_and_is_the_same_part(site: Site) -> None:  # noqa: F811
    """The script asks with the parts' names, and morphs what comes: each has to be there with its id."""
    run_id = _begin(site, WAITING)
    browser = site.browser()
    page = browser.get(f"/runs/{run_id}")
    parts = re.findall(r'id="([\w-]+)"[^>]* data-live="run:', page)
    assert len(parts) >= 6
    again = browser.http.get(f"/runs/{run_id}", headers={"X-Live": ",".join(parts)}).text
    assert all(f'id="{part}"' in again for part in parts)
