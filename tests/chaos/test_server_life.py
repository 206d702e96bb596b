"""The life of the project's server: who starts it, who ends it, and what a kill at a bad moment leaves.

Races are run by the dozen against a stand-in for Java, a small program that opens the port after a moment; what these tests are
about (locks, records, process identity, the watchdog) is the real thing. The last tests start the real Spark.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icefloe.config import Config, from_dict
from icefloe.service.client import Client as IcefloeClient
from icefloe.spark import server
from icefloe.spark.failure import SparkUnreachableError, short_errors
from icefloe.spark.server import SparkServerError
from icefloe.spark.server_process import ServerProcess
from icefloe.spark.server_record import ServerRecord
from icefloe.spark.session import connect
from tests.chaos.planned_batches import PlannedArena
from tests.chaos.spark_batches import new_state
from tests.projects import Project

STAND_IN = """\
#!{python}
import os, re, socket, sys, time
text = open(sys.argv[1][1:], encoding="utf-8").read()
if os.environ.get("SPARK_STAND_IN_FAILS"):
    sys.exit("Error: Invalid maximum heap size: -Xmx99999g")
time.sleep(float(os.environ.get("STAND_IN_DELAY", "0.1")))
port = int(re.search(r"binding.port=(\\d+)", text)[1])
listener = socket.create_server(("127.0.0.1", port))
while True:
    listener.accept()[0].close()
"""

ENSURE = """\
import sys, time
from pathlib import Path
from icefloe.config import from_dict
from icefloe.spark import server
import json
config = from_dict(json.loads(sys.argv[2]), root=Path(sys.argv[1]))
lease = server.ensure(config)
print(lease.record.pid, flush=True)
time.sleep(float(sys.argv[3]))
"""


def eventually(what: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.02)


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17.0.1"\n')
    program = home / "bin" / "java"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    return {"spark": {"java_home": str(home)}}


@pytest.fixture
def config(tmp_path: Path, settings: dict[str, object]) -> Iterator[Config]:
    loaded = from_dict(settings, root=tmp_path / "project")
    yield loaded
    server.stop(loaded)


class Client:
    """Another process that asks for the server and holds on to it."""

    def __init__(self, config: Config, settings: dict[str, object], *, holds: float = 60, **env: str) -> None:
        command = [sys.executable, "-c", ENSURE, str(config.root), json.dumps(settings), str(holds)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **env})

    def server_pid(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def record(config: Config) -> ServerRecord:
    found = server.folder_of(config).read()
    assert found is not None
    return found


def test_of_many_processes_that_need_a_server_at_once_one_starts_it(
    config: Config, settings: dict[str, object]
) -> None:
    clients = [Client(config, settings) for _ in range(6)]
    try:
        assert len({client.server_pid() for client in clients}) == 1
    finally:
        for client in clients:
            client.kill()


def test_the_server_survives_the_process_that_started_it(config: Config, settings: dict[str, object]) -> None:
    client = Client(config, settings)
    pid = client.server_pid()
    client.kill()
    lease = server.ensure(config)
    assert lease.record.pid == pid
    lease.release()


def test_a_dead_server_is_replaced(config: Config) -> None:
    first = server.ensure(config)
    first.record.process.signal(signal.SIGKILL)
    eventually(lambda: not first.record.process.alive())
    second = server.ensure(config)
    assert second.record.pid != first.record.pid
    assert second.record.process.alive()
    assert second.record.token != first.record.token


def test_whoever_comes_after_a_killed_starter_gets_the_server_that_is_still_starting(
    config: Config, settings: dict[str, object]
) -> None:
    starter = Client(config, settings, STAND_IN_DELAY="2")
    eventually(lambda: server.folder_of(config).read() is not None)
    starting = record(config)
    starter.kill()
    assert not server.status(config).ready
    lease = server.ensure(config)
    assert lease.record.pid == starting.pid
    assert server.status(config).ready


@pytest.mark.parametrize("moment", [0.0, 0.05, 0.1, 0.2, 0.3, 0.5])
def test_a_starter_killed_at_any_moment_leaves_at_most_one_server(
    config: Config, settings: dict[str, object], moment: float
) -> None:
    starter = Client(config, settings)
    folder = server.folder_of(config).path
    eventually((folder / "start.lock").exists)
    time.sleep(moment)  # the moment is the parameter, not a wait
    starter.kill()
    lease = server.ensure(config)
    lease.release()
    assert running_in(folder) == [lease.record.pid]


def running_in(folder: Path) -> list[int]:
    """Servers of this project by their command line: an independent witness."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if any(word == f"@{folder}/server.args" for word in words):
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', "\x00\xff"])
def test_a_record_that_cannot_be_read_is_as_good_as_none(config: Config, content: str) -> None:
    folder = server.folder_of(config)
    folder.make()
    folder.record_file.write_text(content)
    assert not server.status(config).running
    assert server.ensure(config).record.process.alive()


