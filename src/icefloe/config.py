"""The project's configuration: one file from which both sides of every setting are derived.

``icefloe.toml`` names one catalog. PyIceberg reads it through :meth:`Catalog.pyiceberg_properties` and Spark through
:meth:`Catalog.spark_properties`; nobody types the two separately, so they cannot disagree. Relative paths are relative to
the file's folder. Each value can be overridden by an environment variable (``ICEFLOE_CATALOG__URI`` for ``[catalog] uri``),
and a value may refer to a secret by ``$ENV{NAME}``: the reference is what is stored and shown, never the secret.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from icefloe.errors import ConfigError

FILE_NAME = "icefloe.toml"
HOME_NAME = ".icefloe"
ENV_PREFIX = "ICEFLOE_"
SPARK_CATALOG_CLASS = "org.apache.iceberg.spark.SparkCatalog"
SPARK_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

DEFAULT_FILE = """\
# Icefloe project. Paths are relative to this file; $ENV{NAME} reads a secret from the environment.

[catalog]
name = "lake"                                # the name that Spark SQL uses: lake.db.table
type = "sql"                                 # sql | rest | hive | glue
uri = "sqlite:///.icefloe/catalog.db"        # or postgresql://user:$ENV{PGPASSWORD}@host/db
warehouse = ".icefloe/warehouse"             # a folder, or s3://bucket/prefix

[change_tables]
namespace = "icdc"                           # change tables are registered as icdc.<name>
location = ".icefloe/change-tables"          # their metadata lives here, outside every source

[state]
url = "sqlite:///.icefloe/state.db"          # or postgresql://…

[spark]
# remote = "sc://localhost:15002"            # unset: one local server for this project, started on need
master = "local[*]"
"""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Catalog(_Section):
    """The Iceberg catalog, as both engines see it."""

    name: str = "lake"
    type: Literal["sql", "rest", "hive", "glue"] = "sql"
    uri: str | None = None
    warehouse: str | None = None
    properties: dict[str, str] = Field(default_factory=dict)
    """Passed to both sides under the names of the Iceberg documentation (``s3.endpoint``, ``credential``…)."""
    pyiceberg: dict[str, str] = Field(default_factory=dict)
    """For PyIceberg only."""
    spark: dict[str, str] = Field(default_factory=dict)
    """For Spark's catalog only (without the ``spark.sql.catalog.<name>.`` prefix)."""

    @field_validator("name")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            raise ValueError("must be letters, digits and underscores, as Spark SQL wants a catalog's name")
        return value

    def pyiceberg_properties(self) -> dict[str, str]:
        """The properties for ``pyiceberg.catalog.load_catalog(name, **properties)``."""
        out = {"type": self.type, **_both_sides(self.properties)}
        if self.uri:
            out["uri"] = _sqlalchemy_url(self.uri) if self.type == "sql" else self.uri
        if self.warehouse:
            out["warehouse"] = self.warehouse
        if self.type == "sql":
            out.setdefault("init_catalog_tables", "true")
        return _resolved({**out, **self.pyiceberg})

    def spark_properties(self) -> dict[str, str]:
        """Spark settings that reach the same catalog: full keys, ready for a session, a server or ``spark-submit``."""
        prefix = f"spark.sql.catalog.{self.name}"
        catalog: dict[str, str] = {"cache-enabled": "false", **_java_names(_both_sides(self.properties))}
        if self.warehouse:
            catalog["warehouse"] = self.warehouse
        if self.type == "sql":
            catalog |= {"type": "jdbc", "jdbc.schema-version": "V1", **_jdbc(self.uri or "")}
        elif self.type == "glue":
            catalog |= {"type": "glue"}
        else:
            catalog |= {"type": self.type, **({"uri": self.uri} if self.uri else {})}
        if self.needs_s3:
            catalog.setdefault("io-impl", "org.apache.iceberg.aws.s3.S3FileIO")
        catalog |= self.spark
        out = {"spark.sql.extensions": SPARK_EXTENSIONS, prefix: SPARK_CATALOG_CLASS}
        out |= {f"{prefix}.{key}": value for key, value in catalog.items()}
        return _resolved(out)

    @property
    def needs_s3(self) -> bool:
        return (self.warehouse or "").startswith("s3") or any(k.startswith("s3.") for k in self.properties)


