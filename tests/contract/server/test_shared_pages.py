"""Many tabs that hear of one change: the page is made once for them, and each gets its own token in its forms."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from icefloe.server.access import csrf_token, session_cookie
from icefloe.server.listening import Listener
from icefloe.service.access import Access, Actor, Role
from icefloe.service.run_history import RunHistory
from tests.projects import Project

WORKFLOW = "Workflow: {id: hello, jobs: [{job: {id: say, type: NoOp}}]}"


def test_a_page_is_made_once_for_all_who_ask_at_once_and_never_older_than_asked(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.push(WORKFLOW)
    project.start("hello")
    made = 0
    lock = threading.Lock()
    real = RunHistory.listing

    def counted(self: RunHistory, *words: Any, **more: Any) -> Any:
        nonlocal made
        with lock:
            made += 1
        return real(self, *words, **more)

    monkeypatch.setattr(RunHistory, "listing", counted)
    listener = Listener(project.client, "127.0.0.1:0")
    listener.start(on_failure=lambda: None)
    access = Access(project.client.database)
    try:
        sessions = [
            access.open_session(Actor(f"person {number}", Role.operator), by_means_of="token")[0]
            for number in range(20)
        ]

        def ask(secret: str) -> str:
            cookies = {session_cookie(project.config): secret}
            answer = httpx.get(f"{listener.address}/runs", headers={"X-Live": "listing"}, cookies=cookies, timeout=30)
            assert answer.status_code == 200
            return answer.text

        with ThreadPoolExecutor(20) as pool:
            pages = list(pool.map(ask, sessions))
        assert 1 <= made <= 10, made
        for secret, page in zip(sessions, pages, strict=True):
            assert set(re.findall(r'name="csrf" value="([^"]*)"', page)) == {csrf_token(secret)}
        second = project.start("hello")
        assert second in ask(sessions[0]), "who asks after a change sees it"
    finally:
        listener.close()


def test_roles_do_not_share_a_page(project: Project) -> None:
    """Asked for at one moment, just after a rendering: who may share one waits for the next, and gets the same."""
    project.push(WORKFLOW)
    listener = Listener(project.client, "127.0.0.1:0")
    listener.start(on_failure=lambda: None)
    access = Access(project.client.database)
    try:
        roles = (Role.operator, Role.viewer)
        secrets = {role: access.open_session(Actor(role.value, role), by_means_of="token")[0] for role in roles}

        def forms(role: Role) -> int:
            cookies = {session_cookie(project.config): secrets[role]}
            address = f"{listener.address}/workflows/hello"
            page = httpx.get(address, headers={"X-Live": "x"}, cookies=cookies, timeout=30)
            return page.text.count('method="post"')

        alone = {role: forms(role) for role in roles}
        assert alone[Role.viewer] < alone[Role.operator]
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(forms, roles * 4))
        assert together == [alone[role] for role in roles] * 4
    finally:
        listener.close()
