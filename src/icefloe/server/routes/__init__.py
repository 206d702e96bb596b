"""REST: one module per noun of the API. A route reads the request, calls the service layer, and gives back its answer.

A route's function name is its operation id in the OpenAPI document, and stays.
"""

from __future__ import annotations

from icefloe.server.routes import (
    audit,
    change_tables,
    changes,
    consumers,
    definitions,
    freshness,
    health,
    incidents,
    lineage,
    runs,
    savings,
    signals,
    system,
    tables,
    watermarks,
    workers,
    workflows,
)

ROUTERS = (
    health.router,
    workflows.router,
    definitions.router,
    runs.router,
    signals.router,
    watermarks.router,
    incidents.router,
    consumers.router,
    consumers.captures,
    change_tables.router,
    tables.router,
    lineage.router,
    freshness.router,
    savings.router,
    audit.router,
    workers.router,
    system.router,
    changes.router,
)
"""Those with longer paths first, where a shorter one would take them: ``/tables/NAME/changes`` before ``/tables/NAME``."""
