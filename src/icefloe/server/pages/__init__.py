"""Web pages: one module per noun. A page asks the service layer, hands frozen values to a template, and changes nothing on GET."""

from __future__ import annotations

from icefloe.server.pages import home, login, runs, system, workflows

ROUTERS = (login.router, home.router, workflows.router, runs.router, system.router)
