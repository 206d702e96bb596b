"""For machines that look after this one: is it alive, can it work, what does it measure."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from icefloe.server.metrics import Requests, exposition
from icefloe.service.health import Readiness
from icefloe.service.metrics import Metrics

router = APIRouter()


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers. Asks nobody, so that a database that is away does not get the server restarted."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(request: Request) -> JSONResponse:
    """503, with which check failed, while nothing useful could be done here."""
    readiness: Readiness = request.app.state.readiness
    checks = readiness.checks()
    ready = all(check.problem is None for check in checks)
    document = {
        "status": "ok" if ready else "not ready",
        "checks": {check.name: check.problem or "ok" for check in checks},
    }
    return JSONResponse(document, 200 if ready else 503)


@router.get("/metrics")
def metrics(request: Request) -> Response:
    """For Prometheus. Needs a token, unless ``[server] open_metrics`` says otherwise."""
    measured: Metrics = request.app.state.metrics
    readiness: Readiness = request.app.state.readiness
    requests: Requests = request.app.state.requests
    text, content_type = exposition(measured.read(), readiness.checks(), requests, request.headers.get("accept", ""))
    return Response(text, headers={"content-type": content_type})
