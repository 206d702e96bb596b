"""What workflows, steps and parameters may be called."""

from __future__ import annotations

import re

MAX_LENGTH = 128

_ID = re.compile(r"[A-Za-z0-9_](?:[\w.\-]*[\w.])?\Z", re.ASCII)
_PARAM = re.compile(r"[A-Za-z_][\w.\-]*\Z", re.ASCII)


def is_workflow_id(text: object) -> bool:
    """Letters, digits, ``_ . -``; two dots in a row would look like a way out of a folder."""
    return isinstance(text, str) and len(text) <= MAX_LENGTH and bool(_ID.match(text)) and ".." not in text


def is_step_id(text: object) -> bool:
    """As a workflow's id, without ``__``, which separates a step from its parameter."""
    return isinstance(text, str) and len(text) <= MAX_LENGTH and bool(_ID.match(text)) and "__" not in text


def is_param_name(text: str) -> bool:
    return len(text) <= MAX_LENGTH and bool(_PARAM.match(text))
