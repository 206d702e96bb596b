"""A browser without a script: it follows links, keeps its cookie, and sends the forms that a page has, as they are."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from icefloe.server.listening import Listener
from icefloe.service import project as projects
from icefloe.service.access import Access, Role
from tests.projects import Project, make_project


@dataclass
class Form:
    """As a browser would send it when nobody touches it."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    label: str = ""


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._form: Form | None = None
        self._select = ""
        self._area = ""
        self._in_button = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        got = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = Form(got.get("action", ""), got.get("method", "get"))
            self.forms.append(self._form)
        elif self._form is None:
            return
        elif tag == "input" and "name" in got:
            if got.get("type") not in ("radio", "checkbox") or "checked" in got:
                self._form.fields[got["name"]] = got.get("value", "on" if got.get("type") == "checkbox" else "")
        elif tag == "select":
            self._select = got.get("name", "")
        elif tag == "option" and self._select:
            if "selected" in got or self._select not in self._form.fields:
                self._form.fields[self._select] = got.get("value", "\0text")
        elif tag == "textarea":
            self._area = got.get("name", "")
            self._form.fields[self._area] = ""
        elif tag == "button":
            self._in_button = True

    def handle_data(self, data: str) -> None:
        if self._form is None:
            return
        if self._in_button:
            self._form.label += data.strip()
        elif self._area:
            self._form.fields[self._area] += data
        elif self._select and self._form.fields.get(self._select) == "\0text":
            self._form.fields[self._select] = data.strip()

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "select":
            self._select = ""
        elif tag == "textarea":
            if self._form is not None and self._area:
                self._form.fields[self._area] = self._form.fields[self._area].removeprefix("\n")
            self._area = ""
        elif tag == "button":
            self._in_button = False


def forms(text: str) -> list[Form]:
    parser = _Forms()
    parser.feed(text)
    return parser.forms


def words(text: str) -> str:
    """What somebody reads: no tags, one space between words."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


@dataclass
class Browser:
    http: httpx.Client

    def get(self, path: str, status: int = 200) -> str:
        answer = self.http.get(path)
        assert answer.status_code == status, (path, answer.status_code, words(answer.text)[-800:])
        return answer.text

    def read(self, path: str, status: int = 200) -> str:
        return words(self.get(path, status))

    def form(self, path: str, action: str) -> Form:
        """The page's first form that leads there."""
        wanted = [form for form in forms(self.get(path)) if form.action.endswith(action)]
        assert wanted, f"{path} has no form for {action}"
        return wanted[0]

    def send(self, form: Form, **changes: str) -> httpx.Response:
        return self.http.post(form.action, data={**form.fields, **changes})

    def press(self, path: str, action: str, **changes: str) -> str:
        """Send a page's form, and read where it leads."""
        answer = self.send(self.form(path, action), **changes)
        assert answer.status_code == 200, (answer.status_code, words(answer.text)[-800:])
        return words(answer.text)

    @property
    def csrf(self) -> str:
        found = re.search(r'data-csrf="(\w+)"', self.get("/runs"))
        assert found is not None
        return found[1]


class Site:
    """A project whose pages are open."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._listener = Listener(project.client, "127.0.0.1:0")
        self._listener.start(on_failure=lambda: None)
        self._browsers: list[httpx.Client] = []

    def browser(self, name: str = "ana", role: Role = Role.operator) -> Browser:
        """Somebody who has logged in by a link of their own."""
        http = httpx.Client(base_url=self._listener.pages, follow_redirects=True, timeout=30)
        self._browsers.append(http)
        key = Access(self.project.client.database).make_link(role, actor=name)
        assert http.get(f"/login?key={key}").status_code == 200
        return Browser(http)

    def audits(self, subject: str) -> list[tuple[str, str]]:
        """Who did what to it, oldest first, since it was pushed."""
        from icefloe.store import audits

        with self.project.client.database.read() as connection:
            return [(one.who, one.verb) for one in audits.listing(connection, subject=subject) if one.verb != "push"][
                ::-1
            ]

    def close(self) -> None:
        for http in self._browsers:
            http.close()
        self._listener.close()


@pytest.fixture
def site(state_url: str, tmp_path: Any) -> Iterator[Site]:
    root = tmp_path / "project"
    projects.init(root)
    project = make_project(root, state_url)
    made = Site(project)
    yield made
    made.close()
    project.client.close()
