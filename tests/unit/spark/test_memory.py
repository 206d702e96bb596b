"""How large the local server's heap may become by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from icefloe.spark import memory

GIGABYTE = 1 << 30


@pytest.mark.parametrize(
    ("total", "heap"),
    [(1, "2g"), (8, "2g"), (11.9, "2g"), (12, "3g"), (24, "6g"), (32, "8g"), (512, "8g")],
)
def test_a_quarter_of_what_a_container_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total: float, heap: str
) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(f"{int(total * GIGABYTE)}\n")
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1024 * GIGABYTE // 4096}.__getitem__)
    assert memory.of_the_server([tmp_path / "missing", limit]) == heap


def test_a_container_without_a_limit_has_the_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("max\n")
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 16 * GIGABYTE // 4096}.__getitem__)
    assert memory.of_the_server([limit]) == "4g"