def test_a_recycled_process_id_is_never_killed(config: Config) -> None:
    innocent = subprocess.Popen(["sleep", "60"])
    try:
        folder = server.folder_of(config)
        folder.make()
        folder.write(ServerRecord(innocent.pid, "another boot/12345", 1, "t", "s", time.time()))
        assert not server.status(config).running
        assert server.stop(config) is False
        assert server.ensure(config).record.pid != innocent.pid
        server.stop(config)
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


def test_token_and_log_are_readable_by_their_owner_only(config: Config) -> None:
    server.ensure(config)
    folder = server.folder_of(config)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    for file in (folder.record_file, folder.log):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not folder.arguments.exists(), "the argument file with its secrets is gone once the server is up"
    command = Path(f"/proc/{record(config).pid}/cmdline").read_bytes().decode()
    assert record(config).token not in command
    assert record(config).token not in repr(record(config))


def test_an_unused_server_ends_and_a_used_one_does_not(tmp_path: Path, settings: dict[str, object]) -> None:
    settings = {"spark": {**settings["spark"], "idle_minutes": 0.01}}  # type: ignore[dict-item]
    config = from_dict(settings, root=tmp_path / "project")
    lease = server.ensure(config)
    used_until = time.monotonic() + 2
    while time.monotonic() < used_until:  # more than three times the idle time
        assert server.status(config).in_use
        assert lease.record.process.alive()
        time.sleep(0.05)
    lease.release()
    eventually(lambda: not lease.record.process.alive())
    assert not server.status(config).running
    eventually(lambda: server.folder_of(config).read() is None)


def test_a_killed_client_does_not_keep_the_server_in_use(config: Config, settings: dict[str, object]) -> None:
    client = Client(config, settings)
    client.server_pid()
    assert server.status(config).in_use
    client.kill()
    assert not server.status(config).in_use


