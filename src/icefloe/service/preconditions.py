"""Whether something is still as somebody has seen it who wants to change it."""

from __future__ import annotations

from icefloe.errors import IcefloeError


class ChangedError(IcefloeError):
    """It is not as the caller has seen it: somebody else has changed it meanwhile. Nothing was done."""

    code = "server.changed"


def refuse_if_changed(what: str, now: object, seen: object | None) -> None:
    """``seen`` None: the caller does not mind."""
    if seen is not None and seen != now:
        raise ChangedError(
            f"{what} has been changed since you looked: it is {now} now, you have seen {seen}",
            hint="look at it again, and repeat what you wanted if it still makes sense",
        )
