"""REST: one module per noun of the API. A route reads the request, calls the service layer, and gives back its answer."""

from __future__ import annotations

from icefloe.server.routes import changes, freshness, health, lineage, signals, tables, watermarks

ROUTERS = (
    health.router,
    signals.router,
    watermarks.router,
    changes.router,
    tables.router,
    lineage.router,
    freshness.router,
)