class ChangeTables(_Section):
    """Where change tables live and how long they are kept after their capture is committed."""

    namespace: str = "icdc"
    location: str | None = None
    keep_hours: float = Field(default=72, ge=0)


class State(_Section):
    """The state database."""

    url: str = "sqlite:///.icefloe/state.db"

    def resolved_url(self) -> str:
        return expand(self.url)


class Spark(_Section):
    """The Spark that SQL steps run on."""

    remote: str | None = None
    master: str = "local[*]"
    driver_memory: str = "2g"
    idle_minutes: float = Field(default=30, gt=0)
    java_home: str | None = None
    conf: dict[str, str] = Field(default_factory=dict)
    extra_jars: list[str] = Field(default_factory=list)


class Config(_Section):
    """Everything Icefloe is told. ``root`` is the project's folder; ``home`` holds what Icefloe makes."""

    root: Path
    catalog: Catalog = Field(default_factory=Catalog)
    change_tables: ChangeTables = Field(default_factory=ChangeTables)
    state: State = Field(default_factory=State)
    spark: Spark = Field(default_factory=Spark)

    @property
    def home(self) -> Path:
        return self.root / HOME_NAME

    def spark_conf(self) -> dict[str, str]:
        """All Spark settings but jars: the catalog's, Icefloe's defaults, then the user's own, which win."""
        return {
            **self.catalog.spark_properties(),
            "spark.sql.defaultCatalog": self.catalog.name,
            "spark.sql.sources.partitionOverwriteMode": "dynamic",
            "spark.sql.session.timeZone": "UTC",
            **_resolved(self.spark.conf),
        }


def find(start: Path | None = None) -> Path | None:
    """The nearest ``icefloe.toml`` at or above ``start`` (default: the working folder)."""
    folder = (start or Path.cwd()).resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / FILE_NAME).is_file():
            return candidate / FILE_NAME
    return None


def load(path: Path | None = None, *, env: Mapping[str, str] | None = None) -> Config:
    """Read the configuration. Raises :class:`ConfigError` with the place of the mistake."""
    env = os.environ if env is None else env
    if path is None and env.get("ICEFLOE_CONFIG"):
        path = Path(env["ICEFLOE_CONFIG"])
    file = path or find()
    if file is None:
        raise ConfigError(f"no {FILE_NAME} here or in any folder above", hint="make one with: icefloe init")
    if file.is_dir():
        file = file / FILE_NAME
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", where=str(file)) from error
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"is not valid TOML: {error}", where=str(file)) from error
    for keys, value in _env_overrides(env):
        _set(data, keys, value)
    return from_dict(data, root=file.resolve().parent, where=str(file))


def from_dict(data: Mapping[str, Any], *, root: Path, where: str | None = None) -> Config:
    """A configuration from plain values, with paths made absolute against ``root``."""
    try:
        config = Config.model_validate({**data, "root": root})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        problem = f"unknown setting {key!r}" if first["type"] == "extra_forbidden" else f"{key}: {first['msg']}"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise ConfigError(f"{problem}{more}", where=where, hint="see docs/reference/configuration.md") from error
    return _absolute(config)


