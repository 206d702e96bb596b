"""One stage of the playback pipeline as a cron job runs it: ``spark-submit lookback.py SELECT_FILE TARGET``.

Plain PySpark. The SELECT names its own window; the days it has rows for are overwritten.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

select, target = Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2]
spark = SparkSession.builder.appName(f"lookback {target}").getOrCreate()
spark.sql(f"INSERT OVERWRITE {target} {select}")
spark.stop()
