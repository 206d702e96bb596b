"""Pages out of templates: Jinja2 with everything escaped, the words and numbers that pages share, and how errors look.

A page is a template in ``templates/`` that extends ``base.html``, and a function in ``pages/`` that gives it what it shows. Macros that
several pages share are in ``templates/parts.html``, drawings in ``charts/``.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from icefloe import __version__
from icefloe.credentials import masked
from icefloe.errors import IcefloeError
from icefloe.server.access import csrf_token
from icefloe.service.access import Actor, Role

LONGEST_VALUE = 2_000
"""Characters of a value that a page shows; the API has the rest."""

NAVIGATION = (
    ("/", "Home"),
    ("/workflows", "Workflows"),
    ("/runs", "Runs"),
    ("/tables", "Tables"),
    ("/consumers", "Consumers"),
    ("/lineage", "Lineage"),
    ("/savings", "Savings"),
    ("/system", "System"),
)


def page(request: Request, template: str, *, status_code: int = 200, **values: Any) -> HTMLResponse:
    """Render a template for who is asking. ``values`` are what the template names."""
    actor = getattr(request.state, "actor", None)
    secret = request.cookies.get(request.app.state.session_cookie) if actor is not None else None
    context = {
        "path": request.scope["path"],
        "actor": actor,
        "csrf": csrf_token(secret) if secret else "",
        "may_operate": actor is not None and actor.role.covers(Role.operator),
        "may_administer": actor is not None and actor.role.covers(Role.admin),
        "notice": request.query_params.get("notice", "")[:300],
        **values,
    }
    return HTMLResponse(environment().get_template(template).render(context), status_code)


def part(template: str, **values: Any) -> Markup:
    """A piece of a page as text that is already escaped."""
    return Markup(environment().get_template(template).render(values))


def error_page(request: Request, error: IcefloeError, status: int) -> Response:
    """An error for people: what, where, what now. In answer to a form by htmx it is only the notice."""
    template = "error_notice.html" if request.headers.get("hx-request") else "error.html"
    return page(request, template, status_code=status, error=error, error_status=status)


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("icefloe.server"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "navigation": NAVIGATION,
        "version": __version__,
        "asset": asset,
        "now": time.time,
        "url": address,
        "Actor": Actor,
    }
    made.filters |= {
        "ago": ago,
        "moment": moment,
        "iso": iso,
        "duration": duration,
        "count": count,
        "size": size,
        "percent": percent,
        "value": value_text,
        "masked": masked,
        "segment": lambda text: quote(str(text), safe=""),
        "plural": plural,
    }
    return made


_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(value: Any) -> Any:
    """Characters that would act instead of being seen (escape sequences, changes of the writing direction) become signs that show them."""
    if not isinstance(value, str) or _HIDDEN.search(value) is None:
        return value
    shown = _HIDDEN.sub(lambda match: _sign(ord(match[0])), value)
    return Markup(shown) if isinstance(value, Markup) else shown


def _sign(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


@cache
def asset(name: str) -> str:
    """The address of a file in ``static/``, with its hash: a new version is another address."""
    content = files("icefloe.server").joinpath("static", name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}"


def address(path: str, **query: Any) -> str:
    """A path with a query; what is None or empty is left out."""
    wanted = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(wanted)}" if wanted else path


def capture_address(capture_id: str) -> str:
    return f"/captures/{quote(capture_id, safe='')}"


def table_address(name: str) -> str:
    return f"/tables/{quote(name, safe='')}"


def workflow_address(workflow_id: str) -> str:
    return f"/workflows/{quote(workflow_id, safe='')}"


# -- numbers and times for people ------------------------------------------------------------------------------------------


def iso(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(at: float | None) -> Markup:
    """A time as an element that the browser shows in its own zone; without a script it is UTC."""
    if at is None:
        return Markup('<span class="muted">–</span>')
    shown = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}" data-show="moment">{}</time>').format(iso(at), shown)


def ago(at: float | None) -> Markup:
    """How long ago, or in how long, as an element that the browser keeps up to date."""
    if at is None:
        return Markup('<span class="muted">never</span>')
    gap = time.time() - at
    shown = f"{duration(abs(gap))} ago" if gap >= 0 else f"in {duration(-gap)}"
    return Markup('<time datetime="{}" data-show="ago" title="{}">{}</time>').format(iso(at), iso(at), shown)


def duration(seconds: float | None) -> str:
    """Two units at most: ``1.4 s``, ``3 min 20 s``, ``2 h 5 min``, ``4 d 3 h``."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = int(seconds)
    for unit, length, below, short in (("d", 86_400, 3_600, "h"), ("h", 3_600, 60, "min"), ("min", 60, 1, "s")):
        if whole >= length:
            rest = whole % length // below
            return f"{whole // length} {unit} {rest} {short}" if rest else f"{whole // length} {unit}"
    return f"{whole} s"


def count(number: float | None) -> str:
    return "unknown" if number is None else f"{number:,.0f}"


def size(number: float | None) -> str:
    if number is None:
        return "unknown"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if abs(number) < 1000:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} PB"


def percent(share: float | None) -> str:
    if share is None:
        return "–"
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.1f} %"


def plural(number: int, word: str, words: str | None = None) -> str:
    return f"{number:,} {word if number == 1 else words or word + 's'}"


def value_text(value: Any) -> str:
    """A parameter or output as text, cut where it is long, without secrets."""
    shown = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    shown = masked(shown)
    return shown if len(shown) <= LONGEST_VALUE else f"{shown[:LONGEST_VALUE]}… ({len(shown):,} characters)"
