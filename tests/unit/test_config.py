"""One configuration, two engines: what PyIceberg and what Spark are told."""

from __future__ import annotations

import tomllib
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe import config
from icefloe.config import Config, expand_url, from_dict, load
from icefloe.errors import ConfigError

ROOT = Path("/project")


def configured(text: str, root: Path = ROOT) -> Config:
    return from_dict(tomllib.loads(text), root=root)


def spark_catalog(loaded: Config) -> dict[str, str]:
    prefix = f"spark.sql.catalog.{loaded.catalog.name}."
    conf = loaded.catalog.spark_properties()
    return {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}


def test_the_default_is_one_sqlite_file_and_one_folder_for_both_engines() -> None:
    loaded = configured(config.DEFAULT_FILE)
    python, java = loaded.catalog.pyiceberg_properties(), spark_catalog(loaded)
    assert python["type"] == "sql"
    assert python["uri"] == "sqlite:////project/.icefloe/catalog.db?timeout=30"
    assert java["type"] == "jdbc"
    assert java["uri"] == "jdbc:sqlite:/project/.icefloe/catalog.db?journal_mode=WAL&busy_timeout=30000"
    assert python["warehouse"] == java["warehouse"] == "file:///project/.icefloe/warehouse"
    assert loaded.change_tables.location == "file:///project/.icefloe/change-tables"
    assert loaded.state.url == "sqlite:////project/.icefloe/state.db"


def test_an_empty_file_means_the_default() -> None:
    assert configured("") == configured(config.DEFAULT_FILE)


def test_sparks_catalog_never_caches_since_others_commit_to_the_same_tables() -> None:
    assert spark_catalog(configured(""))["cache-enabled"] == "false"


def test_tables_in_a_folder_get_a_file_system_that_is_the_catalogs_alone() -> None:
    java = spark_catalog(configured(""))
    assert java["hadoop.fs.file.impl"].endswith(".BareLocalFileSystem")
    assert java["hadoop.fs.file.impl.disable.cache"] == "true"
    own = spark_catalog(configured('[catalog.spark]\n"hadoop.fs.file.impl" = "org.example.Own"'))
    assert own["hadoop.fs.file.impl"] == "org.example.Own"
    assert not [key for key in spark_catalog(configured('[catalog]\nwarehouse = "s3://b/w"')) if "fs.file" in key]


def test_files_in_a_folder_are_cheap_to_open_and_on_an_object_store_they_are_not() -> None:
    name = "table-default.read.split.open-file-cost"
    assert spark_catalog(configured(""))[name] == "1048576"
    assert spark_catalog(configured(f'[catalog.spark]\n"{name}" = "5"'))[name] == "5"
    assert name not in spark_catalog(configured('[catalog]\nwarehouse = "s3://b/w"'))


def test_postgresql_gets_its_driver_on_one_side_and_its_login_apart_on_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CATALOG_PASSWORD", "p@ss/w:rd%")
    loaded = configured(
        """
        [catalog]
        uri = "postgresql://jo:$ENV{CATALOG_PASSWORD}@db.example:6543/lake?sslmode=require"
        warehouse = "s3://bucket/prefix/"
        """
    )
    python, java = loaded.catalog.pyiceberg_properties(), spark_catalog(loaded)
    assert (
        python["uri"]
        == "postgresql+psycopg2://jo:p%40ss%2Fw%3Ard%25@db.example:6543/lake?sslmode=require&connect_timeout=10"
    )
    assert java["uri"] == "jdbc:postgresql://db.example:6543/lake?sslmode=require"
    assert (java["jdbc.user"], java["jdbc.password"]) == ("jo", "p@ss/w:rd%")
    assert python["warehouse"] == java["warehouse"] == "s3://bucket/prefix"
    assert java["io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    assert loaded.catalog.needs_postgres and loaded.catalog.needs_s3


def test_an_address_may_come_from_the_environment_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_URL", "postgresql://jo:a%40b@db/lake")
    loaded = configured('[catalog]\nuri = "$ENV{CATALOG_URL}"\nwarehouse = "wh"')
    assert loaded.catalog.needs_postgres
    assert loaded.catalog.pyiceberg_properties()["uri"] == "postgresql+psycopg2://jo:a%40b@db/lake?connect_timeout=10"
    assert spark_catalog(loaded)["jdbc.password"] == "a@b"


def test_a_host_from_the_environment_keeps_its_case_until_it_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_HOST", "db.example")
    loaded = configured('[catalog]\nuri = "postgresql://jo@$ENV{DB_HOST}/lake"')
    assert spark_catalog(loaded)["uri"] == "jdbc:postgresql://db.example/lake"


@pytest.mark.parametrize("uri", ["postgresql:///lake?host=/run/postgresql", "postgresql:///lake"])
def test_a_socket_of_postgresql_is_refused_since_java_cannot_use_it(uri: str) -> None:
    loaded = configured(f'[catalog]\nuri = "{uri}"')
    with pytest.raises(ConfigError, match="TCP only"):
        loaded.catalog.spark_properties()


def test_another_database_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="mysql") as caught:
        configured('[catalog]\nuri = "mysql://jo:hidden@db/lake"').catalog.spark_properties()
    assert "hidden" not in str(caught.value)