def test_a_killed_watchdog_is_replaced_and_the_new_one_ends_the_server(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    settings = {"spark": {**settings["spark"], "idle_minutes": 0.02}}  # type: ignore[dict-item]
    config = from_dict(settings, root=tmp_path / "project")
    lease = server.ensure(config)
    stat_fields = Path(f"/proc/{lease.record.pid}/stat").read_text().rpartition(")")[2].split()
    watchdog = ServerProcess.of(int(stat_fields[1]))
    assert watchdog is not None
    watchdog.signal(signal.SIGKILL)
    eventually(lambda: not watchdog.alive())
    again = server.ensure(config)
    assert again.record.pid == lease.record.pid
    lease.release()
    again.release()
    eventually(lambda: not again.record.process.alive())


def test_a_changed_configuration_restarts_the_server_when_nobody_else_uses_it(
    config: Config, settings: dict[str, object]
) -> None:
    first = server.ensure(config)
    changed = from_dict({**settings, "catalog": {"name": "other"}}, root=config.root)
    said: list[str] = []
    kept = server.ensure(changed, note=said.append)
    assert kept.record.pid == first.record.pid
    assert "is in use" in said[-1]
    first.release()
    kept.release()
    restarted = server.ensure(changed, note=said.append)
    assert restarted.record.pid != first.record.pid
    assert not first.record.process.alive()
    assert any("restarting" in word for word in said)


def test_a_start_that_fails_tells_the_cause_and_leaves_nothing(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_STAND_IN_FAILS", "1")
    with pytest.raises(SparkServerError, match="Invalid maximum heap size"):
        server.ensure(config)
    assert server.folder_of(config).read() is None
    assert running_in(server.folder_of(config).path) == []
    monkeypatch.delenv("SPARK_STAND_IN_FAILS")
    assert server.ensure(config).record.process.alive()


def test_an_attempt_never_starts_a_server_itself_but_asks_the_worker(
    config: Config, settings: dict[str, object]
) -> None:
    client = Client(config, settings, ICEFLOE_ATTEMPT="run/step/1/1")
    folder = server.folder_of(config)
    try:
        eventually(folder.request.exists)
        assert running_in(folder.path) == []
        assert server.start_if_requested(config)
        assert client.server_pid() == record(config).pid
        assert parents(record(config).pid).isdisjoint({client.process.pid})
        assert not server.start_if_requested(config), "a request is answered once"
    finally:
        client.kill()


def test_an_attempt_whose_worker_cannot_start_the_server_is_told_why(
    config: Config, settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_STAND_IN_FAILS", "1")
    program = [sys.executable, "-c", ENSURE, str(config.root), json.dumps(settings), "0"]
    asking = subprocess.Popen(
        program, stderr=subprocess.PIPE, text=True, env={**os.environ, "ICEFLOE_ATTEMPT": "run/step/1/1"}
    )
    eventually(server.folder_of(config).request.exists)
    with pytest.raises(SparkServerError, match="Invalid maximum heap size"):
        server.start_if_requested(config)
    _, errors = asking.communicate(timeout=30)
    assert asking.returncode != 0
    assert "Invalid maximum heap size" in errors


def parents(pid: int) -> set[int]:
    """A process and all it descends from."""
    line = {pid}
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        line.add(pid)
    return line


SHARED = """
Workflow:
  id: shared
  retry: {{error: 0, platform: 0}}
  jobs:
    - job:
        id: asks
        type: Shell
        shell:
          script: |
            {python} {script} {root} '{settings}' 0
"""


def test_a_server_that_a_shell_step_needed_first_survives_the_step(
    config: Config, settings: dict[str, object], tmp_path: Path
) -> None:
    """As with ``icefloe sql`` in a script: whatever attempts share belongs to none of them."""
    script = tmp_path / "ask.py"
    script.write_text(ENSURE)
    config.home.mkdir(parents=True)
    project = Project(config, IcefloeClient(config))
    try:
        project.push(
            SHARED.format(python=sys.executable, script=script, root=config.root, settings=json.dumps(settings))
        )
        for _ in range(2):
            run = project.execute("shared")
            assert run.status == "SUCCEEDED", project.log(run.run_id, "asks")
            assert project.log(run.run_id, "asks").split()[-1] == str(record(config).pid)
            assert record(config).process.alive()
    finally:
        project.client.close()


def test_a_server_that_was_used_a_moment_ago_is_not_idle(tmp_path: Path, settings: dict[str, object]) -> None:
    """A worker asks before it launches a step, and the step's process holds on to the server a moment later."""
    settings = {"spark": {**settings["spark"], "idle_minutes": 0.02}}  # type: ignore[dict-item]
    config = from_dict(settings, root=tmp_path / "project")
    lease = server.ensure(config)
    used_until = time.monotonic() + 4
    while time.monotonic() < used_until:
        lease.release()
        assert lease.record.process.alive()
        time.sleep(0.01)
        lease = server.ensure(config)
    lease.release()
    eventually(lambda: not lease.record.process.alive())


def test_stopping_twice_is_fine_and_says_so(config: Config) -> None:
    assert server.stop(config) is False
    server.ensure(config)
    assert server.stop(config) is True
    assert server.stop(config) is False


def test_the_watchdog_is_a_small_process_that_never_loads_spark() -> None:
    program = textwrap.dedent(
        """
        import sys
        import icefloe.spark.watchdog
        heavy = {"pyspark", "pydantic", "pyiceberg", "sqlglot", "typer"} & set(sys.modules)
        sys.exit(f"loaded {heavy}" if heavy else 0)
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Config]:
    from tests.spark_server import prepare

    config = prepare(tmp_path_factory.mktemp("project with a space"))
    yield config
    server.stop(config)


def test_a_client_whose_server_dies_gets_a_short_error_soon_and_the_next_one_a_new_server(real: Config) -> None:
    session = connect(real)
    assert session.sql("SELECT 1").collect()[0][0] == 1
    dead = record(real)
    dead.process.signal(signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(SparkUnreachableError), short_errors():
        session.sql("SELECT 2").collect()
    assert time.monotonic() - began < 30
    again = connect(real)
    assert again.sql("SELECT 3").collect()[0][0] == 3
    assert record(real).pid != dead.pid
    again.stop()


def test_a_planned_write_whose_server_dies_is_repeated_on_a_new_one(real: Config, tmp_path: Path) -> None:
    """No retry for errors of the user's is left to it: what happens to the server is none."""
    arena = PlannedArena.make(real, connect(real), new_state(tmp_path))
    try:
        arena._finish(arena.start())
        arena.killed_server_at("search.found", tmp_path)
        assert arena.searches() == 1
    finally:
        arena.close()


def test_a_wrong_token_is_refused(real: Config) -> None:
    connect(real).stop()
    address = f"sc://localhost:{record(real).port}/;token=wrong"
    stranger = from_dict({"spark": {"remote": address}}, root=real.root)
    with pytest.raises(Exception, match="refused the token") as caught:
        connect(stranger)
    assert "wrong" not in str(caught.value)
