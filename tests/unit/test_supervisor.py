"""The supervisor process: what it does to a step's command, whatever that command does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.engine import processes
from icefloe.engine.processes import AttemptLink, Launcher, SupervisedJob
from icefloe.engine.supervisor import MASK, Masker, SegmentedLog
from icefloe.steps.contract import ProcessResult
from tests.projects import wait_until

HEAD = TAIL = 128 * 1024
ATTEMPT = "test/step/1/1"


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    made = Launcher()
    made.start_if_down()
    yield made
    made.close()


@pytest.fixture
def launch(launcher: Launcher, tmp_path: Path) -> Iterator[Callable[..., AttemptLink]]:
    links: list[AttemptLink] = []

    def start(script: str, **options: Any) -> AttemptLink:
        settings: dict[str, Any] = {
            "argv": ("/bin/bash", "-c", script),
            "env": {**os.environ, "ICEFLOE_ATTEMPT": ATTEMPT},
            "cwd": str(tmp_path),
            "folder": str(tmp_path),
            "lease_until": time.monotonic() + 300,
            "timeout": None,
            "grace": 0.5,
            "log_head": HEAD,
            "log_tail": TAIL,
            "secrets": (),
        }
        links.append(launcher.launch(SupervisedJob(**{**settings, **options})))
        return links[-1]

    yield start
    for link in links:
        link.close()
    wait_until(lambda: not processes._carrying(f"ICEFLOE_ATTEMPT={ATTEMPT}".encode()))


def result(link: AttemptLink, seconds: float = 60.0) -> ProcessResult:
    link.socket.settimeout(seconds)
    while True:
        messages, gone = link.messages()
        for message in messages:
            if "ended" in message:
                return processes.result_of(message["ended"])
        assert not gone, messages


def log(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("log.*")))


def test_output_of_both_streams_is_kept_and_the_exit_code_told(
    launch: Callable[..., AttemptLink], tmp_path: Path
) -> None:
    assert result(launch("echo out; echo err >&2; exit 7")) == ProcessResult(7)
    assert sorted(log(tmp_path).split()) == [b"err", b"out"]
    assert processes.read_result(tmp_path) == ProcessResult(7)


def test_of_a_flood_of_output_the_start_and_the_end_are_kept(
    launch: Callable[..., AttemptLink], tmp_path: Path
) -> None:
    assert result(launch("echo first; head -c 100000000 /dev/zero; echo; echo last")).exit_code == 0
    kept = log(tmp_path)
    assert kept.startswith(b"first\n")
    assert kept.endswith(b"\nlast\n")
    assert len(kept) <= HEAD + TAIL + 64 * 1024


def test_binary_output_is_kept_as_it_is(launch: Callable[..., AttemptLink], tmp_path: Path) -> None:
    assert result(launch(r"printf '\377\000\376'")).exit_code == 0
    assert log(tmp_path) == b"\xff\x00\xfe"


def test_what_a_command_leaves_behind_in_the_background_is_ended_with_it(
    launch: Callable[..., AttemptLink], tmp_path: Path
) -> None:
    script = "(setsid nohup bash -c 'echo $$ > daemon; trap \"\" TERM HUP; sleep 300' >/dev/null 2>&1 &) ; while [ ! -s daemon ]; do sleep 0.01; done"
    assert result(launch(script)).exit_code == 0
    assert not psutil.pid_exists(int((tmp_path / "daemon").read_text()))


def test_a_command_that_overstays_its_timeout_is_ended_even_if_it_ignores_the_polite_signal(
    launch: Callable[..., AttemptLink],
) -> None:
    began = time.monotonic()
    found = result(launch("trap '' TERM; while true; do sleep 0.05; done", timeout=0.3))
    assert (found.reason, found.exit_code) == ("timeout", -9)
    assert time.monotonic() - began >= 0.8


def test_a_command_may_clean_up_when_it_is_cancelled(launch: Callable[..., AttemptLink], tmp_path: Path) -> None:
    link = launch(
        "trap 'echo cleaned > cleaned; exit 3' TERM; touch ready; while true; do sleep 0.02; done", grace=20.0
    )
    wait_until((tmp_path / "ready").exists)
    link.cancel()
    assert result(link) == ProcessResult(3, "cancelled")
    assert (tmp_path / "cleaned").exists()


def test_a_lease_that_runs_out_ends_the_command_at_once(launch: Callable[..., AttemptLink]) -> None:
    found = result(launch("trap '' TERM; sleep 60", lease_until=time.monotonic() + 0.3, grace=60.0))
    assert found.reason == "lease"


def test_a_lease_that_is_extended_lets_it_go_on(launch: Callable[..., AttemptLink]) -> None:
    link = launch("sleep 0.8", lease_until=time.monotonic() + 0.4)
    link.extend(time.monotonic() + 60)
    assert result(link) == ProcessResult(0)


def test_when_the_worker_is_gone_everything_is_ended_and_the_result_left_for_the_next(
    launch: Callable[..., AttemptLink], tmp_path: Path
) -> None:
    link = launch("echo $$ > pid; sleep 60 & sleep 61")
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    assert processes.supervisor_lives(tmp_path)
    link.close()
    wait_until(lambda: not processes.supervisor_lives(tmp_path))
    found = processes.read_result(tmp_path)
    assert found is not None
    assert found.reason == "worker-gone"


def test_a_command_that_cannot_be_started_is_told_with_the_reason(launch: Callable[..., AttemptLink]) -> None:
    found = result(launch("", argv=("/no/such/program",)))
    assert "No such file" in (found.error or "")
    found = result(launch("true", cwd="/no/such/folder"))
    assert "/no/such/folder" in (found.error or "")


def test_secrets_are_masked_also_when_they_arrive_in_pieces(launch: Callable[..., AttemptLink], tmp_path: Path) -> None:
    link = launch("printf 'a hunt'; sleep 0.2; printf 'er2 b\\n'; echo hunter2hunter2", secrets=("hunter2",))
    assert result(link).exit_code == 0
    assert log(tmp_path) == b"a *** b\n******\n"


@given(st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=4), st.text("abc", max_size=60), st.data())
def test_masking_does_not_depend_on_how_the_stream_is_cut(secrets: list[str], text: str, data: st.DataObject) -> None:
    whole = Masker([secret.encode() for secret in secrets])
    expected = whole.feed(text.encode()) + whole.end()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b].encode() for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    masker = Masker([secret.encode() for secret in secrets])
    assert b"".join(masker.feed(piece) for piece in pieces) + masker.end() == expected
    for piece in expected.split(MASK):
        assert not any(secret.encode() in piece for secret in secrets)


@given(st.lists(st.integers(1, 200_000), max_size=12))
def test_a_log_keeps_its_first_and_last_bytes(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    folder = tmp_path_factory.mktemp("log")
    written = SegmentedLog(str(folder), HEAD, TAIL)
    stream = b"".join(bytes([65 + n]) * size for n, size in enumerate(sizes))
    for n, size in enumerate(sizes):
        written.write(bytes([65 + n]) * size)
    kept = log(folder)
    if len(stream) <= HEAD + TAIL:
        assert kept == stream
    assert kept[:HEAD] == stream[:HEAD]
    assert stream.endswith(kept[HEAD:] if len(kept) > HEAD else kept)
    assert len(kept) <= HEAD + TAIL + 64 * 1024
