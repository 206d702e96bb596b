"""``icefloe demo`` from beginning to end, small."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
def test_both_ways_come_to_the_same_tables_and_the_incremental_one_reads_less(tmp_path: Path) -> None:
    icefloe = Path(sys.executable).with_name("icefloe")
    # As many days as the lookback has: with fewer it reads less than its window.
    sizes = ["--days", "2", "--history", "14", "--events-per-day", "2000"]
    done = subprocess.run(
        [icefloe, "demo", *sizes, "--picture", str(tmp_path / "demo.svg"), "--output", "json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["equal"] is True
    assert [day["late_rows"] > 0 for day in found["days"]] == [True, True]
    assert 0 < found["incremental"]["rows"] < found["lookback"]["rows"]
    picture = (tmp_path / "demo.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg") and all(word in picture for word in ("lookback", "incremental", "ratio"))
