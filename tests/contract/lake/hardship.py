"""Run in a process with mounts of its own: what the lake does on a full disk, and where it may not write.

    python -m tests.contract.lake.hardship full-disk|read-only-place|read-only-everything FOLDER

Root writes through file modes, so rights are taken away by mounting: a small tmpfs, or a read-only view of a folder. The mounts
are gone with the process. Prints what happened as one JSON line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from icefloe.errors import IcefloeError
from icefloe.lake import Lake
from tests.contract.lake.conftest import embedded
from tests.contract.lake.playback import Playback, rows


def full_disk(lake: Lake, playback: Playback, home: Path) -> dict[str, Any]:
    """Room for the first manifests of a change table, and not for the rest; then room again."""
    place = home / "change-tables"
    place.mkdir()
    _mount("-t", "tmpfs", "-o", "size=32k", "tmpfs", str(place))
    changes = lake.changes(playback.name)
    outcome = attempt(lambda: lake.create_change_table(changes))
    left = [str(one) for one in place.rglob("*")]
    _mount("-o", "remount,size=10m", str(place))
    made = lake.create_change_table(changes)
    return {**outcome, "left": left, "rows_with_room": made.rows}


def read_only_place(lake: Lake, playback: Playback, home: Path) -> dict[str, Any]:
    place = home / "change-tables"
    place.mkdir()
    _read_only(place)
    changes = lake.changes(playback.name)
    return {**attempt(lambda: lake.create_change_table(changes)), "registered": len(lake.change_tables())}


def read_only_everything(lake: Lake, playback: Playback, home: Path) -> dict[str, Any]:
    """Captures still work; what writes is refused."""
    _read_only(home)
    reopened = Lake.open(embedded_again(home))
    changes = reopened.changes(playback.name, columns=["account_id"])
    report = reopened.pin(changes, owner="o", capture="c", mode="auto")
    return {
        "rows": changes.added.rows,
        "refused": report.refused,
        "create": attempt(lambda: reopened.create_change_table(changes)),
        "require": attempt(lambda: reopened.pin(changes, owner="o", capture="c", mode="require")),
    }


def embedded_again(home: Path) -> Any:
    from icefloe import config

    return config.from_dict({}, root=home.parent)


def attempt(act: Callable[[], object]) -> dict[str, Any]:
    try:
        act()
    except IcefloeError as error:
        return {"code": error.code, "hint": error.hint, "message": error.message}
    return {"code": None}


def _read_only(folder: Path) -> None:
    _mount("--bind", str(folder), str(folder))
    _mount("-o", "remount,ro,bind", str(folder))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


SCENES = {"full-disk": full_disk, "read-only-place": read_only_place, "read-only-everything": read_only_everything}


def main() -> None:
    name, folder = sys.argv[1:]
    lake = Lake.open(embedded(Path(folder)))
    playback = Playback(lake, ("db", "playback"))
    for number in range(10):
        playback.append(*rows(number))
    before = playback.files()
    outcome = SCENES[name](lake, playback, Path(folder) / ".icefloe")
    print(json.dumps({**outcome, "source_untouched": playback.files() == before}))


if __name__ == "__main__":
    main()
