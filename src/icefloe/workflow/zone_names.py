"""Names of time zones, as definitions write them."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo


def is_zone(name: str) -> bool:
    if not re.fullmatch(r"[A-Za-z0-9_+\-/]{1,64}", name) or name.startswith("/"):
        return False
    try:
        ZoneInfo(name)
    except Exception:  # a folder of the zone database, a broken file: none of them is a zone
        return False
    return True
