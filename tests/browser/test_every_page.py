"""Every page, with no data and with much: it comes, it is quiet, nothing leaves this machine, and everybody can use it."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from icefloe.service.access import Role
from tests.browser.conftest import OpenTab, Served
from tests.filled_store import Filled

PAGES = ("/", "/workflows", "/runs", "/tables", "/consumers", "/lineage", "/savings", "/system", "/login")
OF_RUNS = ("/workflows/{wide}", "/workflows/{pipeline}", "/runs/{wide_run}", "/runs/{failed_run}", "/runs?workflow={pipeline}",
           "/lineage?table=db.table_5", "/workflows/{hostile}", "/runs/{hostile_run}", "/workflows/{pipeline}/why")  # fmt: skip
WIDTHS = (1440, 390)
THEMES = ("light", "dark")


def addresses(filled: Filled) -> list[str]:
    names = {
        "wide": filled.wide, "pipeline": filled.workflows[-1], "wide_run": filled.wide_run, "failed_run": filled.failed_run,
        "hostile": filled.hostile, "hostile_run": filled.hostile_run,
    }  # fmt: skip
    return [*PAGES[:-1], *(address.format(**names) for address in OF_RUNS)]


def serious(tab: Any) -> list[str]:
    """What axe finds that keeps somebody from using the page."""
    violations = Axe().run(tab.page).response["violations"]
    return [
        f"{violation['id']}: {violation['help']}: {[node['html'][:150] for node in violation['nodes'][:3]]}"
        for violation in violations
        if violation["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("theme", THEMES)
def test_pages_without_data_say_so_and_nobody_is_kept_out(empty: Served, open_tab: OpenTab, theme: str) -> None:
    tab = open_tab(empty, theme=theme)
    for path in PAGES:
        assert tab.open(path).status == 200, path
        assert tab.page.locator("h1").count() == 1, path
        assert not serious(tab), (path, serious(tab))
    tab.assert_clean()


@pytest.mark.parametrize("theme", THEMES)
def test_pages_with_much_data_come_whole_and_nobody_is_kept_out(
    much: tuple[Served, Filled], open_tab: OpenTab, theme: str
) -> None:
    served, filled = much
    tab = open_tab(served, theme=theme)
    for path in addresses(filled):
        assert tab.open(path).status == 200, path
        assert tab.page.locator("h1").count() == 1, path
        assert not serious(tab), (path, serious(tab))
    tab.assert_clean()


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_the_screen(much: tuple[Served, Filled], open_tab: OpenTab, width: int) -> None:
    """Wide tables and drawings scroll by themselves; the page does not."""
    served, filled = much
    tab = open_tab(served, width=width)
    for path in addresses(filled):
        tab.open(path)
        wide = tab.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path} is {wide} pixels too wide at {width}"


def test_hostile_texts_show_as_texts(much: tuple[Served, Filled], open_tab: OpenTab) -> None:
    served, filled = much
    tab = open_tab(served)
    for path in ("/workflows", f"/workflows/{filled.hostile}", "/runs?status=FAILED", f"/runs/{filled.hostile_run}"):
        tab.open(path)
        assert tab.page.locator("img[src=x]").count() == 0, path
        assert tab.page.locator("main script").count() == 0, path
        assert "\x1b" not in tab.page.content(), path
    assert "<script>alert(1)</script>" in tab.page.locator("main").inner_text()
    tab.assert_clean()


def test_pages_are_read_without_a_script(much: tuple[Served, Filled], open_tab: OpenTab) -> None:
    served, filled = much
    tab = open_tab(served, script=False)
    for path in addresses(filled):
        assert tab.open(path).status == 200, path
        assert tab.page.locator("h1").count() == 1, path


def test_a_viewer_sees_every_page_and_no_button_that_changes_something(
    much: tuple[Served, Filled], open_tab: OpenTab
) -> None:
    served, filled = much
    tab = open_tab(served, role=Role.viewer)
    for path in addresses(filled):
        assert tab.open(path).status == 200, path
        actions = tab.page.locator("main form[method=post]").evaluate_all("forms => forms.map(form => form.action)")
        assert not actions, (path, actions)
    tab.assert_clean()
