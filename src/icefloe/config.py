"""The project's configuration: one file from which both sides of every setting are derived.

``icefloe.toml`` names one catalog. PyIceberg reads it through :meth:`Catalog.pyiceberg_properties` and Spark through
:meth:`Catalog.spark_properties`; nobody types the two separately, so they cannot disagree. Relative paths are relative to
the file's folder. Each value can be overridden by an environment variable (``ICEFLOE_CATALOG__URI`` for ``[catalog] uri``),
and a value may refer to a secret by ``$ENV{NAME}``: the reference is what is stored and shown, and the secret is looked up
when an engine is given its properties.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote, urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from icefloe.errors import ConfigError

FILE_NAME = "icefloe.toml"
HOME_NAME = ".icefloe"
ENV_PREFIX = "ICEFLOE_"
BUSY_SECONDS = 30
MOST_IN_USE = 8
SPARK_CATALOG_CLASS = "org.apache.iceberg.spark.SparkCatalog"
SPARK_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
LOCAL_FILES = {
    # Hadoop's own starts a `chmod` for each file it makes, and one for its checksum: a seventh of all processor time of a batch.
    "hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    # The catalog's alone: one that is kept would serve everybody's file: paths, and it lists no folder behind a symbolic link.
    "hadoop.fs.file.impl.disable.cache": "true",
    # Small files are read by one task, as many as take as long to open as so many bytes to read. Iceberg's 4 MB are for an object store.
    "table-default.read.split.open-file-cost": "1048576",
}
"""Of a Spark catalog whose tables live in a folder."""

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


def _flat(value: Any) -> Any:
    """``s3.endpoint = "…"`` is a table in a table to TOML, and ``true`` a boolean; to Iceberg and Spark both are strings."""
    if not isinstance(value, Mapping):
        return value
    out: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, Mapping):
            out |= {f"{key}.{below}": leaf for below, leaf in _flat(item).items()}
        elif isinstance(item, bool):
            out[key] = str(item).lower()
        else:
            out[key] = str(item) if isinstance(item, int | float) else item
    return out


Properties = Annotated[dict[str, str], BeforeValidator(_flat)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Catalog(_Section):
    """The Iceberg catalog, as both engines see it."""

    name: str = "lake"
    type: Literal["sql", "rest", "hive", "glue"] = "sql"
    uri: str | None = None
    warehouse: str | None = None
    properties: Properties = Field(default_factory=dict)
    """Passed to both sides under the names of the Iceberg documentation (``s3.endpoint``, ``credential``…)."""
    pyiceberg: Properties = Field(default_factory=dict)
    """For PyIceberg only."""
    spark: Properties = Field(default_factory=dict)
    """For Spark's catalog only (without the ``spark.sql.catalog.<name>.`` prefix)."""

    @field_validator("name")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            raise ValueError("must be letters, digits and underscores, as Spark SQL wants a catalog's name")
        return value

    def pyiceberg_properties(self) -> dict[str, str]:
        """The properties for ``pyiceberg.catalog.load_catalog(name, **properties)``, secrets looked up."""
        out = {"type": self.type, **self.properties}
        if self.uri:
            out["uri"] = _sqlalchemy_url(self.uri) if self.type == "sql" else self.uri
        if self.warehouse:
            out["warehouse"] = self.warehouse
        if self.type == "sql":
            # v1: the form that Java is told to use too; a catalog that an older engine made is brought to it.
            # A connection that died with a restarted server is replaced, not reported.
            out = {"init_catalog_tables": "true", "schema_version": "v1", "pool_pre_ping": "true", **out}
        return {
            key: expand_url(value) if key == "uri" else expand(value)
            for key, value in {**out, **self.pyiceberg}.items()
        }

    def spark_properties(self, *, reveal: bool = True) -> dict[str, str]:
        """Spark settings that reach the same catalog: full keys, ready for a session, a server or ``spark-submit``.

        Without ``reveal`` references to secrets stay references.
        """
        prefix = f"spark.sql.catalog.{self.name}"
        catalog: dict[str, str] = {"cache-enabled": "false", **_java_names(self.properties)}
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
        if self.on_local_disk:
            catalog = LOCAL_FILES | catalog
        catalog |= self.spark
        out = {"spark.sql.extensions": SPARK_EXTENSIONS, prefix: SPARK_CATALOG_CLASS}
        out |= {f"{prefix}.{key}": value for key, value in catalog.items()}
        return _resolved(out) if reveal else out

    @property
    def needs_s3(self) -> bool:
        """Whether tables live on an S3-protocol store, so that Spark needs the AWS bundle."""
        places = (self.warehouse or "", *self.properties)
        return self.type == "glue" or any(place.startswith(("s3:", "s3a:", "s3n:", "s3.")) for place in places)

    @property
    def on_local_disk(self) -> bool:
        """Whether tables live in a folder, so that Spark needs a file system that starts no process for each file it makes."""
        return (self.warehouse or "").startswith("file:")

    @property
    def needs_postgres(self) -> bool:
        return self.type == "sql" and _is_postgres(
            expand(self.uri or "") if _is_reference(self.uri) else self.uri or ""
        )