def test_a_rest_catalog_is_the_same_on_both_sides_and_its_warehouse_may_be_a_name() -> None:
    loaded = configured(
        """
        [catalog]
        type = "rest"
        uri = "https://catalog.example/api"
        warehouse = "prod"
        [catalog.properties]
        scope = "PRINCIPAL_ROLE:ALL"
        "s3.region" = "eu-west-1"
        """
    )
    python, java = loaded.catalog.pyiceberg_properties(), spark_catalog(loaded)
    for key in ("type", "uri", "warehouse", "scope"):
        assert python[key] == java[key]
    assert python["warehouse"] == "prod"
    assert (python["s3.region"], java["client.region"]) == ("eu-west-1", "eu-west-1")
    assert loaded.change_tables.location is None


def test_hive_and_glue_pass_their_settings_through() -> None:
    hive = configured('[catalog]\ntype = "hive"\nuri = "thrift://meta:9083"\nwarehouse = "s3a://bucket/wh"')
    assert hive.catalog.pyiceberg_properties()["uri"] == spark_catalog(hive)["uri"] == "thrift://meta:9083"
    assert spark_catalog(hive)["type"] == "hive"
    glue = configured('[catalog]\ntype = "glue"\nwarehouse = "s3://b/wh"\n[catalog.properties]\n"glue.region" = "eu-1"')
    assert glue.catalog.pyiceberg_properties()["glue.region"] == spark_catalog(glue)["client.region"] == "eu-1"
    assert "uri" not in spark_catalog(glue)
    assert glue.catalog.needs_s3


def test_each_side_may_be_told_something_of_its_own() -> None:
    loaded = configured('[catalog.pyiceberg]\necho = "true"\n[catalog.spark]\n"table-default.format-version" = "3"')
    assert loaded.catalog.pyiceberg_properties()["echo"] == "true"
    assert spark_catalog(loaded)["table-default.format-version"] == "3"
    assert "echo" not in spark_catalog(loaded)


def test_properties_may_be_written_without_quotes() -> None:
    loaded = configured(
        """
        [catalog.properties]
        s3.endpoint = "http://store"
        s3.path-style-access = true
        [spark.conf]
        spark.sql.shuffle.partitions = 4
        """
    )
    assert loaded.catalog.properties == {"s3.endpoint": "http://store", "s3.path-style-access": "true"}
    assert loaded.spark_conf()["spark.sql.shuffle.partitions"] == "4"


def test_the_users_spark_settings_win_but_icebergs_extensions_stay() -> None:
    loaded = configured(
        '[spark.conf]\n"spark.sql.session.timeZone" = "Europe/Berlin"\n"spark.sql.extensions" = "my.Extension"'
    )
    conf = loaded.spark_conf()
    assert conf["spark.sql.session.timeZone"] == "Europe/Berlin"
    assert conf["spark.sql.extensions"] == f"{config.SPARK_EXTENSIONS},my.Extension"
    assert conf["spark.sql.sources.partitionOverwriteMode"] == "dynamic"


def test_settings_can_be_had_without_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "hush")
    loaded = configured('[catalog.properties]\n"s3.secret-access-key" = "$ENV{SECRET_KEY}"')
    assert "hush" not in str(loaded.spark_conf(reveal=False))
    assert "hush" in str(loaded.spark_conf())
    assert "hush" not in repr(loaded)


def test_a_secret_that_is_not_set_is_named_when_it_is_needed_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    loaded = configured('[catalog.properties]\n"s3.secret-access-key" = "$ENV{NOT_SET_ANYWHERE}"')
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE"):
        loaded.catalog.pyiceberg_properties()


