"""A Spark session made well: the settings that pipelines over topics want, each with its reason.

    spark = headrace.spark.session("orders")
    spark = headrace.spark.session("orders", "spark://host:7077", spark_executor_memory="4g")
    spark = headrace.spark.session("orders", conf={"spark.sql.shuffle.partitions": 4})

No Java needs to be installed: see `headrace.spark.java`. What runs on a cluster's workers is the cluster's business:
Headrace must be installed there, and Java as well.
"""

import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, Final

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.spark.archive import archive_options
from headrace.spark.cache import cache_directory
from headrace.spark.datasource import register
from headrace.spark.java import find_java, java_home_for
from headrace.spark.master import check_master, local_cores

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_MAX_SHUFFLE_PARTITIONS: Final = 8

_EVERYWHERE: Final = {
    # State beside the heap instead of in it, and a micro-batch that writes what changed, not all that is known.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # It re-plans between stages of a batch query, streaming queries refuse it, and Spark warns about that each time.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",  # a window of a day must not depend on where the driver stands
    "spark.sql.execution.arrow.pyspark.enabled": "true",  # toPandas() and createDataFrame() by columns
    # A Python worker that starts on a busy machine may need longer than Spark's 15 seconds to call back.
    "spark.python.authenticate.socketTimeout": "2m",
    "spark.ui.showConsoleProgress": "false",  # a bar drawn over what the program prints
    "spark.ui.enabled": "false",  # a web server, and a port, that most programs do not look at; half a second at start
    # With it PySpark tells the JVM for each expression in which line it was made, for errors of rows to name it: three
    # calls in the place of one. A pipeline makes its expressions anew for each micro-batch, and its lines are ours.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

_LOCAL: Final = {
    # The default one forks `readlink` for each file that it touches: 50 to 120 ms for each micro-batch. Not on
    # clusters: HDFS has an atomic rename, which the default uses and this one does not.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Nothing outside this machine has to reach the driver; and the name of a laptop often leads nowhere.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def session(
    name: str, master: str = "local[*]", *, conf: Mapping[str, Any] | None = None, **settings: Any
) -> SparkSession:
    """The session of this process, which knows the format "headrace"; it is started if there is none.

    `settings` are Spark's with `_` for dots, `conf` has names as Spark writes them; both go before the settings made
    here. Raises ValueError, ConnectionError or NoJavaError, before Spark is started, if that could not go well.
    """
    given = _by_dots(settings) | {key: _text(value) for key, value in (conf or {}).items()}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers would take the python3 of the PATH
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        check_master(master)
        java = find_java(os.environ)
        home = java_home_for(java, cache_directory(os.environ), hides_spark_home=_workers_have_pyspark(master))
        with _java_home(home):
            spark = _get_or_create(name, master, session_settings(master, given, archive_options(java)))
    else:  # its JVM runs already
        spark = _get_or_create(name, master, session_settings(master, given))
    register(spark)
    return spark


def session_settings(master: str, given: Mapping[str, str], java_options: str = "") -> dict[str, str]:
    """What is set for a session on this master: the settings above, unless others are given."""
    cores = local_cores(master)
    made = _EVERYWHERE | (_LOCAL if cores is not None else {})
    # Spark's 200 tasks for each stateful micro-batch take seconds. A running query keeps the number that it began with.
    made["spark.sql.shuffle.partitions"] = str(min(cores or _MAX_SHUFFLE_PARTITIONS, _MAX_SHUFFLE_PARTITIONS))
    merged = {**made, **given}
    logging = f'"-Dlog4j2.configurationFile={files("headrace.spark").joinpath("log4j2.properties")}"'
    merged[_JAVA_OPTIONS] = " ".join(filter(None, (logging, java_options, given.get(_JAVA_OPTIONS))))
    return merged


def _get_or_create(name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _workers_have_pyspark(master: str) -> bool:
    """Whether the Python processes that Spark starts find this PySpark by themselves, without the zip of SPARK_HOME."""
    is_ours = local_cores(master) is not None and os.environ["PYSPARK_PYTHON"] == sys.executable
    is_installed = os.path.dirname(os.path.dirname(pyspark.__file__)) == sysconfig.get_path("purelib")
    return is_ours and is_installed and "SPARK_HOME" not in os.environ


def _by_dots(settings: Mapping[str, Any]) -> dict[str, str]:
    for name in settings:
        if not name.startswith("spark_"):
            raise ValueError(f"there is no setting {name}: Spark's begin with spark_, such as spark_driver_memory='2g'")
    return {name.replace("_", "."): _text(value) for name, value in settings.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def _java_home(home: str) -> Iterator[None]:
    """For as long as the JVM starts: other programs that this process starts get the JAVA_HOME that it was given."""
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = home
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before