class ChangeTables(_Section):
    """Where change tables live and how long they are kept after their capture is committed."""

    namespace: str = "icdc"
    location: str | None = None
    keep_hours: float = Field(default=72, ge=0)
    pinned_batches: int = Field(default=2, ge=0)
    """How many of a consumer's newest committed batches stay pinned on their sources, while they are kept."""


class State(_Section):
    """The state database."""

    url: str = "sqlite:///.icefloe/state.db"

    def resolved_url(self) -> str:
        return expand_url(self.url)


class Spark(_Section):
    """The Spark that SQL steps run on."""

    remote: str | None = None
    master: str = "local[*]"
    driver_memory: str | None = None
    idle_minutes: float = Field(default=30, gt=0)
    java_home: str | None = None
    conf: Properties = Field(default_factory=dict)
    extra_jars: list[str] = Field(default_factory=list)
    environment: list[str] = Field(default_factory=lambda: ["AWS_*", "GOOGLE_*", "AZURE_*"])
    """Variables that the local server and Spark steps get besides what every step gets: a cloud's credentials."""

    @field_validator("extra_jars", "environment", mode="before")
    @classmethod
    def _from_environment(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("driver_memory")
    @classmethod
    def _memory(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[1-9]\d*[kmgtKMGT]", value):
            raise ValueError("must be a size as Java takes it, such as 512m or 2g")
        return value

    @field_validator("remote")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value and not value.startswith(("sc://", "$ENV{")):
            raise ValueError("must be a Spark Connect address, sc://host:port")
        return value


class Engine(_Section):
    """Workers: how much each does at once, how soon a silent one is given up, what is kept of logs."""

    slots: int = Field(default=8, ge=1)
    lease_seconds: float = Field(default=30, gt=0)
    grace_seconds: float = Field(default=10, ge=0)
    """Between the polite end of a step's process and the other one."""
    drain_seconds: float = Field(default=30, ge=0)
    """How long a worker that was told to end waits for its steps before it hands them over."""
    log_head_kib: int = Field(default=1024, ge=64)
    log_tail_kib: int = Field(default=1024, ge=64)
    limits: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """Step type, in small letters -> how many of it may run at once, over all workers."""

    @field_validator("limits")
    @classmethod
    def _in_small_letters(cls, value: dict[str, int]) -> dict[str, int]:
        return {step_type.lower(): most for step_type, most in value.items()}


class StepSettings(_Section):
    """What user code gets to see of the worker's environment. Names may have ``*``."""

    environment: list[str] = Field(default_factory=list)
    """Variables that steps get besides the usual ones (:mod:`icefloe.environment`); never the project's own credentials."""
    secrets: list[str] = Field(default_factory=lambda: ["*"])
    """Which ``$ENV{…}`` definitions may name; never the project's own credentials."""

    @field_validator("environment", "secrets", mode="before")
    @classmethod
    def _from_environment(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class SchedulerSettings(_Section):
    """Triggers: how often tables are looked at, how late is in time, what follows failed runs, whom to tell."""

    tick_seconds: float = Field(default=5, gt=0)
    grace_seconds: float = Field(default=60, ge=0)
    """A fire that is started within so long of its time was not missed (``catch_up: none``)."""
    failure_pause_seconds: float = Field(default=30, ge=0)
    """Before an incremental trigger starts a run again after a failed one; doubled with each further failure."""
    failure_pause_most_seconds: float = Field(default=3600, ge=0)
    failures_before_hold: int = Field(default=3, ge=1)
    """After so many failed runs in a row an incremental trigger holds until somebody acts."""


class AlertSettings(_Section):
    """Who is told of incidents. Channels are apprise addresses; secrets in them are written as ``$ENV{…}``."""

    channels: dict[str, str] = Field(default_factory=dict)
    """Name -> address, for definitions to name."""
    default: list[str] = Field(default_factory=list)
    """Names or addresses for workflows that name none."""
    templates: dict[str, str] = Field(default_factory=dict)
    """Event (failure, late, lag, lost_history, watermark) -> text."""

    @field_validator("default", mode="before")
    @classmethod
    def _from_environment(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def _keep_time(value: Any) -> float | None:
    """``90d``, ``12h``, ``0`` or ``forever``, in seconds; None is for ever."""
    text = str(value).strip().lower()
    if value is None or text == "forever":
        return None
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)\s*([smhdw])", text)
    if match is None and text not in ("0", "0.0"):
        raise ValueError("must be a time such as 12h, 14d or 2w, 0 for as soon as nobody needs it, or forever")
    return float(match[1]) * _UNITS[match[2]] if match else 0.0


KeepTime = Annotated[float | None, BeforeValidator(_keep_time)]


def _days(number: float) -> Any:
    return Field(default=number * 86_400.0)


_FIXED_DAYS = {"workers": 1, "spark_sessions": 7, "idempotency_keys": 1, "sessions": 0, "login_links": 0}
"""Nothing to be set: workers and attempts forget those that are gone as they come, after the same times; programs rely on a day for
repeating a request; a login ends by itself, and nobody needs it after that."""


class Keep(_Section):
    """How long what is over stays in the state database; None: for ever."""

    runs: KeepTime = _days(90)
    last_runs: int = Field(default=20, ge=20)
    """So many ended runs of each workflow stay, however old: triggers judge by the last 20."""
    logs: KeepTime = _days(14)
    events: KeepTime = _days(30)
    captures: KeepTime = _days(90)
    occasions: KeepTime = _days(400)
    savings: KeepTime = _days(400)
    signals: KeepTime = _days(90)
    incidents: KeepTime = _days(180)
    audits: KeepTime = _days(400)
    prunings: KeepTime = _days(400)
    every_minutes: float = Field(default=60, gt=0)
    """How often the janitor in ``icefloe serve`` looks."""

    def seconds(self, kind: str) -> float | None:
        """The keep time of a kind; None: for ever."""
        seconds: float | None = _FIXED_DAYS[kind] * 86_400.0 if kind in _FIXED_DAYS else getattr(self, kind)
        return seconds


class ServerSettings(_Section):
    """Where ``icefloe serve`` listens for REST, if it does, and who may come in."""

    listen: str | None = None
    """``host:port``, or ``off``. None: localhost:8484, or a free port when another server has that one."""
    url: str | None = None
    """Under which people reach the pages, when something stands in front of the server."""
    hosts: list[str] = Field(default_factory=list)
    """Names that requests may be for, besides those of this machine."""
    token: SecretStr | None = None
    """What callers must show, as ``$ENV{NAME}``. Without it one is made and kept in ``token_file``."""
    token_file: str = f"{HOME_NAME}/server.token"
    certificate: str | None = None
    key: str | None = None
    allow_plain_http: bool = False
    """Listen on other than loopback addresses without TLS: something in front of it takes care of that."""
    max_body_kib: int = Field(default=256, ge=1, le=64 * 1024)
    proxy_header: str | None = None
    """The header in which a trusted proxy says who has logged in there."""
    trusted_proxies: list[str] = Field(default_factory=lambda: ["127.0.0.1/32", "::1/128"])
    proxy_role: Literal["viewer", "operator", "admin"] = "viewer"
    proxy_admins: list[str] = Field(default_factory=list)
    open_metrics: bool = False
    """``/metrics`` needs no token."""

    @field_validator("hosts", "trusted_proxies", "proxy_admins", mode="before")
    @classmethod
    def _from_environment(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: list[str]) -> list[str]:
        for network in value:
            ipaddress.ip_network(network, strict=False)
        return value

    @field_validator("url")
    @classmethod
    def _web_address(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"https?://[^\s/]+", value.rstrip("/")):
            raise ValueError("must be an address such as https://icefloe.example.com, without a path")
        return value.rstrip("/") if value else value


class LogSettings(_Section):
    """How ``icefloe serve`` and ``icefloe worker`` log, on stderr."""

    format: Literal["text", "json"] = "text"


class TelemetrySettings(_Section):
    """OpenTelemetry: off unless an endpoint is named here, or in the standard ``OTEL_EXPORTER_OTLP_ENDPOINT``."""

    otlp_endpoint: str | None = None
    """Of a collector that speaks OTLP over HTTP, as ``http://localhost:4318``."""

    @field_validator("otlp_endpoint")
    @classmethod
    def _web_address(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must be an address of OTLP over HTTP such as http://localhost:4318")
        return value


class OpenLineageSettings(_Section):
    """Where ``icefloe serve`` sends OpenLineage events of runs and tables; off unless ``url`` or ``file`` is set."""

    url: str | None = None
    """Of a receiver; without a path, ``/api/v1/lineage`` is added."""
    file: str | None = None
    """Events are appended here, one JSON object a line."""
    namespace: str | None = None
    """Of jobs. None: the catalog's name."""
    api_key: SecretStr | None = None
    """Shown to the receiver as a bearer token; written as ``$ENV{NAME}``."""

    @field_validator("url")
    @classmethod
    def _web_address(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://", "$ENV{")):
            raise ValueError("must be an address such as http://localhost:5000")
        return value

    @model_validator(mode="after")
    def _one_place(self) -> OpenLineageSettings:
        if self.url is not None and self.file is not None:
            raise ValueError("events go to url or to file, not to both")
        return self

    @property
    def is_on(self) -> bool:
        return self.url is not None or self.file is not None


class Config(_Section):
    """Everything Icefloe is told. ``root`` is the project's folder; ``home`` holds what Icefloe makes."""

    root: Path
    catalog: Catalog = Field(default_factory=Catalog)
    change_tables: ChangeTables = Field(default_factory=ChangeTables)
    state: State = Field(default_factory=State)
    spark: Spark = Field(default_factory=Spark)
    engine: Engine = Field(default_factory=Engine)
    steps: StepSettings = Field(default_factory=StepSettings)
    scheduler: SchedulerSettings = Field(default_factory=SchedulerSettings)
    alerts: AlertSettings = Field(default_factory=AlertSettings)
    server: ServerSettings = Field(default_factory=ServerSettings)
    keep: Keep = Field(default_factory=Keep)
    logs: LogSettings = Field(default_factory=LogSettings)
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)
    openlineage: OpenLineageSettings = Field(default_factory=OpenLineageSettings)

    @property
    def server_url(self) -> str | None:
        """Where pages of runs and workflows are: as configured, else where an ``icefloe serve`` of this project listens now."""
        configured = self.server.url or os.environ.get("ICEFLOE_SERVER_URL", "").rstrip("/")
        return configured or self._last_address()

    @property
    def address_file(self) -> Path:
        """Where ``icefloe serve`` says, while it listens, under which address its pages open."""
        return self.home / "server.json"

    def _last_address(self) -> str | None:
        try:
            left = json.loads(self.address_file.read_text(encoding="utf-8"))
            if left.get("host") == socket.gethostname():
                os.kill(int(left["pid"]), 0)  # a server that was killed leaves its file behind
            return str(left["address"])
        except PermissionError:  # it is there, and another user's
            return str(left["address"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            return None

    @property
    def home(self) -> Path:
        return self.root / HOME_NAME

    def spark_conf(self, *, reveal: bool = True) -> dict[str, str]:
        """All Spark settings but jars: the catalog's, Icefloe's defaults, then the user's own, which win.

        Only ``spark.sql.extensions`` is not the user's alone: theirs are added to Iceberg's.
        """
        own = _resolved(self.spark.conf) if reveal else dict(self.spark.conf)
        extensions = [SPARK_EXTENSIONS, *own.pop("spark.sql.extensions", "").split(",")]
        return {
            **self.catalog.spark_properties(reveal=reveal),
            "spark.sql.defaultCatalog": self.catalog.name,
            "spark.sql.sources.partitionOverwriteMode": "dynamic",
            "spark.sql.session.timeZone": "UTC",
            **own,
            "spark.sql.extensions": ",".join(dict.fromkeys(filter(None, extensions))),
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
    env = variables() if env is None else env
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
    loaded = from_dict(data, root=file.resolve().parent, where=str(file))
    _in_use.pop(file.resolve(), None)
    _in_use[file.resolve()] = loaded
    if len(_in_use) > MOST_IN_USE:
        del _in_use[next(iter(_in_use))]
    return loaded


def in_use() -> list[Config]:
    """The configurations that this process has read last."""
    return list(_in_use.values())


def variables() -> dict[str, str]:
    """The environment, with what this process was entrusted with."""
    return {**os.environ, **_entrusted}


def entrust(values: Mapping[str, str]) -> None:
    """Let the configuration find variables that are not in the environment, where user code and its children would see them."""
    _entrusted.update(values)


_entrusted: dict[str, str] = {}
_in_use: dict[Path, Config] = {}


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
        found = _entrusted.get(match[1], os.environ.get(match[1]))
        if found is None:
            raise ConfigError(f"the environment variable {match[1]} is not set", hint=f"export {match[1]}=…")
        return found

    return re.sub(r"\$ENV\{([A-Za-z_][A-Za-z0-9_]*)\}", lookup, value)


def references(value: str) -> list[str]:
    """The names of the variables that a value refers to."""
    return re.findall(r"\$ENV\{([A-Za-z_][A-Za-z0-9_]*)\}", value)


def expand_url(url: str) -> str:
    """:func:`expand` for an address: a secret in its user part is quoted, so that a ``@`` or ``/`` in it does no harm."""
    scheme, separator, rest = url.partition("://")
    user, at, place = rest.rpartition("@")
    if not (separator and at):
        return expand(url)
    quoted = re.sub(r"\$ENV\{\w+\}", lambda match: quote(expand(match[0]), safe=""), user)
    return f"{expand(scheme)}://{quoted}@{expand(place)}"


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
    if _is_reference(uri):
        uri = expand(uri)
    if uri.startswith("sqlite") and "?" not in uri:
        return f"{uri}?timeout={BUSY_SECONDS}"
    for scheme in ("postgresql://", "postgres://"):
        if uri.startswith(scheme):
            uri = "postgresql+psycopg2://" + uri.removeprefix(scheme)
    if uri.startswith("postgresql") and "connect_timeout=" not in uri:
        # libpq waits for ever for a host that takes the connection and says nothing.
        uri += ("&" if "?" in uri else "?") + "connect_timeout=10"
    return uri


def _jdbc(uri: str) -> dict[str, str]:
    """The JDBC form of a SQLAlchemy address. User and password go into their own properties."""
    if _is_reference(uri):
        uri = expand(uri)
    if uri.startswith("sqlite"):
        path = uri.partition(":///")[2].partition("?")[0]
        # WAL and a busy timeout: Java's JdbcCatalog does not retry SQLITE_BUSY (Iceberg 1.12).
        return {"uri": f"jdbc:sqlite:{path}?journal_mode=WAL&busy_timeout={BUSY_SECONDS * 1000}"}
    parts = urlsplit(uri)
    if not _is_postgres(uri):
        raise ConfigError(
            f"a sql catalog on {parts.scheme or 'this address'!r} is not supported",
            where="[catalog] uri",
            hint="use sqlite:///path or postgresql://user:$ENV{PGPASSWORD}@host/database",
        )
    # By hand where urlsplit would put a $ENV{NAME} into lower case.
    login, _, place = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    if "host=" in parts.query or not place:
        raise ConfigError(
            "Spark reaches PostgreSQL over TCP only", where="[catalog] uri", hint="postgresql://user@host:5432/database"
        )
    out = {"uri": f"jdbc:postgresql://{place}{parts.path}" + (f"?{parts.query}" if parts.query else "")}
    if user:
        out["jdbc.user"] = unquote(user)
    if password:
        out["jdbc.password"] = unquote(password)
    return out


def _is_postgres(uri: str) -> bool:
    return uri.startswith(("postgresql:", "postgresql+", "postgres:"))


def _is_reference(uri: str | None) -> bool:
    """Whether the address as a whole comes from the environment: then it has to be looked up to be understood."""
    return (uri or "").startswith("$ENV{")


_JAVA_NAMES = {"s3.region": "client.region", "glue.region": "client.region"}


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
