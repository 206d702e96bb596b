"""Who may come in, and what is refused: seen from outside, as somebody who wants in sees it. On both databases."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from icefloe.server.access import csrf_token, session_cookie
from icefloe.server.application import make_application
from icefloe.server.limits import FAILURES_A_MINUTE, Failures, TooManyFailuresError
from icefloe.service.access import Role
from icefloe.service.triggers import Triggers
from icefloe.store import audits
from tests.contract.server.serving import Server, serving
from tests.projects import Project

FLOW = "Workflow: {id: nightly, jobs: [{job: {id: one, type: NoOp}}]}"
OPEN = {"/login", "/healthz", "/readyz", "/favicon.ico", "/api/v1/health"}
UNSAFE_FOR_VIEWERS = {
    "/login": "nobody is logged in there yet",
    "/logout": "everybody may leave",
    "/api/v1/workflows/validate": "looks at a definition and keeps nothing",
    "/api/v1/definitions/validate": "looks at a definition and keeps nothing",
    "/api/v1/definitions/graph": "looks at a definition and keeps nothing",
    "/api/v1/definitions/convert": "looks at a definition and keeps nothing",
    "/api/v1/definitions/diff": "looks at a definition and keeps nothing",
}
"""Paths whose POST changes nothing, or is part of coming in, with the reason."""


@pytest.fixture
def server(project: Project) -> Iterator[Server]:
    with serving(project) as made:
        yield made


def routes(project: Project) -> list[tuple[str, str]]:
    """Every method and path of the application, with something in the place of names."""
    app = make_application(project.client, "x" * 20)

    found = [(method, path) for path, methods in _paths(app).items() for method in methods]
    assert len(found) > 15
    return sorted(found)


def _paths(app: Any) -> dict[str, set[str]]:
    """By what the router answers, however it keeps its routes."""
    found: dict[str, set[str]] = {}

    def visit(parts: Any, prefix: str) -> None:
        for route in parts:
            inner = getattr(route, "original_router", None)
            if isinstance(route, APIRoute):
                found.setdefault(prefix + route.path, set()).update(route.methods)
            elif inner is not None:
                visit(inner.routes, prefix + getattr(route.include_context, "prefix", ""))

    visit(app.routes, "")
    return found


def filled(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "nightly", path)


def test_every_route_refuses_who_has_not_logged_in(server: Server) -> None:
    with server.stranger() as stranger:
        for method, path in routes(server.project):
            if path in OPEN:
                continue
            answer = stranger.request(method, filled(path), follow_redirects=False)
            if path.startswith("/api/") or path == "/metrics":
                assert answer.status_code == 401, (method, path)
            else:
                assert answer.status_code == 303, (method, path)
                assert answer.headers["location"].startswith("/login?next=")
            assert server.token not in answer.text


def test_every_route_that_changes_something_refuses_viewers(server: Server) -> None:
    """Whoever adds a route for viewers that is not GET says why, above."""
    tried = 0
    with server.program(Role.viewer) as viewer, server.browser(Role.viewer) as browser:
        cookie = browser.cookies[session_cookie(server.project.config)]
        for method, path in routes(server.project):
            if method in ("GET", "HEAD", "OPTIONS") or path in UNSAFE_FOR_VIEWERS:
                continue
            tried += 1
            answer = viewer.request(method, filled(path), json={})
            assert answer.status_code == 403, (method, path, answer.text[:300])
            own = csrf_token(cookie)
            answer = browser.request(method, filled(path), data={"csrf": own}, headers={"X-CSRF-Token": own})
            assert answer.status_code == 403, (method, path, answer.text[:300])
    assert tried >= 4


def test_every_form_of_a_browser_needs_the_csrf_token_of_its_session(server: Server) -> None:
    with server.browser() as browser, server.browser() as other:
        foreign = csrf_token(other.cookies[session_cookie(server.project.config)])
        for method, path in routes(server.project):
            if method in ("GET", "HEAD", "OPTIONS") or path == "/login":
                continue
            for form in ({}, {"csrf": ""}, {"csrf": foreign}):
                answer = browser.request(method, filled(path), data=form)
                assert answer.status_code == 403, (method, path, form)
                assert "older than your login" in answer.text
        assert browser.get("/").status_code == 200, "nobody was logged out by it"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_what_a_page_of_another_site_sends_is_refused_even_at_the_login(
    server: Server, headers: dict[str, str]
) -> None:
    with server.browser() as browser, server.stranger() as stranger:
        form = {"csrf": csrf_token(browser.cookies[session_cookie(server.project.config)])}
        assert browser.post("/logout", data=form, headers=headers).status_code == 403
        login = stranger.post("/login", data={"token": server.token}, headers=headers)
        assert login.status_code == 403
        assert "set-cookie" not in login.headers
        assert stranger.post("/login", data={"token": server.token}).status_code == 303


def test_a_link_on_another_site_logs_nobody_in_without_a_word_of_their_own(server: Server) -> None:
    key = server.access.make_link(Role.operator)
    with server.stranger() as stranger:
        seen = stranger.get("/login", params={"key": key}, headers={"Sec-Fetch-Site": "cross-site"})
        assert (seen.status_code, "set-cookie" in seen.headers) == (200, False)
        assert "Log in with this link" in seen.text
        assert stranger.post("/login", data={"key": key}, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303
        assert stranger.get("/").status_code == 200
        again = stranger.post("/login", data={"key": key})
        assert again.status_code == 403, "a link opens once"


@pytest.mark.parametrize(
    "wanted",
    ["//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil.example", "/\t/evil.example", "javascript:alert(1)",
     "/%0d%0aSet-Cookie:x=1\r\n", "http:evil.example", "", " //evil.example"],
)  # fmt: skip
def test_a_login_leads_nowhere_else(server: Server, wanted: str) -> None:
    with server.stranger() as stranger:
        answer = stranger.post("/login", data={"token": server.token, "next": wanted})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_each_login_is_a_session_of_its_own_and_ends_the_one_before(server: Server) -> None:
    name = session_cookie(server.project.config)
    with server.stranger() as stranger:
        stranger.cookies.set(name, "chosen-by-somebody-else")
        stranger.post("/login", data={"token": server.token})
        first = [cookie.value for cookie in stranger.cookies.jar if cookie.name == name][-1]
        assert first != "chosen-by-somebody-else"
        stranger.cookies.clear()
        stranger.cookies.set(name, first or "")
        answer = stranger.post("/login", data={"token": server.token})
        assert answer.status_code == 303
    with httpx.Client(base_url=server.address, cookies={name: first or ""}) as thief:
        assert thief.get("/", follow_redirects=False).status_code == 303


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites_and_secure_behind_tls(server: Server) -> None:
    with server.stranger() as stranger:
        plain = stranger.post("/login", data={"token": server.token}).headers["set-cookie"].lower()
        behind = stranger.post("/login", data={"token": server.token}, headers={"X-Forwarded-Proto": "https"})
    assert "httponly" in plain and "samesite=lax" in plain and "domain" not in plain and "secure" not in plain
    assert "secure" in behind.headers["set-cookie"].lower()


def test_every_answer_says_what_browsers_must_not_do_with_it(server: Server) -> None:
    with server.stranger() as stranger, server.browser() as browser:
        for answer in (stranger.get("/login"), stranger.get("/nothing"), browser.get("/"), browser.get("/system")):
            policy = answer.headers["content-security-policy"]
            assert "unsafe" not in policy and "frame-ancestors 'none'" in policy and "default-src 'none'" in policy
            assert answer.headers["referrer-policy"] == "same-origin"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-frame-options"] == "DENY"
            assert "server" not in answer.headers


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "localhost:80/api", "localhost@evil.example", "127.0.0.1.nip.io", ""],
)
def test_requests_for_another_host_are_refused(server: Server, host: str) -> None:
    with server.program() as program:
        assert program.get("/api/v1/signals", headers={"Host": host}).status_code in (400, 421)
        assert program.get("/api/v1/signals", headers={"Host": "LOCALHOST:1"}).status_code == 200


def raw(server: Server, request: bytes) -> bytes:
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as line:
        line.sendall(request)
        line.shutdown(socket.SHUT_WR)
        found = b""
        while chunk := line.recv(65536):
            found += chunk
    return found


def test_two_host_headers_and_headers_without_end_are_refused_and_the_server_lives(server: Server) -> None:
    two = raw(server, b"GET /login HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    assert two.startswith(b"HTTP/1.1 4")
    try:
        large = raw(server, b"GET /login HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 2_000_000 + b"\r\n\r\n")
        assert large == b"" or large.startswith(b"HTTP/1.1 4")
    except OSError:
        pass  # the line is cut while we still send
    with server.stranger() as stranger:
        assert stranger.get("/healthz").status_code == 200


def proxied(project: Project, **settings: Any) -> None:
    changed = {"proxy_header": "X-Forwarded-User", "proxy_admins": ["root@example.com"], **settings}
    server = project.config.server.model_copy(update=changed)
    project.client.config = project.config.model_copy(update={"server": server})


def test_a_proxys_word_counts_at_the_login_alone(project: Project) -> None:
    proxied(project)
    with serving(project) as server:
        for path in ("/", "/system", "/api/v1/signals", "/metrics"):
            with server.stranger() as stranger:
                assert stranger.get(path, headers={"X-Forwarded-User": "root@example.com"}).status_code in (303, 401)
        with server.stranger() as stranger:
            assert stranger.get("/login", headers={"X-Forwarded-User": "ada@example.com"}).status_code == 303
            assert "ada@example.com · viewer" in stranger.get("/").text
        with server.stranger() as stranger:
            stranger.get("/login", headers={"X-Forwarded-User": "root@example.com"})
            assert "root@example.com · admin" in stranger.get("/").text


@pytest.mark.parametrize(
    "values",
    [
        ["root@example.com", "ada@example.com"],
        ["root@example.com, ada@example.com"],
        ["server-token"],
        ["a\x01b"],
        ["x" * 101],
        [""],
    ],
)
def test_a_header_that_more_than_the_proxy_has_written_is_nobodys(project: Project, values: list[str]) -> None:
    proxied(project)
    lines = "".join(f"X-Forwarded-User: {value}\r\n" for value in values)
    with serving(project) as server:
        answer = raw(
            server, f"GET /login HTTP/1.1\r\nHost: localhost\r\n{lines}Connection: close\r\n\r\n".encode("latin-1")
        )
    assert b"set-cookie" not in answer.lower()


def test_who_is_not_a_trusted_proxy_is_not_believed(project: Project) -> None:
    proxied(project, trusted_proxies=["10.0.0.0/8"])
    with serving(project) as server, server.stranger() as stranger:
        answer = stranger.get("/login", headers={"X-Forwarded-User": "root@example.com", "X-Forwarded-For": "10.0.0.1"})
    assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)


def test_failed_logins_are_slowed_down_by_address(server: Server) -> None:
    with server.stranger() as stranger:
        for _ in range(FAILURES_A_MINUTE):
            assert stranger.post("/login", data={"token": "icefloe_wrong"}).status_code == 403
        refused = stranger.post("/login", data={"token": server.token})
        assert refused.status_code == 429
        assert stranger.get("/login", params={"key": "wrong"}).status_code == 429
    with server.program() as program:
        assert program.get("/api/v1/signals").status_code == 200, "whoever has a token goes on"


def test_failures_are_forgotten_after_a_minute_and_their_memory_is_bounded() -> None:
    now = [0.0]
    failures = Failures(clock=lambda: now[0])
    for number in range(FAILURES_A_MINUTE):
        failures.count(f"2001:db8::{number:x}")
    with pytest.raises(TooManyFailuresError):
        failures.refuse_if_many("2001:db8::ffff")
    failures.refuse_if_many("2001:db8:1::1")
    now[0] = 61.0
    failures.refuse_if_many("2001:db8::ffff")
    for number in range(20_000):
        failures.count(f"10.{number >> 16}.{(number >> 8) & 255}.{number & 255}")
    assert len(failures._failed) == 10_000


def test_a_revoked_token_ends_its_logins_at_once(server: Server) -> None:
    secret = server.access.add_token("short", Role.operator)
    with server.stranger() as stranger, server.browser() as admin:
        stranger.post("/login", data={"token": secret})
        assert stranger.get("/").status_code == 200
        form = {"csrf": csrf_token(admin.cookies[session_cookie(server.project.config)])}
        assert admin.post("/system/tokens/short/revoke", data=form).status_code == 303
        assert stranger.get("/").status_code == 303
        assert httpx.get(f"{server.address}/runs", headers={"Authorization": f"Bearer {secret}"}).status_code == 303


def test_every_deed_is_recorded_with_who_did_it_and_through_what(server: Server) -> None:
    client = server.project.client
    server.project.push(FLOW)
    client.workflows.set_paused("nightly", True, by="ada")
    client.workflows.set_paused("nightly", False, by="ada")
    client.workflows.set_active("nightly", False)
    client.workflows.set_active("nightly", True)
    run = client.runs.start("nightly", by="ada").run_id
    client.runs.pause(run, by="ada")
    client.runs.resume(run, by="ada")
    client.runs.skip(run, "one", by="ada")
    second = client.runs.start("nightly").run_id
    client.runs.stop(second)
    client.runs.restart(second, by="ada")
    client.runs.kill(second)
    client.runs.unblock("nightly", by="ada")
    assert isinstance(client.triggers, Triggers)
    client.triggers.set_watermark("db.events", "2026-03-01", by="ada")
    with server.program(Role.operator, name="upstream") as program:
        assert program.post("/api/v1/signals", json={"name": "done"}).status_code == 201
    with server.browser() as admin:
        form = {
            "csrf": csrf_token(admin.cookies[session_cookie(server.project.config)]),
            "name": "made",
            "role": "viewer",
        }
        made = admin.post("/system/tokens", data=form)
        secret = re.search(r"icefloe_[\w-]{30,}", made.text)
        assert made.status_code == 200 and secret is not None
        assert secret[0] not in admin.get("/system").text, "it is shown once"
    with client.database.read() as connection:
        found = audits.listing(connection, most=100)
    verbs = {(record.verb, record.details.get("via")) for record in found}
    assert {
        ("push", "python"), ("pause", "python"), ("resume", "python"), ("deactivate", "python"), ("activate", "python"),
        ("run", "python"), ("skip", "python"), ("stop", "python"), ("restart", "python"), ("kill", "python"),
        ("unblock", "python"), ("watermark", "python"), ("signal", "rest"), ("tokens add", "page"), ("login", "page"),
    } <= verbs  # fmt: skip
    by = {(record.verb, record.subject): record.who for record in found}
    assert by["run", run] == "ada"
    assert by["signal", "done"] == "upstream"
    assert client.runs.show(run).initiator["by"] == "ada"
    assert not any(secret[0] in str(record) for record in found)


def test_no_secret_of_the_project_is_in_any_page_or_answer(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {
        "FLOW_PASSWORD": "s3cret-of-the-flow", "STORE_KEY": "s3cret-of-the-store", "ALERT_TOKEN": "s3cret-of-the-channel-77",
    }  # fmt: skip
    for name, text in secrets.items():
        monkeypatch.setenv(name, text)
    config = project.config
    changed = config.model_copy(
        update={
            "alerts": config.alerts.model_copy(update={"channels": {"ops": "slack://$ENV{ALERT_TOKEN}/x", "other": "json://me:s3cret-in-plain-text@host/x"}}),
            "catalog": config.catalog.model_copy(update={"properties": {"s3.secret-access-key": "$ENV{STORE_KEY}"}}),
        }
    )  # fmt: skip
    project.client.config = changed
    project.push("""
        Workflow:
          id: nightly
          jobs: [{job: {id: one, type: Shell, shell: {script: 'echo "$FLOW_PASSWORD"; exit 1', env: {FLOW_PASSWORD: "$ENV{FLOW_PASSWORD}"}}, retry: {error: 0}}}]
        """)
    run = project.execute("nightly").run_id
    hidden = [*secrets.values(), "s3cret-in-plain-text"]
    password = re.search(r"://[^:/@]+:([^@]+)@", project.client.database.url)
    hidden += [password[1]] if password and len(password[1]) > 3 else []
    with serving(project) as server, server.program() as program, server.browser() as browser:
        hidden.append(server.token)
        looked = 0
        for method, path in routes(project):
            if method != "GET" or path in ("/api/v1/changes",) or path == "/login":
                continue
            for place in {re.sub(r"\{[^}]*\}", name, path) for name in ("nightly", run, "one", "1")}:
                for who in (program, browser):
                    answer = who.get(place)
                    looked += answer.status_code == 200
                    for secret in hidden:
                        assert secret not in answer.text, place
                        assert secret not in str(answer.headers), place
    assert looked > 10
    assert os.environ["FLOW_PASSWORD"]
