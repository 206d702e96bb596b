"""The documentation as a site: ``make docs`` builds it into ``build/docs`` and fails at a link that leads nowhere.

The pages are plain Markdown that reads well where the repository is hosted. What a site needs beyond that is added here: the tree of
pages is taken from the lists in ``README.md``, and links to files outside of ``docs`` become plain text.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

from icefloe import __version__  # noqa: E402

project = "Icefloe"
release = version = __version__
root_doc = "README"
extensions = ["myst_parser", "sphinx_copybutton", "sphinxcontrib.mermaid"]
exclude_patterns = ["build"]
html_theme = "furo"
html_title = "Icefloe"
html_show_copyright = False
html_static_path: list[str] = []
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
nitpicky = True

SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
PAGE = re.compile(r"^- \[[^\]]+\]\(([^)#]+)\.md\)", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)]*)?\)")


def tree_of_pages(text: str) -> str:
    """One hidden toctree for each section of the list."""
    parts = SECTION.split(text)
    trees = [
        "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *PAGE.findall(body), "```"])
        for title, body in zip(parts[1::2], parts[2::2], strict=True)
    ]
    return "\n\n".join([text, *trees])


def without_outer_links(text: str, page: Path) -> str:
    def replace(match: re.Match[str]) -> str:
        label, target = match[1], match[2]
        if re.match(r"[a-z]+:", target) or (page.parent / target).resolve().is_relative_to(HERE):
            return match[0]
        return label

    return LINK.sub(replace, text)


def prepare(app: Any, name: str, source: list[str]) -> None:
    text = without_outer_links(source[0], HERE / f"{name}.md")
    source[0] = tree_of_pages(text) if name == root_doc else text


def setup(app: Any) -> None:
    app.connect("source-read", prepare)
