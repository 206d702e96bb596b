"""The changelog's sections: what a release does to them, as text in and text out.

The first section is ``## Unreleased``. A released section has its date, ``## 0.1.0 (2026-11-18)``. One without a date, ``## 0.1.0``,
is being prepared: a release adds what is under Unreleased and gives it the date.
"""

from __future__ import annotations

import re
from datetime import date

UNRELEASED = "Unreleased"
HEADING = re.compile(r"^## (.+)$\n*", re.MULTILINE)


class ChangelogError(Exception):
    """The changelog cannot be brought to this release."""


def released(text: str, version: str, day: date) -> str:
    """The changelog with this version's section, dated, below an empty Unreleased."""
    introduction, *parts = HEADING.split(text)
    sections = dict(zip(parts[::2], (body.strip() for body in parts[1::2]), strict=True))
    if next(iter(sections), None) != UNRELEASED:
        raise ChangelogError(f"the first section must be '## {UNRELEASED}'")
    for title in sections:
        if title.startswith(f"{version} ("):
            raise ChangelogError(f"the changelog has '## {title}' already")
    new, prepared = sections.pop(UNRELEASED), sections.pop(version, "")
    between = "\n" if prepared.startswith("-") else "\n\n"  # one list, unless the section is divided into parts
    entries = between.join(filter(None, (new, prepared)))
    if not entries:
        raise ChangelogError(f"there is nothing to release: '## {UNRELEASED}' is empty")
    renewed = {UNRELEASED: "", f"{version} ({day.isoformat()})": entries, **sections}
    return introduction + "\n".join(f"## {title}\n\n{body}".rstrip() + "\n" for title, body in renewed.items())
