"""What machines ask of a server: is it alive, can it work, what does it measure. On both databases."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from icefloe import suppressed
from icefloe.server.metrics import HTTP_FAMILIES, PREFIX
from icefloe.service import metrics as measuring
from icefloe.service.access import Role
from icefloe.service.metrics import FAMILIES
from icefloe.store import captures, janitor
from icefloe.store.captures import CaptureRecord
from icefloe.store.janitor import PruningRecord
from tests.contract.server.serving import Server, serving
from tests.projects import Project, wait_until

FLOW = """
Trigger: {cron: '30 2 * * *'}
Workflow: {id: nightly, jobs: [{job: {id: one, type: NoOp}}, {job: {id: two, type: NoOp}}], dag: sequential}
"""
FAILING = """
Workflow: {id: failing, jobs: [{job: {id: one, type: Shell, shell: {script: exit 3}, retry: {error: 0}}}]}
"""


@pytest.fixture
def server(project: Project) -> Iterator[Server]:
    with serving(project) as made:
        yield made


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scrape looks."""
    monkeypatch.setattr(measuring, "FRESH_SECONDS", 0.0)


def samples(client: httpx.Client) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(client: httpx.Client, name: str, **labels: str) -> float | None:
    return samples(client).get((name, frozenset(labels.items())))


def test_a_stranger_is_told_that_the_process_lives_and_can_work_and_no_more(server: Server) -> None:
    with server.stranger() as stranger:
        assert stranger.get("/healthz").json() == {"status": "ok"}
        ready = stranger.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ok", "checks": {"state": "ok"}})
        # Machines ask by whatever name they have for this one.
        assert stranger.get("/healthz", headers={"Host": "10.1.2.3:8484"}).status_code == 200
        assert stranger.get("/readyz", headers={"Host": "icefloe.pod.local"}).status_code == 200
        refused = stranger.get("/metrics")
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert "icefloe_" not in refused.text


def test_readiness_tells_of_scheduler_and_worker_until_they_end(project: Project) -> None:
    with serving(project, whole=True) as server, server.stranger() as stranger:
        assert server.service is not None
        wait_until(lambda: stranger.get("/readyz").status_code == 200, what="readiness")
        assert stranger.get("/readyz").json()["checks"] == {"state": "ok", "scheduler": "ok", "worker": "ok"}
        server.service.scheduler.stop()
        wait_until(lambda: stranger.get("/readyz").status_code == 503, what="a server without a scheduler is not ready")
        assert stranger.get("/readyz").json() == {
            "status": "not ready",
            "checks": {"state": "ok", "scheduler": "does not run", "worker": "ok"},
        }
        assert stranger.get("/healthz").status_code == 200


