"""What drawings are made of: texts, boxes and lines as escaped SVG, and how a status looks.

A status is never told by colour alone: each has a shape or a sign too.
"""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from icefloe.workflow.drawing.figure import printable, shortened

_BAD = frozenset(
    {
        "FAILED",
        "USER_FAILED",
        "PLATFORM_FAILED",
        "TIMEOUT_FAILED",
        "FATALLY_FAILED",
        "TIMED_OUT",
        "COMPLETED_WITH_ERROR",
    }
)
_GOOD = frozenset({"SUCCEEDED"})
_BUSY = frozenset({"IN_PROGRESS", "RUNNING", "STARTING", "EVALUATING_PARAMS", "FINISHING"})
_WAITING = frozenset({"PAUSED", "WAITING_FOR_SIGNALS", "WAITING_FOR_PERMITS", "STOPPED"})
_SIGNS = {
    "PAUSED": "‖",
    "STOPPED": "■",
    "SKIPPED": "»",
    "UNSATISFIED": "»",
    "DISABLED": "»",
    "COMPLETED_WITH_ERROR": "!",
}


def tone(status: str | None) -> str:
    """The class that colours it: good, bad, busy, warn or still."""
    if status in _GOOD:
        return "good"
    if status in _BAD:
        return "bad"
    if status in _BUSY:
        return "busy"
    return "warn" if status in _WAITING else "still"


def sign(status: str | None) -> str:
    """One character that says it without colour."""
    if status is None:
        return ""
    return _SIGNS.get(status) or {"good": "✓", "bad": "✗", "busy": "▶"}.get(tone(status), "·")


def words(status: str | None) -> str:
    return (status or "not run").replace("_", " ").lower()


def clean(content: object, limit: int = 200) -> Markup:
    """A text of somebody's, on one line, without what could fool a reader, escaped."""
    return escape(shortened(printable(str(content)), limit))


def text(x: float, y: float, content: object, classes: str = "", *, limit: int = 200, anchor: str = "") -> Markup:
    ends = Markup(' text-anchor="{}"').format(anchor) if anchor else Markup("")
    named = Markup(' class="{}"').format(classes) if classes else Markup("")
    return Markup('<text x="{:.1f}" y="{:.1f}"{}{}>{}</text>').format(x, y, named, ends, clean(content, limit))


def title(content: object) -> Markup:
    """What is shown when somebody rests on a mark. The first child of what it is about."""
    return Markup("<title>{}</title>").format(clean(content, 400))


def link(target: str, content: Markup, label: object = "") -> Markup:
    named = Markup(' aria-label="{}"').format(clean(label)) if label else Markup("")
    return Markup('<a href="{}"{}>{}</a>').format(target, named, content)


def rect(x: float, y: float, width: float, height: float, classes: str, inside: Markup | None = None) -> Markup:
    shape = Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="2" class="{}">{}</rect>')
    return shape.format(x, y, max(width, 0.5), max(height, 0.5), classes, inside or Markup(""))


def line(x1: float, y1: float, x2: float, y2: float, classes: str) -> Markup:
    shape = Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>')
    return shape.format(x1, y1, x2, y2, classes)


def joined(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)


def drawing(width: float, height: float, label: str, content: Markup, classes: str = "") -> Markup:
    """The whole, with what it shows in a few words for who cannot see it."""
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" '
        'role="img" aria-label="{2}" class="{3}">{4}</svg>'
    ).format(width, height, clean(label), classes, content)
