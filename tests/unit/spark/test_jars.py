"""The jar cache, filled by the real Ivy from a repository in a folder."""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from rich.console import Console

from icefloe.config import from_dict
from icefloe.errors import UnreachableError
from icefloe.spark import jars, java, transfer
from icefloe.spark.jars import ChecksumError, Jar

PAUSES = jars._PAUSES
TESTS_LOCK_FILE = Path(__file__).parents[2] / "jars.lock.json"
CONTENT = b"not really a jar, but nobody opens it"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_PAUSES", (0.0,) * len(PAUSES))


@pytest.fixture
def jar() -> Jar:
    return Jar("org.example.floe", "drift_2.13", "1.2.3", hashlib.sha256(CONTENT).hexdigest(), "base", "extra")


@pytest.fixture
def mirror(tmp_path: Path, jar: Jar) -> dict[str, str]:
    folder = tmp_path / "repository" / "org/example/floe" / jar.module / jar.revision
    folder.mkdir(parents=True)
    (folder / jar.file_name).write_bytes(CONTENT)
    (folder / f"{jar.module}-{jar.revision}.pom").write_text(
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{jar.organisation}</groupId>"
        f"<artifactId>{jar.module}</artifactId><version>{jar.revision}</version></project>"
    )
    return {**os.environ, "ICEFLOE_MAVEN_MIRROR": f"file://{tmp_path}/repository/"}


def test_a_jar_is_fetched_once_by_its_coordinates(tmp_path: Path, jar: Jar, mirror: dict[str, str]) -> None:
    cache, said = tmp_path / "cache", []
    [path] = jars.ensure([jar], java.find().launcher, folder=cache, env=mirror, note=said.append)
    assert path == cache / "drift_2.13-1.2.3-extra.jar"
    assert path.read_bytes() == CONTENT
    assert [entry.name for entry in cache.iterdir()] == [path.name]
    jars.ensure([jar], Path("/no/java/needed"), folder=cache, env={}, note=said.append)
    assert len(said) == 1


def test_a_wrong_checksum_is_an_error_and_nothing_is_kept(tmp_path: Path, jar: Jar, mirror: dict[str, str]) -> None:
    other = Jar(jar.organisation, jar.module, jar.revision, "0" * 64, "base", jar.classifier)
    with pytest.raises(ChecksumError, match=jar.sha256):
        jars.ensure([other], java.find().launcher, folder=tmp_path / "cache", env=mirror)
    assert list((tmp_path / "cache").iterdir()) == []


def test_several_processes_may_fill_the_cache_at_once(tmp_path: Path, jar: Jar, mirror: dict[str, str]) -> None:
    cache, launcher = tmp_path / "cache", java.find().launcher
    with ThreadPoolExecutor(3) as pool:
        tasks = [pool.submit(jars.ensure, [jar], launcher, folder=cache, env=mirror) for _ in range(3)]
        assert {task.result()[0].read_bytes() for task in tasks} == {CONTENT}
    assert [entry.name for entry in cache.iterdir()] == [jar.file_name]


def test_a_jar_that_cannot_be_had_is_named_with_the_ways_out(tmp_path: Path, jar: Jar, mirror: dict[str, str]) -> None:
    absent = Jar(jar.organisation, jar.module, "9.9", jar.sha256, "base")
    with pytest.raises(UnreachableError, match=r"org\.example\.floe:drift_2\.13:9\.9") as caught:
        jars.ensure([absent], java.find().launcher, folder=tmp_path / "cache", env=mirror)
    assert "ICEFLOE_MAVEN_MIRROR" in (caught.value.hint or "")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_transfer_that_breaks_is_tried_again_after_longer_and_longer_pauses(
    tmp_path: Path, jar: Jar, mirror: dict[str, str]
) -> None:
    assert list(PAUSES) == sorted(PAUSES) and PAUSES[0] == 0
    breaking = tmp_path / "java"
    tried, launcher = tmp_path / "tried", java.find().launcher
    breaking.write_text(
        f'#!/bin/sh\necho >> {tried}\n[ $(wc -l < {tried}) -ge {len(PAUSES)} ] || exit 1\nexec {launcher} "$@"\n'
    )
    breaking.chmod(0o755)
    said: list[str] = []
    [path] = jars.ensure([jar], breaking, folder=tmp_path / "cache", env=mirror, note=said.append)
    assert path.read_bytes() == CONTENT
    assert [jar.file_name in line and "trying again" in line for line in said[1:]] == [True] * (len(PAUSES) - 1)


