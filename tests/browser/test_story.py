"""What somebody does on the pages on a day when a run fails: a real ``icefloe serve``, a writer that is not Icefloe, a real browser."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, expect
from pyiceberg.catalog import load_catalog

from icefloe import config as configuration
from tests.browser.conftest import Tab
from tests.e2e.test_run_commands import Shell, shell  # noqa: F401 - a fixture
from tests.projects import wait_until

SECONDS = 60_000
FLOW = """
Description: Counts what is new
Trigger: {incremental: {tables: [db.events]}}
Workflow:
  id: flow
  owner: data-team
  MODE: {value: bad, type: STRING}
  jobs:
    - job: {id: capture, type: IpCapture, ip_capture: {source_tables: [db.events], start: earliest}}
    - job:
        id: work
        type: Shell
        retry: {error: 0}
        shell:
          script: |
            echo "reading ${capture__icdc_table}"
            test "${MODE}" = good || { echo "the mode is ${MODE}" >&2; exit 3; }
    - job: {id: commit, type: IpCommit, ip_commit: {capture_step: capture}}
  dag: sequential
"""


@dataclass
class Serving:
    """A running ``icefloe serve`` as its user knows it: by what it has printed."""

    address: str
    link: str


@contextmanager
def serving(shell: Shell) -> Iterator[Serving]:  # noqa: F811
    process = shell.start("serve", "--listen", "127.0.0.1:0")
    try:
        assert process.stderr is not None
        said = ""
        while not (match := re.search(r"pages: (http://\S+?)(/login\?key=\S+)", said)):
            line = process.stderr.readline()
            assert line, f"it ended: {said}"
            said += line
        yield Serving(match[1], match[1] + match[2])
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(SECONDS)
    yield Tab(context.new_page(), "")
    context.close()


def append(shell: Shell, rows: int) -> None:  # noqa: F811
    """By PyIceberg, which knows nothing of Icefloe."""
    config = configuration.load(shell.folder / configuration.FILE_NAME, env={})
    catalog = load_catalog(config.catalog.name, **config.catalog.pyiceberg_properties())
    data = pa.table({"id": pa.array(range(rows), pa.int64()), "event_day": pa.array(["2026-03-01"] * rows)})
    catalog.create_namespace_if_not_exists("db")
    catalog.create_table_if_not_exists("db.events", data.schema).append(data)


def test_push_run_watch_fail_read_restart_look_and_rewind(shell: Shell, tab: Tab) -> None:  # noqa: F811
    append(shell, 7)
    shell.push(FLOW)
    with serving(shell) as served:
        tab.base = served.address
        page = tab.page
        page.goto(served.link)
        expect(page.get_by_role("heading", name="Home")).to_be_visible()

        # The trigger has found the table's changes; somebody watches the run, and it fails before their eyes.
        page.get_by_role("link", name="Runs", exact=True).click()
        page.get_by_role("link", name="flow-1", exact=True).first.click()
        failure = page.get_by_role("alert")
        expect(failure).to_contain_text("exit code 3", timeout=SECONDS)
        expect(page.locator("#run-head .status")).to_have_text(re.compile("failed"))

        # Why: the log, to its first wrong line.
        failure.get_by_role("link", name="Read its log").click()
        expect(page.get_by_role("log")).to_contain_text("the mode is bad")
        expect(page.get_by_role("log")).to_contain_text("reading lake.icdc.")

        # Home says so, too.
        page.get_by_role("link", name="Home", exact=True).click()
        expect(page.locator("main")).to_contain_text("flow-1")

        # Mended by another parameter, from what is incomplete on: the page follows without being loaded again.
        page.goto(f"{served.address}/runs/flow-1")
        page.evaluate("window.sameDocument = true")
        form = page.locator("#restart form")
        form.get_by_text("With other parameters").click()
        form.get_by_label("MODE").fill("good")
        form.get_by_role("button", name="Restart").click()
        page.wait_for_url(re.compile("notice="))
        expect(page.locator("#run-head .status")).to_have_text(re.compile("succeeded"), timeout=SECONDS)
        assert shell.json("show", "flow-1")["status"] == "SUCCEEDED"

        # What it has captured, and where that went.
        (capture,) = shell.json("captures")
        page.goto(f"{served.address}/captures/{capture['id']}")
        expect(page.locator("main")).to_contain_text("committed")
        expect(page.locator("main")).to_contain_text("db.events")
        expect(page.locator("main")).to_contain_text("7")

        # Back to the beginning, shown first, with a reason for the record.
        page.get_by_role("link", name="Consumers", exact=True).click()
        page.get_by_role("link", name="flow/capture", exact=True).click()
        rewind = page.get_by_role("form", name="Rewind")
        rewind.get_by_label(re.compile("To a snapshot")).fill("earliest")
        rewind.get_by_role("button", name="Preview the rewind").click()
        expect(page.locator("main")).to_contain_text("Nothing has been done yet")
        assert shell.json("consumers")[0]["snapshot_id"] is not None
        page.get_by_label(re.compile("Why")).fill("a bad load")
        page.get_by_role("button", name="Rewind now").click()
        expect(page.locator("#notices")).to_contain_text("Done: rewind")
        audit = json.dumps(shell.json("consumers", "audit"))
        assert "a bad load" in audit
        tab.assert_clean()


def test_a_run_that_is_started_by_its_form_is_followed_live_and_a_lost_server_is_said(shell: Shell, tab: Tab) -> None:  # noqa: F811
    """The form has the parameter's type and default; the page says when nobody answers any more."""
    shell.push(
        """
        Workflow:
          id: typed
          COUNT: 3
          jobs:
            - job: {id: count, type: Shell, shell: {script: "for n in $(seq ${COUNT}); do echo line $n; done"}}
        """
    )
    with serving(shell) as served:
        tab.base = served.address
        page = tab.page
        page.goto(served.link)
        page.goto(f"{served.address}/workflows/typed")
        page.get_by_role("link", name="Run…", exact=True).click()
        field = page.get_by_label("COUNT")
        assert field.input_value() == "3"
        field.fill("5")
        page.get_by_role("button", name="Run", exact=True).click()
        page.wait_for_url(re.compile(r"/runs/typed-1"))
        expect(page.locator("#run-head .status")).to_have_text(re.compile("succeeded"), timeout=SECONDS)
        page.goto(f"{served.address}/runs/typed-1?step=count")
        expect(page.get_by_role("log")).to_contain_text("line 5")
        tab.assert_clean()
    expect(page.get_by_text("Disconnected")).to_be_visible(timeout=SECONDS)
    wait_until(lambda: tab.errors, 30, "the browser says that it cannot connect")
