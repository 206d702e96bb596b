"""The environment of processes that run user code: what an allow-list names, and never the project's own credentials.

A worker's environment holds the passwords of the state database and the catalog. Steps, pipeline files and the Spark server, whose
Python functions run in children of it, get :func:`for_user_code`. What a Spark step's own program needs beyond it goes through a file that
only its owner can read and that is gone before user code runs (:func:`hand_over`, :func:`take_over`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from icefloe import config as configuration
from icefloe.config import ENV_PREFIX, Config
from icefloe.credentials import Credentials, credentials, names_a_secret, settings
from icefloe.errors import ConfigError

ALLOWED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "HOSTNAME", "TZ", "LANG", "LANGUAGE", "LC_*"),
    *("TMPDIR", "TMP", "TEMP", "XDG_*", "LD_LIBRARY_PATH", "OMP_NUM_THREADS"),
    *("PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"),
    *("JAVA_HOME", "SPARK_*", "PYSPARK_*", "HADOOP_*", "HIVE_CONF_DIR", "YARN_CONF_DIR", "KRB5_CONFIG", "KRB5CCNAME"),
    *("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CA_BUNDLE"),
)
"""Always; ``[steps] environment`` adds to it. A name that sounds like a secret (``SPARK_AUTH_SECRET``) is not meant by a ``*`` here."""

OWN = ("ICEFLOE_CONFIG", "ICEFLOE_JARS", "ICEFLOE_SERVER_URL", "ICEFLOE_FAULT", "ICEFLOE_FAULT_ONCE")
"""Of Icefloe's own variables those that hold no secret. The others stay behind: settings may be passwords, a mirror's address may have one."""

_NEEDED = ("ICEFLOE_MAVEN_MIRROR", "ICEFLOE_IVY_SETTINGS")
PRIVATE_FILE = "private.json"


def for_user_code(
    config: Config | None = None, env: Mapping[str, str] | None = None, *, more: Iterable[str] = ()
) -> dict[str, str]:
    """What of this process's environment a process that runs user code may see. Without a configuration: that of the working folder."""
    env = os.environ if env is None else env
    if config is None:
        with suppress(ConfigError):
            config = configuration.load()
    known = None if config is None else credentials(config)
    patterns = (*more, *(() if config is None else config.steps.environment))
    return {
        name: value
        for name, value in env.items()
        if (name in OWN or (not name.startswith(ENV_PREFIX) and _is_allowed(name, patterns)))
        and not (known and known.hold(name, value) and not _is_for_spark(name, more, known))
    }


def for_spark(config: Config) -> dict[str, str]:
    """For Spark steps and the local server: also what reaches the tables' files, such as a cloud's credentials."""
    return for_user_code(config, more=config.spark.environment)


def for_spark_server(config: Config) -> dict[str, str]:
    """The server is a project's own, but Python functions of users run in children of it. Another Spark's variables would mislead it."""
    return {name: value for name, value in for_spark(config).items() if name not in ("SPARK_REMOTE", "SPARK_HOME")}


def hand_over(config: Config, folder: Path) -> None:
    """Leave the variables that the configuration itself needs for a program of Icefloe's own, in a file for its owner only."""
    env = configuration.variables()
    named = {name for _, value in settings(config) for name in configuration.references(value)}
    wanted = {
        name: value
        for name, value in env.items()
        if name in named or name in _NEEDED or (name.startswith(ENV_PREFIX) and "__" in name)
    }
    file = folder / PRIVATE_FILE
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        json.dump(wanted, stream)


def take_over(folder: Path, *, keep: bool = False) -> None:
    """In that program, first of all: what was handed over is known to its configuration, and the file is gone."""
    file = folder / PRIVATE_FILE
    try:
        configuration.entrust(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return
    if not keep:
        file.unlink(missing_ok=True)


def _is_allowed(name: str, more: Iterable[str]) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in more):
        return True
    return any(fnmatchcase(name, pattern) for pattern in ALLOWED) and not names_a_secret(name)


def _is_for_spark(name: str, more: Iterable[str], known: Credentials) -> bool:
    """``[spark] environment`` hands it over, and the configuration does not take it for itself."""
    return name not in known.variables and any(fnmatchcase(name, pattern) for pattern in more)