def test_what_has_arrived_is_kept_when_something_else_has_not(tmp_path: Path, jar: Jar, mirror: dict[str, str]) -> None:
    absent = Jar(jar.organisation, "ashore", "9.9", "0" * 64, "base")
    cache = tmp_path / "cache"
    with pytest.raises(UnreachableError, match="ashore"):
        jars.ensure([absent, jar], java.find().launcher, folder=cache, env=mirror)
    assert [entry.name for entry in cache.iterdir()] == [jar.file_name]


def test_a_repository_that_does_not_answer_is_asked_again_and_one_that_says_no_is_not(
    tmp_path: Path, jar: Jar, mirror: dict[str, str]
) -> None:
    absent = Jar(jar.organisation, jar.module, "9.9", jar.sha256, "base")
    nobody = {**mirror, "ICEFLOE_MAVEN_MIRROR": "http://127.0.0.1:1/"}
    for env, tries, reason in ((mirror, 1, "not found"), (nobody, len(PAUSES), "Connection refused")):
        said: list[str] = []
        with pytest.raises(UnreachableError, match=reason):
            jars.ensure([absent], java.find().launcher, folder=tmp_path / "cache", env=env, note=said.append)
        assert len(said) == tries


class SlowRepository(ThreadingHTTPServer):
    """Serves ``files``; before the second half of a path in ``gates`` it waits for that path's gate."""

    def __init__(self, files: dict[str, bytes], gates: dict[str, Callable[[], None]]) -> None:
        self.files, self.gates = files, gates
        super().__init__(("127.0.0.1", 0), SlowAnswer)


class SlowAnswer(BaseHTTPRequestHandler):
    server: SlowRepository

    def do_GET(self) -> None:
        content = self.server.files.get(self.path.lstrip("/"))
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        half = len(content) // 2
        self.wfile.write(content[:half])
        self.wfile.flush()
        self.server.gates.get(self.path.lstrip("/"), lambda: None)()
        self.wfile.write(content[half:])

    def do_HEAD(self) -> None:
        known = self.path.lstrip("/") in self.server.files
        self.send_response(200 if known else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def repository(contents: dict[Jar, bytes], gates: dict[Jar, Callable[[], None]]) -> Iterator[dict[str, str]]:
    def place(jar: Jar) -> str:
        return f"{jar.organisation.replace('.', '/')}/{jar.module}/{jar.revision}/{jar.file_name}"

    files = {place(jar): content for jar, content in contents.items()}
    with SlowRepository(files, {place(jar): gate for jar, gate in gates.items()}) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield {**os.environ, "ICEFLOE_MAVEN_MIRROR": f"http://127.0.0.1:{server.server_address[1]}/"}
        finally:
            server.shutdown()
            thread.join()


def sized(name: str, content: bytes) -> Jar:
    return Jar("org.example", name, "1.0", hashlib.sha256(content).hexdigest(), "base", size=len(content))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_jar_enters_the_cache_while_the_others_are_on_their_way_so_a_broken_fetch_goes_on(tmp_path: Path) -> None:
    small, large = b"s" * 1_000, b"l" * 400_000
    first, second = sized("first", small), sized("second", large)
    cache = tmp_path / "cache"

    class Killed(BaseException):
        pass

    def broken_off(arrived: int) -> None:
        if (cache / first.file_name).is_file():
            raise Killed

    with repository({first: small, second: large}, {}) as env:
        gates = {second: lambda: until(lambda: not list(cache.glob(".fetch-*")))}
        with repository({first: small, second: large}, gates) as slow, pytest.raises(Killed):
            jars._fetch([first, second], cache, java.find().launcher, slow, lambda line: None, broken_off)
        assert [entry.name for entry in cache.iterdir()] == [first.file_name]
        said: list[str] = []
        jars.ensure([first, second], java.find().launcher, folder=cache, env=env, note=said.append)
    assert second.file_name in said[0] and first.file_name not in said[0]
    assert (cache / second.file_name).read_bytes() == large


def test_without_a_terminal_a_long_fetch_says_now_and_then_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "LINE_SECONDS", 0.0)
    content = b"l" * 3_000_000
    jar, said = sized("large", content), list[str]()
    half_way = f"  {len(content) / 2e6:.0f} of 3 MB"
    with repository({jar: content}, {jar: lambda: until(lambda: half_way in said)}) as env:
        jars.ensure([jar], java.find().launcher, folder=tmp_path / "cache", env=env, note=said.append)
    assert said[0].startswith("fetching large-1.0.jar (3 MB) into")
    assert half_way in said


