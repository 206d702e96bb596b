"""Becomes ``spark-submit``: a step whose Spark is an application of its own, on any master.

``python -m icefloe.spark.submit ORDER.json`` writes the settings to a file that only its owner can read and then *becomes*
spark-submit, which runs :mod:`icefloe.spark.submitted` as the driver. So the process that the engine supervises is the
application: its exit code is the driver's, and ending it ends the application, its jobs included. The driver runs where the
worker is (client mode); the master decides where the executors are.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from icefloe import config as configuration
from icefloe.config import Config
from icefloe.environment import take_over
from icefloe.spark import jars, java, memory
from icefloe.spark.launch import QUIET_LOG
from icefloe.spark.program import report, say
from icefloe.spark.program_order import PROPERTIES, ProgramOrder
from icefloe.spark.server_record import private_file
from icefloe.spark.settings import as_properties, for_joining

_MAIN = "import sys\nfrom icefloe.spark.submitted import main\nsys.exit(main())\n"


def main() -> int:
    file = Path(sys.argv[1])

    def become() -> None:
        take_over(file.parent, keep=True)  # the driver needs it too
        order = ProgramOrder.read(file)
        config = configuration.load(Path(order.config))
        argv, environment = command(config, order, file)
        os.chdir(config.root)
        os.execve(argv[0], argv, environment)

    return report(become, {})


def command(config: Config, order: ProgramOrder, order_file: Path) -> tuple[list[str], dict[str, str]]:
    """The command line, which holds no secret, and its environment."""
    folder = order_file.parent
    runtime = java.find(config.spark.java_home)
    paths = jars.ensure(jars.required(config), runtime.launcher, note=say)
    private_file(folder / PROPERTIES, as_properties(properties(config, order, paths, folder)) + "\n")
    private_file(folder / "submitted_main.py", _MAIN)
    home = spark_home()
    argv = [
        str(home / "bin" / "spark-submit"),
        *("--master", order.master or config.spark.master),
        *("--name", order.branch.removeprefix("icefloe_attempt__")),
        *("--properties-file", str(folder / PROPERTIES)),
        str(folder / "submitted_main.py"),
        str(order_file),
    ]
    dropped = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment |= {
        "JAVA_HOME": str(runtime.launcher.parent.parent),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    return argv, environment


def properties(config: Config, order: ProgramOrder, paths: list[Path], folder: Path) -> dict[str, str]:
    """What ``icefloe spark-conf`` prints, then the step's own, which win."""
    logging = folder / "log4j2.properties"
    logging.write_text(QUIET_LOG, encoding="utf-8")
    settings = {
        "spark.driver.memory": config.spark.driver_memory or memory.SUBMITTED,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **for_joining(config, paths, reveal=True),
        **order.conf,
    }
    options = settings.get("spark.driver.extraJavaOptions", "")
    settings["spark.driver.extraJavaOptions"] = f"{options} -Dlog4j2.configurationFile={logging.as_uri()}".strip()
    return settings


def spark_home() -> Path:
    """The Spark that ``SPARK_HOME`` names, else the one inside PySpark."""
    configured = os.environ.get("SPARK_HOME")
    return Path(configured) if configured else jars.spark_jars_folder().parent


if __name__ == "__main__":
    sys.exit(main())
