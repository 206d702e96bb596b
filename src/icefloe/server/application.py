"""The application: routes, who may come in, how much they may bring. A new noun is a new router in ``ROUTERS``."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware import Middleware

from icefloe import __version__
from icefloe.server import answers
from icefloe.server.access import RequireToken
from icefloe.server.limits import LimitBody
from icefloe.server.routes import health, signals, watermarks
from icefloe.service.client import Client

API = "/api/v1"
ROUTERS = (health.router, signals.router, watermarks.router)


def make_application(client: Client, token: str) -> FastAPI:
    """An ASGI application over a project. It opens and closes nothing: the client stays its maker's."""
    app = FastAPI(
        title="Icefloe",
        version=__version__,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # its page would fetch scripts from elsewhere
        redoc_url=None,
        middleware=[
            Middleware(RequireToken, token=token, open_paths=frozenset({f"{API}/health"})),
            Middleware(LimitBody, most=client.config.server.max_body_kib * 1024),
        ],
    )
    app.state.client = client
    answers.install(app)
    for router in ROUTERS:
        app.include_router(router, prefix=API)
    return app
