"""ETag and If-Match: a change is made to what its maker has seen, or not at all."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Response

from icefloe.server.answers import RequestError

IfMatch = Annotated[
    str | None,
    Header(
        max_length=100,
        description="The `ETag` that was seen. 412 when it has changed since; without it the change is made to whatever is there.",
        examples=['"7"'],
    ),
]


def tag(response: Response, state: object) -> None:
    response.headers["ETag"] = f'"{state}"'


def seen(if_match: str | None) -> str | None:
    """What stands between the quotes; None and ``*``: anything."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/")
    if len(text) < 2 or not (text.startswith('"') and text.endswith('"')):
        raise RequestError(
            "this is not an ETag", where="If-Match", hint='send the ETag as it came, with its quotes: "7"'
        )
    return text[1:-1]


def seen_number(if_match: str | None) -> int | None:
    text = seen(if_match)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise RequestError("this is not an ETag of this", where="If-Match", hint="send the ETag as it came")
    return int(text)
