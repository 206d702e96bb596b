"""The reference pages that are written out of the program say what the program is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_pages_of_commands_and_errors_are_what_the_program_has() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "generate_reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
