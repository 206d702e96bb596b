"""Listings: a page of a noun, and the cursor of the next one. No offsets: what is added meanwhile moves nothing.

An answer is ``{"NOUN": [...], "next": "cursor", "count": null}``; the address of the next page is also in the ``Link`` header.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field, create_model

from icefloe.server.answers import RequestError

COUNTED = 1000
"""More than that are ``1000+``: nobody waits for a count over everything."""
LAST_NUMBER = 2**63 - 1
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
After = Annotated[
    str | None,
    Query(max_length=400, description="`next` of the page before: go on after it.", examples=["1041"]),
]
Count = Annotated[
    bool, Query(description="Also say how many there are with these filters: `1000+` when there are more than 1,000.")
]

Item = TypeVar("Item")


def page_model(noun: str, item: type[Any]) -> type[BaseModel]:
    """The schema of a listing."""
    fields: dict[str, Any] = {
        noun: (list[item], ...),  # type: ignore[valid-type]
        "next": (str | None, Field(None, description="Ask with `after` for what follows; null: nothing does.")),
        "count": (str | None, Field(None, description="With `count=true`.", examples=["1000+"])),
    }
    return create_model(f"{item.__name__.removesuffix('View').removesuffix('Record')}Page", **fields)


def page_of(
    request: Request,
    response: Response,
    noun: str,
    items: Sequence[Item],
    limit: int,
    cursor: Callable[[Item], object],
    count: int | None = None,
) -> dict[str, Any]:
    """``items``: one more than ``limit``, where there are more."""
    shown = items[:limit]
    following = str(cursor(shown[-1])) if len(items) > limit else None
    if following is not None:
        response.headers["Link"] = f'<{request.url.include_query_params(after=following)}>; rel="next"'
    counted = None if count is None else f"{COUNTED}+" if count > COUNTED else str(count)
    return {noun: [_plain(item) for item in shown], "next": following, "count": counted}


def number_after(after: str | None) -> int | None:
    """A cursor that is a number."""
    if after is None:
        return None
    if not (after.isascii() and after.isdigit() and int(after) <= LAST_NUMBER):
        raise RequestError("this is not a cursor of this listing", where="after", hint="send `next` of the page before")
    return int(after)


def _plain(item: Any) -> Any:
    return item.to_dict() if hasattr(item, "to_dict") else item
