"""The graph as Mermaid text, which Markdown viewers draw."""

from __future__ import annotations

import re
from itertools import count

from icefloe.workflow.drawing.figure import Figure, figure, shortened
from icefloe.workflow.model import Workflow

_SHAPES = {"noop": ("([", "])"), "subworkflow": ("[[", "]]"), "ipcapture": ("[/", "/]"), "ipcommit": ("[\\", "\\]")}


def to_mermaid(workflow: Workflow) -> str:
    """A ``flowchart TD``. Ids are numbered and texts escaped: nothing a user wrote can end a label or add a link."""
    lines = ["flowchart TD"]
    numbers = count()
    _write(figure(workflow), lines, "    ", numbers)
    return "\n".join(lines) + "\n"


def _write(drawn: Figure, lines: list[str], indent: str, numbers: count[int]) -> None:
    names = {key: f"n{next(numbers)}" for key in drawn.boxes}
    for key, box in drawn.boxes.items():
        label = _escaped(box.title) + (
            f"<br/><small>{_escaped(shortened(box.subtitle, 60))}</small>" if box.subtitle else ""
        )
        if box.inner is not None:
            lines.append(f'{indent}subgraph {names[key]}["{label}"]')
            _write(box.inner, lines, indent + "    ", numbers)
            lines.append(f"{indent}end")
        else:
            opening, closing = _SHAPES.get(box.kind, ("[", "]"))
            lines.append(f'{indent}{names[key]}{opening}"{label}"{closing}')
    for arrow in drawn.arrows:
        label = f'|"{_escaped(shortened(arrow.label, 60))}"|' if arrow.label else ""
        lines.append(f"{indent}{names[arrow.source]} -->{label} {names[arrow.target]}")


def _escaped(text: str) -> str:
    """Mermaid's own entities for everything but letters, digits and a few harmless signs."""
    return re.sub(r"[^\w .,/:$(){}=+\-→·…]", lambda found: f"#{ord(found.group())};", text)
