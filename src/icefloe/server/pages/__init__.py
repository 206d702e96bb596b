"""Web pages: one module per noun. A page asks the service layer, hands frozen values to a template, and changes nothing on GET."""

from __future__ import annotations

from icefloe.server.pages import captures, consumers, home, lineage, login, runs, savings, system, tables, workflows

ROUTERS = (
    login.router,
    home.router,
    workflows.router,
    runs.router,
    tables.router,
    consumers.router,
    captures.router,
    lineage.router,
    savings.router,
    system.router,
)
