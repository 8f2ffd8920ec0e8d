"""Topics to read with Spark, and what comes out of them."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import headrace
import headrace.arrow

QUERY_SECONDS = 600  # so long the machine may be busy; a query that needs it hangs


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


def offsets_in(position: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """A position without the ids of its topics."""
    return {topic: partitions for topic, partitions in position.items() if partitions}


def numbers(frame: DataFrame) -> list[int]:
    """The values, sorted."""
    return sorted(int(bytes(row.value)) for row in frame.select("value").collect())


class Rows:
    """Where a streaming query leaves its rows: on the driver, so that it may be stopped and go on."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def add(self, frame: DataFrame, _: int) -> None:
        self.batches.append(numbers(frame))

    @property
    def values(self) -> list[int]:
        """All so far, sorted."""
        return sorted(value for batch in self.batches for value in batch)

    def start(self, frame: DataFrame, checkpoint: object, **trigger: Any) -> StreamingQuery:
        """With no trigger, a query that reads what there is now and ends."""
        writer = frame.writeStream.foreachBatch(self.add).option("checkpointLocation", str(checkpoint))
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def run(self, frame: DataFrame, checkpoint: object) -> list[dict[str, Any]]:
        """Until it ends by itself; the progress of each micro-batch with rows."""
        query = self.start(frame, checkpoint)
        assert query.awaitTermination(QUERY_SECONDS), "the query did not end"
        return [dict(each) for each in query.recentProgress if each["numInputRows"]]
