"""Both state databases, for every test that asks for one."""

from __future__ import annotations

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


@pytest.fixture(params=["sqlite", "postgresql"])
def state_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh state database with this program's schema."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/state.db"
        _migrate(url)
        yield url
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.new_database(server.template("icefloe_state", _migrate))
    yield url
    server.drop(url)


@pytest.fixture
def project(state_url: str, tmp_path: Path) -> Iterator[Project]:
    made = make_project(tmp_path / "project", state_url)
    yield made
    made.client.close()
