"""Pictures of a workflow's graph: in the terminal, as Mermaid, as SVG."""

from icefloe.workflow.drawing.mermaid import to_mermaid
from icefloe.workflow.drawing.svg import to_svg
from icefloe.workflow.drawing.terminal import to_terminal

__all__ = ["to_mermaid", "to_svg", "to_terminal"]
