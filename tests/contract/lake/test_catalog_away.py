"""A catalog that is away, hangs, comes back, or will not: told soon, by its own error, without secrets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from icefloe import config as configuration
from icefloe.config import Config
from icefloe.errors import ConfigError, IcefloeError, UnreachableError
from icefloe.lake import Lake, catalog
from icefloe.lake.errors import CatalogRefusedError
from tests.contract.lake.door import Door, door
from tests.contract.lake.playback import Playback, rows
from tests.postgres import Postgres
from tests.rest_catalog import RestCatalog

SOON = 15.0


@pytest.fixture(params=["postgres", "rest"])
def behind_a_door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Config, Door]]:
    """A catalog that is reached through a door."""
    if request.param == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.new_database().replace("+psycopg:", ":")
        with door("127.0.0.1", server.port) as opened:
            shown = url.replace(f":{server.port}/", f":{opened.port}/").replace("postgres@", "postgres:s3cret@")
            data = {"catalog": {"type": "sql", "uri": f"{shown}?connect_timeout=2"}}
            yield configuration.from_dict(data, root=tmp_path), opened
        server.drop(url)
        return
    rest: RestCatalog = request.getfixturevalue("rest_server")
    with door("127.0.0.1", urlsplit(rest.uri).port or 0) as opened:
        data = {
            "catalog": {"type": "rest", "uri": f"http://127.0.0.1:{opened.port}", "properties": rest.properties},
            "change_tables": {"location": f"{rest.warehouse}-change-tables/away"},
        }
        yield configuration.from_dict(data, root=tmp_path), opened


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_REST_SECONDS", (2, 2))


def every_verb(lake: Lake, playback: Playback) -> list[object]:
    return [
        lambda: lake.changes(playback.identifier),
        lake.change_tables,
        lambda: lake.drop_change_table("x"),
        lambda: lake.set_checkpoint_tag(playback.name, consumer="c", snapshot_id=1),
        lake.clean_change_tables,
    ]


def soon(act: object) -> UnreachableError:
    began = time.monotonic()
    with pytest.raises(UnreachableError) as raised:
        act()  # type: ignore[operator]
    assert time.monotonic() - began < SOON
    assert raised.value.retryable
    assert raised.value.hint
    assert "s3cret" not in str(raised.value)
    return raised.value


def test_a_catalog_that_went_away_is_unreachable_whatever_is_asked(behind_a_door: tuple[Config, Door]) -> None:
    config, opened = behind_a_door
    lake = Lake.open(config)
    playback = Playback(lake, (f"db_{time.time_ns()}", "t"))
    playback.append(*rows(1))
    changes = lake.changes(playback.identifier)
    opened.shut()
    for verb in every_verb(lake, playback):
        soon(verb)
    soon(lambda: lake.pin(changes, owner="o", capture="c", mode="auto"))
    soon(lambda: Lake.open(config))


@pytest.mark.usefixtures("impatient")
def test_a_catalog_that_hangs_is_unreachable_and_found_again_when_it_answers(
    behind_a_door: tuple[Config, Door],
) -> None:
    config, opened = behind_a_door
    lake = Lake.open(config)
    playback = Playback(lake, (f"db_{time.time_ns()}", "t"))
    head = playback.append(*rows(1))
    opened.be_silent()
    soon(lambda: lake.changes(playback.identifier))
    soon(lambda: Lake.open(config))
    opened.answer_again()
    assert lake.changes(playback.identifier).to_snapshot == head


def test_a_restarted_database_is_found_again_by_a_lake_that_was_open(behind_a_door: tuple[Config, Door]) -> None:
    config, opened = behind_a_door
    lake = Lake.open(config)
    playback = Playback(lake, (f"db_{time.time_ns()}", "t"))
    head = playback.append(*rows(1))
    opened.answer_again()  # cuts every connection there is
    assert lake.changes(playback.identifier).to_snapshot == head


def test_rights_that_are_missing_are_a_refusal_and_not_an_absence(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.new_database().replace("+psycopg:", ":")
    owner = Lake.open(configuration.from_dict({"catalog": {"uri": url}}, root=tmp_path))
    playback = Playback(owner, ("db", "t"))
    playback.append(*rows(1))
    database = url.rsplit("/", 1)[1]
    role = f"reader_{database}"
    postgres.execute(f"CREATE ROLE {role} LOGIN", database)
    postgres.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}", database)
    try:
        config = configuration.from_dict({"catalog": {"uri": url.replace("postgres@", f"{role}@")}}, root=tmp_path)
        reader = Lake.open(config)
        changes = reader.changes("db.t")
        report = reader.pin(changes, owner="o", capture="c", mode="auto")
        assert report.branch is None
        assert "permission denied" in (report.refused or "")
        with pytest.raises(CatalogRefusedError):
            reader.create_change_table(changes)
        assert owner.change_tables() == []
        assert not list((tmp_path / ".icefloe" / "change-tables").iterdir())
    finally:
        postgres.drop(url)
        postgres.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize(
    ("catalog_section", "error"),
    [
        ({"type": "sql", "uri": "sqlite:///nowhere.db"}, ConfigError),
        ({"type": "sql", "uri": "postgresql://user:s3cret@127.0.0.1:1/db"}, UnreachableError),
        ({"type": "sql", "uri": "oracle+nothing://user:s3cret@host/db"}, ConfigError),
        ({"type": "rest", "uri": "http://user:s3cret@127.0.0.1:1"}, UnreachableError),
        ({"type": "rest", "uri": "not an address"}, IcefloeError),
    ],
)
def test_an_address_that_leads_nowhere_is_told_without_its_password(
    tmp_path: Path, catalog_section: dict[str, str], error: type[IcefloeError]
) -> None:
    (tmp_path / ".icefloe").mkdir()
    with pytest.raises(error) as raised:
        Lake.open(configuration.from_dict({"catalog": catalog_section}, root=tmp_path))
    assert "s3cret" not in f"{raised.value} {raised.value.hint}"


def test_a_server_that_is_no_catalog_is_told_apart(rest_server: RestCatalog, tmp_path: Path) -> None:
    data = {"catalog": {"type": "rest", "uri": rest_server.s3_endpoint}}
    with pytest.raises(IcefloeError):
        Lake.open(configuration.from_dict(data, root=tmp_path))


def test_a_corrupt_catalog_file_is_unreachable(tmp_path: Path) -> None:
    (tmp_path / ".icefloe").mkdir()
    (tmp_path / ".icefloe" / "catalog.db").write_bytes(b"this is not a database, though it is long enough " * 100)
    with pytest.raises(UnreachableError):
        Lake.open(configuration.from_dict({}, root=tmp_path)).changes("db.t")