@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs", "Cc"])))
def test_any_secret_survives_its_way_through_an_address(secret: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANY_SECRET", secret)
        url = expand_url("postgresql://jo:$ENV{ANY_SECRET}@db/lake")
        loaded = configured('[catalog]\nuri = "postgresql://jo:$ENV{ANY_SECRET}@db/lake"')
        assert unquote(urlsplit(url).password or "") == secret
        assert urlsplit(url).hostname == "db"
        assert spark_catalog(loaded)["jdbc.password"] == secret


def test_the_environment_overrides_every_value(tmp_path: Path) -> None:
    (tmp_path / "icefloe.toml").write_text(config.DEFAULT_FILE)
    loaded = load(
        tmp_path,
        env={
            "ICEFLOE_CATALOG__URI": "postgresql://jo@db/lake",
            "ICEFLOE_SPARK__DRIVER_MEMORY": "512m",
            "ICEFLOE_SPARK__IDLE_MINUTES": "0.5",
            "ICEFLOE_SPARK__EXTRA_JARS": "a.jar, b.jar",
            "ICEFLOE_JARS": "/not/a/setting",
        },
    )
    assert loaded.catalog.uri == "postgresql://jo@db/lake"
    assert loaded.spark.driver_memory == "512m"
    assert loaded.spark.idle_minutes == 0.5
    assert loaded.spark.extra_jars == ["a.jar", "b.jar"]


def test_the_file_is_searched_upwards_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "icefloe.toml").write_text("")
    monkeypatch.chdir(below)
    assert load(env={}).root == tmp_path
    assert load(env={"ICEFLOE_CONFIG": str(tmp_path / "icefloe.toml")}).root == tmp_path


def test_without_a_file_the_way_to_make_one_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load(env={})
    assert caught.value.hint == "make one with: icefloe init"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[catalog", "not valid TOML"),
        ("[catalgo]", "unknown setting 'catalgo'"),
        ('[catalog]\nwarehose = "x"', "unknown setting 'catalog.warehose'"),
        ('[catalog]\nname = "my-lake"', "letters, digits and underscores"),
        ('[catalog]\ntype = "nessie"', "catalog.type"),
        ('[catalog]\nuri = "sqlite://"', "names no file"),
        ('[catalog]\nuri = "sqlite:///:memory:"', "names no file"),
        ("[spark]\nidle_minutes = 0", "spark.idle_minutes"),
        ('[spark]\ndriver_memory = "lots"', "such as 512m or 2g"),
        ('[spark]\nremote = "localhost:15002"', "sc://host:port"),
        ("[change_tables]\nkeep_hours = -1", "change_tables.keep_hours"),
        ('[keep]\nruns = "-1d"', "keep.runs.* such as 12h, 14d or 2w"),
        ('[keep]\nlogs = "banana"', "keep.logs.* such as 12h, 14d or 2w"),
        ("[keep]\nlogs = 14", "keep.logs.* such as 12h, 14d or 2w"),
        ('[keep]\nlogs = ""', "keep.logs.* such as 12h, 14d or 2w"),
        ('[keep]\nlogs = "1d 2h"', "keep.logs.* such as 12h, 14d or 2w"),
        ("[keep]\nlast_runs = 19", "keep.last_runs"),
        ("[keep]\nevery_minutes = 0", "keep.every_minutes"),
        ('[keep]\nlosg = "1d"', "unknown setting 'keep.losg'"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "icefloe.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load(file, env={})


def test_an_override_of_a_section_that_is_a_value_is_told(tmp_path: Path) -> None:
    (tmp_path / "icefloe.toml").write_text('[catalog]\nname = "lake"')
    with pytest.raises(ConfigError, match="not a section"):
        load(tmp_path, env={"ICEFLOE_CATALOG__NAME__X": "y"})


def test_limits_of_step_types_hold_however_the_type_is_written() -> None:
    assert configured("[engine.limits]\nSpark = 2\nshell = 1").engine.limits == {"spark": 2, "shell": 1}
    with pytest.raises(ConfigError, match="limits"):
        configured("[engine.limits]\nSpark = 0")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ('"90d"', 90 * 86_400.0),
        ('"12h"', 43_200.0),
        ('"1.5 d"', 129_600.0),
        ('"2W"', 14 * 86_400.0),
        ('"0"', 0.0),
        ("0", 0.0),
        ('"0d"', 0.0),
        ('"forever"', None),
    ],
)
def test_keep_times_are_read_as_people_write_them(text: str, seconds: float | None) -> None:
    assert configured(f"[keep]\nruns = {text}").keep.seconds("runs") == seconds


def test_keep_times_come_from_the_environment_too(tmp_path: Path) -> None:
    (tmp_path / "icefloe.toml").write_text('[keep]\nruns = "1d"\nlogs = "1d"')
    keep = load(tmp_path, env={"ICEFLOE_KEEP__RUNS": "forever", "ICEFLOE_KEEP__LAST_RUNS": "30"}).keep
    assert (keep.seconds("runs"), keep.seconds("logs"), keep.last_runs) == (None, 86_400.0, 30)
    with pytest.raises(ConfigError, match=r"keep\.runs"):
        load(tmp_path, env={"ICEFLOE_KEEP__RUNS": "banana"})


def test_every_kind_of_row_has_a_keep_time() -> None:
    from icefloe.store import retention

    keep = configured("").keep
    gone_when_expired = {"sessions", "login_links"}
    for kind in retention.kinds():
        if kind.name in gone_when_expired:
            assert keep.seconds(kind.name) == 0.0, kind.name
        else:
            assert (keep.seconds(kind.name) or 0.0) >= 86_400.0, kind.name
