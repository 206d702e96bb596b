"""The application: REST below ``/api/v1``, pages beside it, who may come in, how much they may bring.

A new noun is a new router in ``routes.ROUTERS`` or ``pages.ROUTERS``.
"""

from __future__ import annotations

from functools import partial

from fastapi import Depends, FastAPI
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles

from icefloe import __version__
from icefloe.server import answers, operations, pages, rendering, routes
from icefloe.server.access import (
    PROBES,
    Authenticate,
    CheckHost,
    SecurityHeaders,
    allowed_hosts,
    checked_form,
    is_same,
    own_hosts,
    session_cookie,
)
from icefloe.server.answers import API
from icefloe.server.changes import ChangeFeed
from icefloe.server.description import describe, operation_id
from icefloe.server.limits import Failures, LimitBody
from icefloe.server.metrics import CountRequests, Requests
from icefloe.server.repeated import RepeatedRequests
from icefloe.server.routes.bodies import CheckedAddress
from icefloe.server.shared_pages import SharePages
from icefloe.service.access import Access
from icefloe.service.client import Client
from icefloe.service.health import Readiness
from icefloe.service.idempotency import IdempotencyKeys
from icefloe.service.metrics import Metrics
from icefloe.service.serving import Service
from icefloe.service.system import System

OPEN_PATHS = frozenset({f"{API}/health", *PROBES, "/login", "/favicon.ico"})
OPEN_FOLDERS = ("/static/",)


def make_application(
    client: Client, token: str, *, listens_on: str = "127.0.0.1", service: Service | None = None
) -> FastAPI:
    """An ASGI application over a project. It opens and closes nothing: client and service stay their maker's.

    ``service``: the scheduler and worker of this process, for who asks how they do.
    """
    access = Access(client.database)
    requests = Requests()
    cookie = session_cookie(client.config)
    app = FastAPI(
        title="Icefloe",
        version=__version__,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # its page would fetch scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=operation_id,
        middleware=[
            Middleware(CountRequests, requests=requests),
            Middleware(SecurityHeaders),
            Middleware(CheckHost, allowed=allowed_hosts(client.config, listens_on)),
            Middleware(LimitBody, most=client.config.server.max_body_kib * 1024),
            Middleware(
                Authenticate,
                access=access,
                server_token=token,
                cookie=cookie,
                open_paths=OPEN_PATHS | ({"/metrics"} if client.config.server.open_metrics else frozenset()),
                open_folders=OPEN_FOLDERS,
                error_page=rendering.error_page,
                own_hosts=own_hosts(client.config),
            ),
            Middleware(SharePages, cookie=cookie),
            Middleware(RepeatedRequests, keys=IdempotencyKeys(client.database)),
        ],
    )
    app.state.client = client
    app.state.access = access
    app.state.session_cookie = cookie
    app.state.is_server_token = partial(is_same, token)
    app.state.changes = ChangeFeed(client.database)
    app.state.requests = requests
    app.state.failed_logins = Failures()
    app.state.readiness = Readiness(client.database, service)
    app.state.system = System(client.config, client.database, service)
    app.state.metrics = Metrics(client.config, client.database, service)
    answers.install(app, rendering.error_page)
    app.mount("/static", StaticFiles(packages=[("icefloe.server", "static")]), name="static")
    for router in routes.ROUTERS:
        app.include_router(router, prefix=API, dependencies=[CheckedAddress])
    app.include_router(operations.router, include_in_schema=False)
    for router in pages.ROUTERS:
        app.include_router(router, include_in_schema=False, dependencies=[Depends(checked_form)])
    describe(app)
    return app
