"""A real Chromium against a real server: one browser for all tests, a new context for each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response, sync_playwright

from icefloe.server.listening import Listener
from icefloe.service.access import Access, Role
from icefloe.service.client import Client
from icefloe.store import migrations
from icefloe.store.database import Database
from tests.filled_store import Filled, fill
from tests.projects import Project, make_project

ARGUMENTS = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)


def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise AssertionError("there is no Chromium here: make setup installs it")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    arguments = [*ARGUMENTS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        yield started
        started.close()


class Tab:
    """A page, and all that went wrong in it."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text}")

    def _dialog(self, dialog: object) -> None:
        self.errors.append("a dialog was opened")
        dialog.dismiss()  # type: ignore[attr-defined]

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != urlsplit(self.base).netloc:
            self.elsewhere.append(request.url)

    def open(self, path: str) -> Response:
        answer = self.page.goto(f"{self.base}{path}")
        assert answer is not None
        return answer

    def assert_clean(self) -> None:
        assert not self.errors, self.errors
        assert not self.elsewhere, self.elsewhere


OpenTab = Callable[..., Tab]


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[OpenTab]:
    contexts: list[BrowserContext] = []

    def open_one(
        served: Served, *, width: int = 1440, theme: str = "light", script: bool = True, role: Role = Role.admin
    ) -> Tab:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=theme,  # type: ignore[arg-type]
            java_script_enabled=script,
            reduced_motion="reduce",
        )
        contexts.append(context)
        tab = Tab(context.new_page(), served.address)
        tab.open(f"/login?key={Access(served.client.database).make_link(role)}")
        return tab

    yield open_one
    for context in contexts:
        context.close()


class Served:
    """A project and its server, in this process."""

    def __init__(self, project: Project, listener: Listener) -> None:
        self.project = project
        self.address = listener.address

    @property
    def client(self) -> Client:
        return self.project.client


@contextmanager
def serving(project: Project) -> Iterator[Served]:
    listener = Listener(project.client, "127.0.0.1:0")
    listener.start(on_failure=lambda: None)
    try:
        yield Served(project, listener)
    finally:
        listener.close()


@contextmanager
def new_project(folder: Path) -> Iterator[Project]:
    folder.mkdir(parents=True, exist_ok=True)
    url = f"sqlite:///{folder}/state.db"
    database = Database(url)
    migrations.upgrade(database)
    database.close()
    project = make_project(folder / "project", url)
    try:
        yield project
    finally:
        project.client.close()


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A new project in which nothing has happened."""
    with new_project(tmp_path_factory.mktemp("empty")) as project, serving(project) as served:
        yield served


@pytest.fixture(scope="session")
def much(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Filled]]:
    """10,000 runs, 300 steps, 100 tables, and hostile texts wherever a user may put one."""
    with new_project(tmp_path_factory.mktemp("much")) as project:
        filled = fill(project)
        with serving(project) as served:
            yield served, filled
