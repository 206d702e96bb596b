"""A server over a project, for tests that talk to it as browsers and programs do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from icefloe.server.listening import Listener
from icefloe.service.access import Access, Role
from icefloe.service.serving import Service
from tests.projects import Project, wait_until


@dataclass
class Server:
    project: Project
    listener: Listener
    service: Service | None

    @property
    def address(self) -> str:
        return self.listener.address

    @property
    def token(self) -> str:
        """The server's own."""
        return Path(self.listener.token_at).read_text().strip()

    @property
    def access(self) -> Access:
        return Access(self.project.client.database)

    def stranger(self) -> httpx.Client:
        return httpx.Client(base_url=self.address, timeout=30)

    def program(self, role: Role = Role.admin, name: str | None = None) -> httpx.Client:
        """With a token of its own."""
        secret = self.access.add_token(name or f"program-{role}", role)
        return httpx.Client(base_url=self.address, headers={"Authorization": f"Bearer {secret}"}, timeout=30)

    def browser(self, role: Role = Role.admin) -> httpx.Client:
        """Logged in by a one-time link."""
        with self.stranger() as first:
            answer = first.get("/login", params={"key": self.access.make_link(role)})
        assert answer.status_code == 303, answer.text
        return httpx.Client(base_url=self.address, cookies=dict(answer.cookies), timeout=30)


@contextmanager
def serving(project: Project, *, whole: bool = False) -> Iterator[Server]:
    """``whole``: with scheduler, worker and janitor, as ``icefloe serve`` has them."""
    service = Service(project.client) if whole else None
    listener = Listener(project.client, "127.0.0.1:0", service)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            assert service is not None
            service.run()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    listener.start(on_failure=lambda: None)
    try:
        if service is not None:
            thread.start()
            wait_until(lambda: service.works and service.worker.turned_at, what="the worker's first turn")
        yield Server(project, listener, service)
    finally:
        if service is not None:
            service.stop()
            thread.join(30)
        listener.close()
    assert not failures, failures
