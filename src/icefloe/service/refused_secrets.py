"""Which ``$ENV{…}`` of a definition the project does not allow, and where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from icefloe.config import Config
from icefloe.credentials import SecretRefusedError, refusal
from icefloe.workflow.places import Places
from icefloe.workflow.problems import Position, Problem
from icefloe.workflow.versions import Packed


def refused_secrets(
    config: Config, packed: Packed, file: Path, places: Places, text: str | None = None
) -> Iterator[Problem]:
    """One problem for each name. ``text``: what the file says, where there is no such file here. Its place is the first text that names it: the definition's own, or a file of it."""
    version = packed.version
    for name in sorted(version.secrets(packed.contents.__getitem__)):
        refused = refusal(config, name)
        if refused is not None:
            place = _place(name, packed, file, text) or places.workflow
            yield Problem(SecretRefusedError.code, refused.reason, place, refused.hint)


def _place(name: str, packed: Packed, file: Path, text: str | None) -> Position | None:
    reference = re.compile(rf"\$ENV\{{\s*{name}\s*\}}")
    own = file.read_text(encoding="utf-8-sig", errors="replace") if text is None else text
    texts = {str(file): own}
    for key, content in packed.version.file_texts(packed.contents.__getitem__).items():
        kind, _, path = key.partition(":")
        texts[str(file.parent / path) if kind == "file" else f"{kind}://{path}"] = content
    for place, content in texts.items():
        match = reference.search(content)
        if match is not None:
            before = content[: match.start()]
            return Position(place, before.count("\n") + 1, match.start() - before.rfind("\n"))
    return None
