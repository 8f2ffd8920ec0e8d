"""A Spark session made well: the settings that pipelines over topics want, each with its reason."""

import os
import sys
from typing import Any, Final

from pyspark.sql import SparkSession

from headrace.spark.datasource import register

_SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "2",  # 200 tasks for each stateful micro-batch cost seconds on one machine
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # The default one forks a process for each file that it touches.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
}


def session(name: str, master: str = "local[*]", **conf: Any) -> SparkSession:
    """The session of this process, which knows the format "headrace"; `conf` are Spark's settings, `_` for dots."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers would take the python3 of the PATH
    builder = SparkSession.builder.appName(name).master(master)
    given = {key.replace("_", "."): str(value) for key, value in conf.items()}
    for key, value in (_SETTINGS | given).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark
