"""The launchers of a process: a small one for commands, and for each set of modules one that has imported them."""

from __future__ import annotations

import threading

from icefloe.config import Config
from icefloe.engine.processes import Launcher


class Launchers:
    """Shared by the workers of a process, one after another or side by side: importing what a Spark step needs takes seconds.

    A launcher starts when it is first needed. It takes nothing from one attempt to the next; whoever makes this closes it.
    """

    def __init__(self, config: Config | None = None) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._launchers: dict[tuple[str, ...], Launcher] = {}

    def get(self, imports: tuple[str, ...] = ()) -> Launcher:
        """The one that has imported these modules."""
        with self._lock:
            if imports not in self._launchers:
                self._launchers[imports] = Launcher(imports, self._config)
            return self._launchers[imports]

    def close(self) -> None:
        """End them all; one that is asked for later is a new one."""
        with self._lock:
            launchers, self._launchers = self._launchers, {}
        for launcher in launchers.values():
            launcher.close()
