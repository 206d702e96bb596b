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


# Formatted as texts, and marked as safe afterwards: a page has thousands of these, and Markup.format takes most of its time. Every
# text of somebody's goes through clean() or escape(); classes and numbers are the program's own.


def clean(content: object, limit: int = 200) -> Markup:
    """A text of somebody's, on one line, without what could fool a reader, escaped."""
    plain = str(content)
    if not plain.isprintable() or len(plain) * (1 if plain.isascii() else 2) > limit:
        plain = shortened(printable(plain), limit)
    return escape(plain)


def text(x: float, y: float, content: object, classes: str = "", *, limit: int = 200, anchor: str = "") -> Markup:
    ends = f' text-anchor="{anchor}"' if anchor else ""
    named = f' class="{classes}"' if classes else ""
    return Markup(f'<text x="{x:.1f}" y="{y:.1f}"{named}{ends}>{clean(content, limit)}</text>')


def title(content: object) -> Markup:
    """What is shown when somebody rests on a mark. The first child of what it is about."""
    return Markup(f"<title>{clean(content, 400)}</title>")


def link(target: str, content: Markup, label: object = "") -> Markup:
    named = f' aria-label="{clean(label)}"' if label else ""
    return Markup(f'<a href="{escape(target)}"{named}>{content}</a>')


def rect(x: float, y: float, width: float, height: float, classes: str, inside: Markup | None = None) -> Markup:
    size = f'width="{max(width, 0.5):.1f}" height="{max(height, 0.5):.1f}"'
    return Markup(f'<rect x="{x:.1f}" y="{y:.1f}" {size} rx="2" class="{classes}">{inside or ""}</rect>')


def line(x1: float, y1: float, x2: float, y2: float, classes: str) -> Markup:
    return Markup(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{classes}"/>')


def joined(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)


def drawing(width: float, height: float, label: str, content: Markup, classes: str = "") -> Markup:
    """The whole, with what it shows in a few words for who cannot see it."""
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" '
        'role="img" aria-label="{2}" class="{3}">{4}</svg>'
    ).format(width, height, clean(label), classes, content)
