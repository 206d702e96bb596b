"""What pages share when a form is sent: its fields, and the way back to a page that says what was done."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.responses import RedirectResponse

from icefloe.server.rendering import address


async def _fields(request: Request) -> dict[str, str]:
    """Texts only: pages take no files."""
    form = await request.form()
    return {name: value for name, value in form.items() if isinstance(value, str)}


Fields = Annotated[dict[str, str], Depends(_fields)]


def back(path: str, notice: str, anchor: str = "") -> RedirectResponse:
    """After a form: the page again, by GET, so that a reload does nothing twice."""
    return RedirectResponse(address(path, notice=notice) + anchor, status_code=303)


def is_live(request: Request) -> frozenset[str]:
    """The parts of a page that its own script asks for again; empty for a whole page."""
    return frozenset(filter(None, request.headers.get("x-live", "").split(",")))
