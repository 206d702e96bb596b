"""Derives ``requirements-run.lock`` from ``requirements.lock``: what `make demo` needs, without what only developing does.

``requirements.lock`` holds every package with its hashes. The other file is a part of it, line by line: the closure of the
package's own dependencies and of what builds it, walked over the metadata of the packages installed in this environment.

    python scripts/lock.py            # write it again
    python scripts/lock.py --check    # exit with 1 when a lock file holds too little or too much
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
WHOLE = ROOT / "requirements.lock"
RUN = ROOT / "requirements-run.lock"
HEADER = "# Written by scripts/lock.py out of requirements.lock: what running needs. Do not edit.\n"
EDITABLE = "editables"
"""What hatchling asks for when it builds an editable package, and does not declare."""
ENVIRONMENTS: tuple[dict[str, str], ...] = tuple(
    {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": machine,
    }
    for python in ("3.11", "3.12", "3.13", "3.14")
    for machine in ("x86_64", "aarch64")
)
"""One lock serves them all: a package is needed when it is on any of them."""


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def for_running() -> list[Requirement]:
    """What ``pyproject.toml`` names for running, and for putting the package into place."""
    declared = project()
    texts = (*declared["project"]["dependencies"], *declared["build-system"]["requires"], EDITABLE)
    return [Requirement(text) for text in texts]


def for_developing() -> list[Requirement]:
    """That, and the extra ``dev`` with the package's other extras that it names."""
    extras = project()["project"]["optional-dependencies"]
    own = [Requirement(text) for text in extras["dev"]]
    named = {extra for item in own if item.name == "icefloe" for extra in item.extras}
    lent = [Requirement(text) for extra in named for text in extras[extra]]
    return [*for_running(), *lent, *(item for item in own if item.name != "icefloe")]


def closure(wanted: Iterable[Requirement]) -> set[str]:
    """The names of all packages that these need, extras included."""
    waiting = [(canonicalize_name(item.name), frozenset(item.extras)) for item in wanted]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        entry = waiting.pop()
        if entry not in seen:
            seen.add(entry)
            waiting.extend(needed_by(*entry))
    return {name for name, _ in seen}


def needed_by(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    try:
        texts = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        raise SystemExit(f"lock: {name} is needed and not installed here; make setup") from None
    for item in map(Requirement, texts):
        if item.marker is None or any(
            item.marker.evaluate({**environment, "extra": extra})
            for environment in ENVIRONMENTS
            for extra in ("", *extras)
        ):
            yield canonicalize_name(item.name), frozenset(item.extras)


def entries(lock: str) -> dict[str, str]:
    """Each package's lines in a lock file, by its name; several entries where versions depend on Python's."""
    blocks: dict[str, str] = {}
    for block in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE):
        if match := re.match(r"([A-Za-z0-9._-]+)==", block):
            name = canonicalize_name(match[1])
            blocks[name] = blocks.get(name, "") + block
    return blocks


def derived() -> str:
    """What ``requirements-run.lock`` has to hold."""
    names = closure(for_running())
    locked = entries(WHOLE.read_text(encoding="utf-8"))
    if absent := sorted(names - locked.keys()):
        raise SystemExit(f"lock: not in {WHOLE.name}: {', '.join(absent)}")
    return HEADER + "".join(block for name, block in locked.items() if name in names)


def problems() -> list[str]:
    """What is wrong with the two lock files."""
    needed = closure(for_developing())
    locked = entries(WHOLE.read_text(encoding="utf-8"))
    lines = [f"{name} is needed and not in {WHOLE.name}" for name in sorted(needed - locked.keys())]
    unused = [name for name, block in locked.items() if name not in needed and used_here(block)]
    lines += [f"{name} is in {WHOLE.name} and nothing needs it" for name in unused]
    if not lines and (not RUN.is_file() or RUN.read_text(encoding="utf-8") != derived()):
        lines.append(f"{RUN.name} is not what running needs; type: python scripts/lock.py")
    return lines


def used_here(block: str) -> bool:
    """Whether an entry is for any of our environments: some are for Windows alone."""
    marker = Requirement(block.partition("\\")[0].strip()).marker
    return marker is None or any(marker.evaluate({**environment, "extra": ""}) for environment in ENVIRONMENTS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say what is wrong")
    if parser.parse_args().check:
        print("\n".join(problems()) or "both lock files hold what is needed, and nothing else")
        return 1 if problems() else 0
    RUN.write_text(derived(), encoding="utf-8")
    print(f"{RUN.name}: {len(entries(derived()))} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