def test_on_a_terminal_a_bar_says_how_far_the_fetch_is() -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=100)
    with transfer.bar(64_000_000, screen) as update:
        update(16_000_000)
    assert isinstance(screen.file, io.StringIO)
    assert "16.0/64.0 MB" in screen.file.getvalue()


def test_what_a_killed_fetch_left_behind_is_cleared_and_a_living_one_is_left_alone(
    tmp_path: Path, jar: Jar, mirror: dict[str, str]
) -> None:
    cache = tmp_path / "cache"
    dead, living = cache / ".fetch-dead", cache / ".fetch-living"
    for folder in (dead, living):
        folder.mkdir(parents=True)
        (folder / "lock").touch()
    with (living / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        jars.ensure([jar], java.find().launcher, folder=cache, env=mirror)
        assert {entry.name for entry in cache.iterdir()} == {living.name, jar.file_name}


def test_a_changed_file_in_the_cache_is_found(tmp_path: Path, jar: Jar) -> None:
    (tmp_path / jar.file_name).write_bytes(CONTENT)
    assert jars.verify([jar], tmp_path) == []
    (tmp_path / jar.file_name).write_bytes(CONTENT + b"!")
    assert jars.verify([jar], tmp_path) == [jar]


def test_the_locked_list_is_complete_and_well_formed() -> None:
    found = jars.locked()
    assert {jar.need for jar in found} == {"base", "local", "postgres", "s3"}
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in found)
    assert all(jar.size > 0 for jar in (*found, *jars.locked(TESTS_LOCK_FILE)))
    assert len({jar.file_name for jar in found}) == len(found)


def test_only_the_jars_that_the_configuration_uses_are_required() -> None:
    def needed(catalog: dict[str, object]) -> frozenset[str]:
        return jars.needs(from_dict({"catalog": catalog}, root=Path("/p")))

    assert needed({}) == {"base", "local"}
    assert needed({"uri": "postgresql://jo@db/lake"}) == {"base", "local", "postgres"}
    assert needed({"warehouse": "s3://b/w"}) == {"base", "s3"}
    assert needed({"type": "rest", "uri": "http://c", "properties": {"s3.endpoint": "http://s"}}) == {"base", "s3"}
    assert needed({"type": "glue", "warehouse": "s3://b/w"}) == {"base", "s3"}


@pytest.mark.parametrize(
    ("env", "folder"),
    [({"ICEFLOE_JARS": "/a/b"}, "/a/b"), ({"XDG_CACHE_HOME": "/cache"}, "/cache/icefloe/jars")],
)
def test_the_cache_is_where_the_environment_says(env: dict[str, str], folder: str) -> None:
    assert jars.cache_folder(env) == Path(folder)
