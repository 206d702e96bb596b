"""Both state databases, for every test that asks for one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from icefloe.store import migrations
from icefloe.store.database import Database
from tests.postgres import Postgres, running_postgres
from tests.projects import Project, make_project


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


def _migrate(url: str) -> None:
    database = Database(url)
    migrations.upgrade(database)
    database.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("template") / "state.db"
    _migrate(f"sqlite:///{file}")
    return file


@pytest.fixture(params=["sqlite", "postgresql"])
def state_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh state database with this program's schema."""
    if request.param == "sqlite":
        shutil.copyfile(request.getfixturevalue("sqlite_template"), tmp_path / "state.db")
        yield f"sqlite:///{tmp_path}/state.db"
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.lend("icefloe_state", _migrate)
    yield url
    server.give_back(url)


@pytest.fixture
def project(state_url: str, tmp_path: Path) -> Iterator[Project]:
    made = make_project(tmp_path / "project", state_url)
    yield made
    made.client.close()
