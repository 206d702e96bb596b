"""The command that starts a project's Spark Connect server.

Java runs Spark's server class directly: no ``spark-submit`` (which starts a second JVM first) and no ``spark-defaults.conf``
of the machine, so the server is told by ``icefloe.toml`` alone. Settings go through an argument file that only the owner can
read, since a command line is shown to every user of the machine and settings hold passwords.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from icefloe.config import Config
from icefloe.spark import memory
from icefloe.spark.jars import spark_jars_folder
from icefloe.spark.java import Java
from icefloe.spark.server_record import ServerFolder, private_file

CORES = "spark.icefloe.cores"
SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"

# What Spark 4.1's own launcher passes (org.apache.spark.launcher.JavaModuleOptions); a test compares the two.
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.invoke=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.cs=ALL-UNNAMED",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
    "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED",
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)

QUIET_LOG = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
"""


@dataclass(frozen=True)
class ServerCommand:
    """How to start one server: everything but its port and token, which are new each time."""

    java: Java
    options: tuple[str, ...]
    classpath: tuple[str, ...]
    conf: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """Equal for equal commands; says nothing about the values."""
        text = json.dumps([str(self.java.launcher), self.options, self.classpath, sorted(self.conf.items())])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def write(self, folder: ServerFolder, *, port: int, token: str) -> list[str]:
        """Write the argument file; returns the command that uses it."""
        conf = {
            **self.conf,
            "spark.connect.grpc.binding.address": "localhost",
            "spark.connect.grpc.binding.port": str(port),
            "spark.connect.authenticate.token": token,
        }
        logging = folder.path / "log4j2.properties"
        logging.write_text(QUIET_LOG, encoding="utf-8")
        arguments = [
            *self.options,
            f"-Dlog4j2.configurationFile={logging}",
            *(f"-D{key}={value}" for key, value in conf.items()),
            *("-cp", os.pathsep.join(self.classpath)),
            SERVER_CLASS,
        ]
        private_file(folder.arguments, "".join(f"{_quoted(argument)}\n" for argument in arguments))
        return [str(self.java.launcher), f"@{folder.arguments}"]


def server_command(
    config: Config,
    java: Java,
    jars: Sequence[Path],
    folder: ServerFolder,
    env: Mapping[str, str] | None = None,
) -> ServerCommand:
    """The command for this configuration."""
    env = os.environ if env is None else env
    scratch = str(folder.path / "scratch")
    conf = {
        "spark.master": config.spark.master,
        "spark.app.name": "icefloe",
        "spark.ui.enabled": "false",
        # Several clients share the server: small statements must not wait behind somebody's big one.
        "spark.scheduler.mode": "FAIR",
        **local_settings(config.spark.master),
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": str(folder.path / "warehouse"),
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        **config.spark_conf(),
    }
    options = (
        *MODULE_OPTIONS,
        f"-Xmx{config.spark.driver_memory or memory.of_the_server()}",
        "-XX:+UseParallelGC",
        # An embedded server that ran out of memory is of no use to anyone: it ends, and the next client starts a new one.
        "-XX:+ExitOnOutOfMemoryError",
        f"-Djava.io.tmpdir={scratch}",
        *config.spark.conf.get("spark.driver.extraJavaOptions", "").split(),
    )
    # HADOOP_CONF_DIR as spark-submit reads it: where a Hive or HDFS user's core-site.xml is.
    hadoop = [env[name] for name in ("HADOOP_CONF_DIR",) if env.get(name)]
    own = sorted(str(jar) for jar in spark_jars_folder().glob("*.jar"))
    extra = [str((config.root / jar).resolve()) for jar in config.spark.extra_jars]
    classpath = (*hadoop, *own, *map(str, jars), *extra)
    return ServerCommand(java, options, classpath, conf)


def local_cores(master: str) -> int | None:
    """Of a local master on this machine; ``None``: it is another one."""
    match = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", master)
    if match is None:
        return None
    return os.cpu_count() or 1 if match[1] == "*" else int(match[1] or 1)


def local_settings(master: str) -> dict[str, str]:
    """By the number of a local master's cores, and measured there (``docs/benchmarks.md``)."""
    cores = local_cores(master)
    if cores is None:
        return {}
    return {
        # For the write planner, which asks the session that will run its plan.
        CORES: str(cores),
        # Spark's default of 200 is for a cluster. It merges parts into a few tasks; what it reads part by part it also groups part by
        # part, in memory that stays near: a million rows in groups of one or two take a sixth less than with four for each core.
        "spark.sql.shuffle.partitions": str(16 * cores),
        # A task writes its parts into one file, sorted: a file for each part, Spark's way below 200 of them, takes a tenth of a micro-batch.
        "spark.shuffle.sort.bypassMergeThreshold": "1",
        # What is shuffled stays on this machine, and mostly in its memory: packing it takes a twenty-fifth of a day's load.
        "spark.shuffle.compress": "false",
        # Iceberg would read a table in as many tasks as there are parts, and a task takes some 5 ms besides what it reads.
        "spark.sql.iceberg.read.adaptive-split-size.parallelism": str(4 * cores),
    }


def _quoted(argument: str) -> str:
    """One argument in Java's argument file syntax."""
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
