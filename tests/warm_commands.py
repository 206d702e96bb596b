"""A command for :mod:`tests.unit.test_warm`, to be called in a fork or executed: ``main()`` does what its argument says."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

LEFT_BEHIND: list[str] = []
"""What one fork puts here, no other may see."""


def main() -> int | None:
    match sys.argv[1]:
        case "return":
            return int(sys.argv[2])
        case "exit":
            sys.exit(int(sys.argv[2]))
        case "exit-text":
            sys.exit("said at the end")
        case "raise":
            raise ValueError("a bug of the user's")
        case "nothing":
            return None
        case "tell":
            LEFT_BEHIND.append("something")
            os.environ["LEFT_BEHIND"] = "yes"
            found = {"argv": sys.argv, "cwd": str(Path.cwd()), "env": dict(os.environ), "left": LEFT_BEHIND}
            print(json.dumps({**found, "random": random.random(), "stdin": sys.stdin.read()}))
        case "thread":
            threading.Thread(target=lambda: (time.sleep(0.2), print("from a thread"))).start()
        case "stay":
            print("staying", flush=True)
            Path("staying").touch()
            signal.pause()
        case "fork":
            subprocess.Popen(["/bin/sleep", "300"], start_new_session=True)
            Path("forked").touch()
            signal.pause()
    return None


if __name__ == "__main__":
    sys.exit(main())
