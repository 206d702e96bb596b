"""``/metrics`` as Prometheus reads it: what the service layer has measured, and this server's own requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from icefloe.service.health import Check
from icefloe.service.metrics import FAMILIES, Family, Values
from icefloe.service.tallies import OTHER, Counter, Distribution, Histogram, Labels

PREFIX = "icefloe_"
HTTP_FAMILIES = (
    Family("http_requests", "counter", "Requests that were answered, by the route's pattern.", ("method", "route", "status")),
    Family("http_request_seconds", "histogram", "From a request's arrival to the end of its answer; streams of changes are left out.", ("method", "route")),
)  # fmt: skip
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_STREAMS = frozenset({"/api/v1/changes"})


class Requests:
    """Counts every request by its route's pattern: as many names as there are routes, whatever is asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answered = Counter()
        self._seconds = Histogram()

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        method = method if method in _METHODS else OTHER
        with self._lock:
            self._answered.add((method, route, str(status)))
            if route not in _STREAMS:
                self._seconds.add((method, route), seconds)

    def values(self) -> dict[str, Values]:
        with self._lock:
            seconds = {
                labels: Distribution(list(one.counts), one.total) for labels, one in self._seconds.values.items()
            }
            return {"http_requests": dict(self._answered.values), "http_request_seconds": seconds}


class CountRequests:
    """The outermost layer: also what is refused is counted."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def send_and_look(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_look)
        finally:
            self._requests.count(scope["method"], route_of(scope), status, time.monotonic() - began)


def route_of(scope: Scope) -> str:
    """The pattern of the route that has answered, never the path itself: that may be anything."""
    pattern = getattr(scope.get("route"), "path", None)
    if isinstance(pattern, str):
        return pattern
    return "/static" if scope["path"].startswith("/static/") else OTHER


def exposition(
    values: Mapping[str, Values], checks: Iterable[Check], requests: Requests, accept: str
) -> tuple[bytes, str]:
    """The text, and its content type, as the scraper takes it."""
    ready: dict[Labels, float] = {(check.name,): float(check.problem is None) for check in checks}
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector({**values, "ready": ready, **requests.values()}))
    encoder, content_type = choose_encoder(accept)
    return encoder(registry), content_type


class _Collector(Collector):
    def __init__(self, values: Mapping[str, Values]) -> None:
        self._values = values

    def collect(self) -> Iterable[Metric]:
        for family in (*FAMILIES, *HTTP_FAMILIES):
            if family.name in self._values:
                yield _metric(family, self._values[family.name])


def _metric(family: Family, values: Values) -> Metric:
    name = f"{PREFIX}{family.name}"
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(name, family.text, labels=family.labels)
        for labels, value in sorted(values.items()):
            assert isinstance(value, Distribution)
            histogram.add_metric(labels, value.buckets(), value.total)
        return histogram
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(name, family.text, labels=family.labels)
    for labels, value in sorted(values.items()):
        assert isinstance(value, int | float)
        metric.add_metric(labels, value)
    return metric
