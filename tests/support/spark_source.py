"""Topics to read with Spark, and what comes out of them."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import headrace
import headrace.arrow

QUERY_SECONDS = 120


def fill(
    address: str,
    topic: str,
    values: Sequence[int],
    *,
    partition: int = 0,
    timestamps_ms: Sequence[int] | None = None,
    **configs: Any,
) -> None:
    """Records whose key and value are these numbers, in this partition."""
    texts = [str(value).encode() for value in values]
    columns: dict[str, Any] = {
        "key": texts,
        "value": texts,
        "partition": pa.array([partition] * len(texts), pa.int32()),
    }
    if timestamps_ms is not None:
        columns["timestamp"] = pa.array([each * 1000 for each in timestamps_ms], pa.timestamp("us", tz="UTC"))
    headrace.arrow.write(pa.table(columns), topic, address, **configs)


def batch(spark: SparkSession, address: str, **options: Any) -> DataFrame:
    return spark.read.format("headrace").options(**_named(address, options)).load()


def stream(spark: SparkSession, address: str, **options: Any) -> DataFrame:
    return spark.readStream.format("headrace").options(**_named(address, options)).load()


def _named(address: str, options: dict[str, Any]) -> dict[str, str]:
    """Keywords have `__` where names have dots."""
    named = {name.replace("__", "."): str(value) for name, value in options.items()}
    return {"kafka.bootstrap.servers": address, **named}


def numbers(frame: DataFrame) -> list[int]:
    """The values, sorted."""
    return sorted(int(bytes(row.value)) for row in frame.select("value").collect())


def start(frame: DataFrame, name: str, checkpoint: object, **trigger: Any) -> StreamingQuery:
    """Into the table in memory of this name; with no trigger, all that there is now."""
    writer = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def run(frame: DataFrame, name: str, checkpoint: object, **trigger: Any) -> list[dict[str, Any]]:
    """The progress of each micro-batch with rows, of a query that ends by itself."""
    query = start(frame, name, checkpoint, **trigger)
    assert query.awaitTermination(QUERY_SECONDS), "the query did not end"
    return [dict(each) for each in query.recentProgress if each["numInputRows"]]
