"""Every catalog that the lake must work on: embedded SQLite, SQL over PostgreSQL, and REST over S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from icefloe import config as configuration
from icefloe.config import Config
from icefloe.lake import Lake
from tests.contract.lake.playback import Playback
from tests.postgres import Postgres
from tests.rest_catalog import RestCatalog, rest_catalog

CATALOGS = ("embedded", "postgres", "rest")


@pytest.fixture(scope="session")
def rest_server() -> Iterator[RestCatalog]:
    with rest_catalog() as server:
        yield server


def embedded(root: Path, **sections: Any) -> Config:
    """A project with the embedded catalog, ready to use."""
    (root / configuration.HOME_NAME).mkdir(parents=True, exist_ok=True)
    (root / configuration.HOME_NAME / "catalog.db").touch()
    return configuration.from_dict(sections, root=root)


@pytest.fixture(params=CATALOGS)
def lake_config(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Config]:
    if request.param == "embedded":
        yield embedded(tmp_path)
    elif request.param == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.new_database().replace("+psycopg:", ":")
        yield configuration.from_dict({"catalog": {"type": "sql", "uri": url}}, root=tmp_path)
        server.drop(url)
    else:
        rest: RestCatalog = request.getfixturevalue("rest_server")
        # The server outlives the test: names of the test's own keep it apart.
        own = uuid4().hex[:8]
        yield configuration.from_dict(
            {
                "catalog": {"type": "rest", "uri": rest.uri, "properties": rest.properties},
                "change_tables": {"namespace": f"icdc_{own}", "location": f"{rest.warehouse}-change-tables/{own}"},
            },
            root=tmp_path,
        )


@pytest.fixture
def lake(lake_config: Config) -> Lake:
    return Lake.open(lake_config)


MakeTable = Callable[..., Playback]


@pytest.fixture
def make(lake: Lake) -> MakeTable:
    """Makes tables in a namespace of the test's own."""
    namespace = f"db_{uuid4().hex[:8]}"
    return lambda name="playback", **options: Playback(lake, (namespace, name), **options)


@pytest.fixture
def playback(make: MakeTable) -> Playback:
    return make()
