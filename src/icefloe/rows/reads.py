"""What a search has read: Spark's own metrics do not know of it."""

from __future__ import annotations

import threading


class Reads:
    """Rows whose keys were decoded, and the stored bytes of all that was decoded: column chunks, footers and deletion vectors. Added to by
    several threads."""

    def __init__(self) -> None:
        self.rows = 0
        self.bytes = 0
        self._lock = threading.Lock()

    def add(self, rows: int, size: int) -> None:
        with self._lock:
            self.rows += rows
            self.bytes += size
