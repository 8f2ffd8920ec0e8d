"""Topics in Spark, with pip alone: a source, an exactly-once sink, and a session made well.

    import headrace.spark

    spark = headrace.spark.session("orders")        # on this machine; any cluster by master="spark://..."
    topic = spark.readStream.format("headrace").option("kafka.bootstrap.servers", address).option("subscribe", "orders")
    orders = topic.load()

Columns and options are those of Spark's own Kafka source, so changing the format's name is the whole migration. A
session that was made otherwise learns the format by `headrace.spark.register(spark)`. Works with Apache Kafka as with
Headrace; needs `pip install headrace[spark]`.

Importing this loads nothing yet: Spark starts a process for each query that imports it, and waits ten seconds at most.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

__all__ = ["batch_writer", "make_archive", "register", "session", "write_batch"]

if TYPE_CHECKING:
    from headrace.spark.archive import make_archive
    from headrace.spark.datasource import register
    from headrace.spark.driver_sink import batch_writer, write_batch
    from headrace.spark.spark_session import session

# Where each name lives; the module is imported when the name is first asked for.
_LAZY: Final = {
    "batch_writer": "headrace.spark.driver_sink",
    "make_archive": "headrace.spark.archive",
    "register": "headrace.spark.datasource",
    "session": "headrace.spark.spark_session",
    "write_batch": "headrace.spark.driver_sink",
}
_NEEDED: Final = ("numpy", "pandas", "pyarrow", "pyspark")


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'headrace.spark' has no attribute {name!r}")
    try:
        module = import_module(_LAZY[name])
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        raise ModuleNotFoundError(
            f"headrace.spark needs {error.name}, which is not installed: pip install 'headrace[spark]'", name=error.name
        ) from None
    found = globals()[name] = getattr(module, name)
    return found
