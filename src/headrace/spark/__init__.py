"""Topics in Spark, with pip alone: a source, an exactly-once sink, and a session made well.

    import headrace.spark

    spark = headrace.spark.session("orders")        # on this machine; any cluster by master="spark://..."
    topic = spark.readStream.format("headrace").option("kafka.bootstrap.servers", address).option("subscribe", "orders")
    orders = topic.load()

Columns and options are those of Spark's own Kafka source, so changing the format's name is the whole migration. A
session that was made otherwise learns the format by `headrace.spark.register(spark)`. Works with Apache Kafka as with
Headrace; needs `pip install headrace[spark]`.
"""

from headrace.spark.archive import make_archive
from headrace.spark.datasource import register
from headrace.spark.driver_sink import batch_writer, write_batch
from headrace.spark.session import session

__all__ = ["batch_writer", "make_archive", "register", "session", "write_batch"]