def test_a_database_that_is_away_is_told_without_its_address(project: Project) -> None:
    with serving(project) as server, server.stranger() as stranger:
        url = project.client.database.url
        if project.client.database.file is not None:
            file = project.client.database.file
            project.client.database.close()
            file.rename(file.with_suffix(".away"))
        else:
            import sqlalchemy as sa

            name = sa.make_url(url).database
            admin = sa.create_engine(sa.make_url(url).set(database="postgres"), isolation_level="AUTOCOMMIT")
            with admin.connect() as connection:
                connection.execute(sa.text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'))
                query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
                connection.execute(sa.text(query), {"name": name})
        try:
            answer = wait_until(
                lambda: found if (found := stranger.get("/readyz")).status_code == 503 else None, what="not ready"
            )
            assert answer.json()["checks"]["state"] == "the state database does not answer"
            assert stranger.get("/healthz").status_code == 200
            bearer = httpx.Client(
                base_url=server.address, headers={"Authorization": f"Bearer {server.token}"}, timeout=30
            )
            assert value(bearer, "icefloe_state_up") == 0.0
            assert value(bearer, "icefloe_ready", check="state") == 0.0
        finally:
            if project.client.database.file is not None:
                file.with_suffix(".away").rename(file)
            else:
                with admin.connect() as connection:
                    connection.execute(sa.text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'))
                admin.dispose()
        wait_until(lambda: stranger.get("/readyz").status_code == 200, what="ready again")


def test_a_schema_of_another_program_is_not_ready(server: Server) -> None:
    import sqlalchemy as sa

    with server.project.client.database.write() as connection:
        connection.execute(sa.text("INSERT INTO schema_version (version) VALUES (9999)"))
    with server.stranger() as stranger:
        answer = wait_until(
            lambda: found if (found := stranger.get("/readyz")).status_code == 503 else None, what="not ready"
        )
    assert answer.json()["checks"] == {"state": "the schema does not fit this program"}


@pytest.mark.usefixtures("fresh")
def test_runs_and_steps_are_counted_from_the_record_wherever_they_were_done(server: Server) -> None:
    server.project.push(FLOW)
    server.project.push(FAILING)
    with server.program(Role.viewer) as viewer:
        assert value(viewer, "icefloe_state_up") == 1.0
        for _ in range(3):
            assert server.project.execute("nightly").status == "SUCCEEDED"
        assert server.project.execute("failing").status == "FAILED"
        waiting = server.project.start("nightly")
        found = samples(viewer)
        again = samples(viewer)

    def of(name: str, **labels: str) -> float | None:
        return found.get((f"icefloe_{name}", frozenset(labels.items())))

    assert of("runs_ended_total", workflow="nightly", status="SUCCEEDED") == 3
    assert of("runs_ended_total", workflow="failing", status="FAILED") == 1
    assert of("run_seconds_count", workflow="nightly") == 3
    assert of("step_attempts_total", type="noop", status="SUCCEEDED") == 6
    assert of("step_attempts_total", type="shell", status="USER_FAILED") == 1
    assert of("step_seconds_count", type="noop") == 6
    assert of("step_seconds_bucket", type="noop", le="+Inf") == 6
    assert of("step_queue_seconds_count", type="noop") == 6
    assert of("workflows", state="active") == 2
    assert of("triggers", kind="cron") is None, "no scheduler has armed it yet"
    active = [labels for (name, labels), number in found.items() if name == "icefloe_runs" and number]
    assert [dict(labels)["workflow"] for labels in active] == ["nightly"], waiting
    counted = {name: number for name, number in found.items() if name[0].endswith(("_ended_total", "_count"))}
    assert {name: again[name] for name in counted if "http" not in name[0]} == {
        name: number for name, number in counted.items() if "http" not in name[0]
    }, "a second scrape counts nothing twice"


@pytest.mark.usefixtures("fresh")
def test_captures_janitor_and_suppressed_errors_are_counted(server: Server) -> None:
    with server.program(Role.viewer) as viewer:
        assert value(viewer, "icefloe_captures_open", state="built") == 0.0
        with server.project.client.database.write() as connection:
            captures.ensure_consumer(connection, "flow/capture", "flow", 1.0)
            found = {"added_rows": 70, "added_files": 3, "added_bytes": 900}
            record = CaptureRecord(
                "c1", "flow/capture", "flow-1", "capture", "x", "committed", 0, [{"table": "db.a", "found": found}], True,
                0.0, 100.0, 100.25, 101.0,
            )  # fmt: skip
            captures.add_capture(connection, record)
            captures.add_capture(connection, CaptureRecord(
                "c2", "flow/capture", "flow-2", "capture", "x", "pinned", 1, [], False, 0.0, 102.0,
            ))  # fmt: skip
            janitor.record(connection, PruningRecord(1.0, "me", "runs", 7, 700, 0.1))
        suppressed.count("test.place", "a trouble")
        found_now = samples(viewer)

    def of(name: str, **labels: str) -> float | None:
        return found_now.get((f"icefloe_{name}", frozenset(labels.items())))

    assert of("captures_ended_total", consumer="flow/capture", state="committed") == 1
    assert of("captured_rows_total", consumer="flow/capture") == 70
    assert of("captured_files_total", consumer="flow/capture") == 3
    assert of("capture_seconds_sum", consumer="flow/capture") == 0.25
    assert of("captures_open", state="pinned") == 1
    assert of("janitor_deleted_total", kind="runs") == 7
    assert of("janitor_deleted_bytes_total", kind="runs") == 700
    places = {
        dict(labels)["place"] for (name, labels), _ in found_now.items() if name == "icefloe_suppressed_errors_total"
    }
    assert "test.place" in places


@pytest.mark.usefixtures("fresh")
def test_however_many_workflows_there_are_the_lines_are_bounded(server: Server) -> None:
    for number in range(70):
        server.project.push(f"Workflow: {{id: flow{number}, jobs: [{{job: {{id: one, type: NoOp}}}}]}}")
    with server.program(Role.viewer) as viewer:
        viewer.get("/metrics")
        for number in range(70):
            server.project.start(f"flow{number}")
        lines = [labels for (name, labels) in samples(viewer) if name == "icefloe_runs"]
        rest = value(viewer, "icefloe_runs", workflow="other", status="other")
    assert len(lines) == 51
    assert rest == 20


def test_requests_are_counted_by_the_pattern_of_their_route(server: Server) -> None:
    with server.program(Role.viewer) as viewer:
        viewer.get("/runs/secret-name-1")
        viewer.get("/no/such/place")
        viewer.request("BREW", "/runs")
        text = viewer.get("/metrics").text
    assert 'icefloe_http_requests_total{method="GET",route="/runs/{run_id:path}",status="404"} 1.0' in text
    assert 'route="other",status="404"' in text
    assert 'method="other"' in text
    assert "secret-name" not in text and "BREW" not in text


def test_metrics_are_open_when_the_configuration_says_so(project: Project) -> None:
    settings = project.config.server.model_copy(update={"open_metrics": True})
    project.client.config = project.config.model_copy(update={"server": settings})
    with serving(project) as server, server.stranger() as stranger:
        assert stranger.get("/metrics").status_code == 200
        assert stranger.get("/runs", follow_redirects=False).status_code == 303


def test_every_metric_that_a_server_gives_is_documented_and_the_other_way_round(project: Project) -> None:
    """Those without a value now (no worker, no Spark server) are documented all the same."""
    known = {f"{PREFIX}{family.name}" for family in (*FAMILIES, *HTTP_FAMILIES)}
    with serving(project, whole=True) as server, server.program(Role.viewer) as viewer:
        text = viewer.get("/metrics").text
    given = {name.removesuffix("_total") for name in re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE)}
    assert given <= known
    assert {
        f"{PREFIX}{name}" for name in ("runs", "runs_ended", "steps", "step_seconds", "workers", "consumer_lag_rows")
    } <= given