def expand(value: str) -> str:
    """Replace ``$ENV{NAME}`` by the variable's value."""

    def lookup(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise ConfigError(f"the environment variable {match[1]} is not set", hint=f"export {match[1]}=…")
        return found

    return re.sub(r"\$ENV\{([A-Za-z_][A-Za-z0-9_]*)\}", lookup, value)


def file_uri(path: Path) -> str:
    return f"file://{path}"


# -- derivations ---------------------------------------------------------------------------------------------------------


def _absolute(config: Config) -> Config:
    root = config.root
    catalog = config.catalog
    updates: dict[str, Any] = {}
    if catalog.type == "sql":
        uri = catalog.uri or f"sqlite:///{HOME_NAME}/catalog.db"
        updates["uri"] = _absolute_sqlite(uri, root)
        updates["warehouse"] = _absolute_location(catalog.warehouse or f"{HOME_NAME}/warehouse", root)
    elif catalog.warehouse:
        # A REST catalog's warehouse may be a plain name; only what looks like a path is made absolute.
        looks_like_path = catalog.warehouse.startswith((".", "/"))
        updates["warehouse"] = _absolute_location(catalog.warehouse, root) if looks_like_path else catalog.warehouse
    location = config.change_tables.location
    if location is None and (updates.get("warehouse") or "").startswith("file:"):
        location = f"{HOME_NAME}/change-tables"
    change_tables = config.change_tables.model_copy(
        update={"location": _absolute_location(location, root) if location else None}
    )
    state = config.state.model_copy(update={"url": _absolute_sqlite(config.state.url, root)})
    return config.model_copy(
        update={"catalog": catalog.model_copy(update=updates), "change_tables": change_tables, "state": state}
    )


def _absolute_sqlite(url: str, root: Path) -> str:
    if not url.startswith("sqlite"):
        return url
    scheme, _, rest = url.partition(":///")
    if not rest or rest == ":memory:":
        raise ConfigError(f"{url!r} names no file; an in-memory database cannot be shared with Spark")
    return f"{scheme}:///{(root / rest).resolve()}"


def _absolute_location(location: str, root: Path) -> str:
    if re.match(r"^[a-zA-Z][a-zA-Z0-9+.-]*:", location):
        return location.rstrip("/")
    return file_uri((root / location).resolve())


def _sqlalchemy_url(uri: str) -> str:
    """PyIceberg's SQL catalog speaks SQLAlchemy; ``postgresql://`` gets its driver."""
    for scheme in ("postgresql://", "postgres://"):
        if uri.startswith(scheme):
            return "postgresql+psycopg2://" + uri.removeprefix(scheme)
    return uri


def _jdbc(uri: str) -> dict[str, str]:
    """The JDBC form of a SQLAlchemy address. User and password go into their own properties."""
    if uri.startswith("sqlite"):
        # WAL and a busy timeout: Java's JdbcCatalog does not retry SQLITE_BUSY (Iceberg 1.12).
        return {"uri": f"jdbc:sqlite:{uri.partition(':///')[2]}?journal_mode=WAL&busy_timeout=30000"}
    parts = urlsplit(uri)
    if not parts.scheme.startswith("postgres"):
        raise ConfigError(f"a sql catalog on {parts.scheme or uri!r} is not supported: use sqlite or postgresql")
    host = f"{parts.hostname or 'localhost'}:{parts.port or 5432}"
    out = {"uri": f"jdbc:postgresql://{host}{parts.path}" + (f"?{parts.query}" if parts.query else "")}
    if parts.username:
        out["jdbc.user"] = unquote(parts.username)
    if parts.password:
        out["jdbc.password"] = unquote(parts.password)
    return out


_JAVA_NAMES = {"s3.region": "client.region", "glue.region": "client.region"}


def _both_sides(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: str(value) for key, value in properties.items()}


def _java_names(properties: Mapping[str, str]) -> dict[str, str]:
    """PyIceberg and Java agree on most names; the few that differ are translated here."""
    return {_JAVA_NAMES.get(key, key): value for key, value in properties.items()}


def _resolved(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: expand(value) for key, value in properties.items()}


def _env_overrides(env: Mapping[str, str]) -> list[tuple[list[str], str]]:
    """``ICEFLOE_CATALOG__URI=…`` -> ``(["catalog", "uri"], …)``; a name without ``__`` is not a setting."""
    found = []
    for name, value in sorted(env.items()):
        if name.startswith(ENV_PREFIX) and "__" in name:
            found.append(([part.lower() for part in name.removeprefix(ENV_PREFIX).split("__")], value))
    return found


def _set(data: dict[str, Any], keys: list[str], value: str) -> None:
    target = data
    for key in keys[:-1]:
        target = target.setdefault(key, {})
        if not isinstance(target, dict):
            raise ConfigError(f"the environment overrides {'.'.join(keys)}, but {key!r} is not a section")
    target[keys[-1]] = value
