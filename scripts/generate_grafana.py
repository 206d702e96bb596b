"""Writes ``deploy/grafana/icefloe.json``: a dashboard over the metrics of ``icefloe serve``. A test runs it and compares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "deploy" / "grafana" / "icefloe.json"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
Query = tuple[str, str]


def quantile(metric: str, by: str) -> list[Query]:
    rate = f"sum by (le, {by}) (rate(icefloe_{metric}_bucket[$__rate_interval]))"
    return [(f"histogram_quantile(0.95, {rate})", f"{{{{{by}}}}} 95 %")]


STATS: list[tuple[str, str, str, list[Query]]] = [
    ("State database", "short", "stat", [("min(icefloe_state_up)", "answers")]),
    ("Not ready", "short", "stat", [("count(icefloe_ready == 0) or vector(0)", "checks")]),
    ("Workers", "short", "stat", [('max(icefloe_workers{status="ALIVE"})', "alive")]),
    ("Incidents", "short", "stat", [("sum(icefloe_incidents_open) or vector(0)", "open")]),
    ("Longest wait for a worker", "s", "stat", [("max(icefloe_oldest_ready_step_seconds)", "step")]),
    ("Late workflows", "short", "stat", [("count(icefloe_freshness_behind_seconds > on (workflow, instance, job) icefloe_freshness_goal_seconds) or vector(0)", "late")]),
]  # fmt: skip
PANELS: list[tuple[str, str, str, list[Query]]] = [
    ("Runs that go on", "short", "timeseries", [("sum by (status) (icefloe_runs)", "{{status}}")]),
    ("Runs that ended", "short", "timeseries", [("sum by (status) (increase(icefloe_runs_ended_total[$__rate_interval]))", "{{status}}")]),
    ("Run time", "s", "timeseries", quantile("run_seconds", "workflow")),
    ("Steps", "short", "timeseries", [("sum by (status) (icefloe_steps)", "{{status}}"), ("max(icefloe_worker_slots)", "slots")]),
    ("Step time", "s", "timeseries", quantile("step_seconds", "type")),
    ("Wait for a worker", "s", "timeseries", quantile("step_queue_seconds", "type")),
    ("Attempts that failed", "short", "timeseries", [('sum by (type, status) (increase(icefloe_step_attempts_total{status!="SUCCEEDED"}[$__rate_interval]))', "{{type}} {{status}}")]),
    ("Lag in rows", "short", "timeseries", [("max by (consumer, table) (icefloe_consumer_lag_rows)", "{{consumer}} {{table}}")]),
    ("Lag in time", "s", "timeseries", [("max by (consumer, table) (icefloe_consumer_lag_seconds)", "{{consumer}} {{table}}")]),
    ("Freshness against its goal", "percentunit", "timeseries", [("max by (workflow) (icefloe_freshness_behind_seconds / on (workflow, instance, job) icefloe_freshness_goal_seconds)", "{{workflow}}")]),
    ("Captures", "short", "timeseries", [("sum by (state) (increase(icefloe_captures_ended_total[$__rate_interval]))", "{{state}}"), ("sum(icefloe_captures_open)", "open"), ("max(icefloe_captures_to_release)", "to be released")]),
    ("Capture time", "s", "timeseries", quantile("capture_seconds", "consumer")),
    ("Captured rows", "short", "timeseries", [("sum by (consumer) (rate(icefloe_captured_rows_total[$__rate_interval]))", "{{consumer}}")]),
    ("Captured bytes", "Bps", "timeseries", [("sum by (consumer) (rate(icefloe_captured_bytes_total[$__rate_interval]))", "{{consumer}}")]),
    ("Requests", "reqps", "timeseries", [("sum by (status) (rate(icefloe_http_requests_total[$__rate_interval]))", "{{status}}")]),
    ("Request time", "s", "timeseries", quantile("http_request_seconds", "route")),
    ("Spark server", "short", "timeseries", [("max(icefloe_spark_server_running)", "running"), ("max(icefloe_spark_server_in_use)", "in use")]),
    ("Janitor", "short", "timeseries", [("sum by (kind) (increase(icefloe_janitor_deleted_total[$__rate_interval]))", "{{kind}}"), ("sum(increase(icefloe_janitor_errors_total[$__rate_interval]))", "errors")]),
    ("Errors that were outlived", "short", "timeseries", [("sum by (place) (increase(icefloe_suppressed_errors_total[$__rate_interval]))", "{{place}}")]),
    ("State file", "bytes", "timeseries", [("max(icefloe_state_bytes)", "size")]),
]  # fmt: skip


def dashboard() -> dict[str, Any]:
    panels = [_panel(n, spec, {"h": 4, "w": 4, "x": 4 * n, "y": 0}) for n, spec in enumerate(STATS)]
    for number, spec in enumerate(PANELS):
        place = {"h": 8, "w": 8, "x": 8 * (number % 3), "y": 4 + 8 * (number // 3)}
        panels.append(_panel(len(STATS) + number, spec, place))
    variable = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {
        "uid": "icefloe",
        "title": "Icefloe",
        "tags": ["icefloe"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [variable]},
        "panels": panels,
    }


def _panel(number: int, spec: tuple[str, str, str, list[Query]], place: dict[str, int]) -> dict[str, Any]:
    title, unit, kind, queries = spec
    return {
        "id": number + 1,
        "title": title,
        "type": kind,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "expr": expr, "legendFormat": legend, "datasource": SOURCE}
            for place, (expr, legend) in enumerate(queries)
        ],
    }


def text() -> str:
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
