"""A DataFrame as a source of an app.

It is read as if its rows were records with a JSON object as their value: so everything behind it
is what runs for topics. It moves to the app's own session, whose settings the app relies on.

But they have no place in a topic: partition and offset are NULL, and within a micro-batch time alone orders them.
"""

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.streams.compiler.columns import column
from headrace.streams.plan import Source
from headrace.streams.serdes import StringSerde

_JSON: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}  # microseconds, so that nothing is lost
_HEADERS: Final = "array<struct<key:string,value:binary>>"


def frame_records(source: Source, spark: SparkSession) -> DataFrame:
    """In the columns of the format "headrace"."""
    rows = in_session(source.frame, spark)
    key = column(source.key.column).cast("string") if isinstance(source.key, StringSerde) else F.lit(None)
    return rows.select(
        key.cast("binary").alias("key"),
        F.to_json(F.struct(*map(column, rows.columns)), _JSON).cast("binary").alias("value"),
        F.lit(source.topics[0]).alias("topic"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        F.current_timestamp().alias("timestamp"),
        F.lit(0).alias("timestampType"),
        F.lit(None).cast(_HEADERS).alias("headers"),
    )


def in_session(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """The same DataFrame, of another session of the same Spark."""
    made: Any = spark
    java: Any = frame._jdf
    plan = java.queryExecution().logical()
    return DataFrame(made._jvm.org.apache.spark.sql.classic.Dataset.ofRows(made._jsparkSession, plan), spark)
