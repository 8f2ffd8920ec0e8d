"""Topics as directories of small files: what a test of a pipeline runs on instead of a cluster.

Rows have the columns of the format "headrace", so that everything behind the source is what runs in production. Each
feed and each micro-batch that writes is one file; a file appears whole, by a rename.
"""

import os
import re
import threading
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.spark.source_schema import arrow_schema, spark_schema
from headrace.streams.feeding import Record
from headrace.streams.plan import Source

_SCHEMA: Final = spark_schema(with_headers=True)
_ARROW: Final = arrow_schema(with_headers=True)


class DirectoryTopics:
    """Every topic has one partition."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._ends: dict[str, int] = {}
        self._lock = threading.Lock()  # each query writes on a thread of its own

    def append(self, topic: str, records: list[Record]) -> None:
        with self._lock:
            self._append(topic, records)

    def _append(self, topic: str, records: list[Record]) -> None:
        start = self._ends.get(topic, 0)
        rows = [
            {
                "key": record.key,
                "value": record.value,
                "topic": topic,
                "partition": 0,
                "offset": start + number,
                "timestamp": record.timestamp,
                "timestampType": 0,
                "headers": [{"key": name, "value": value} for name, value in record.headers],
            }
            for number, record in enumerate(records)
        ]
        path = os.path.join(self._path(topic), f"{start:020d}.parquet")
        hidden = os.path.join(self._path(topic), f"_{start:020d}")  # Spark does not look at names with an underscore
        pq.write_table(pa.Table.from_pylist(rows, schema=_ARROW), hidden)
        os.rename(hidden, path)
        self._ends[topic] = start + len(records)

    def records(self, topic: str) -> list[Record]:
        """All of a topic, in order."""
        rows = [row for name in sorted(os.listdir(self._path(topic))) for row in self._rows(topic, name)]
        return [_record(row) for row in rows]

    def has_records(self, source: Source) -> bool:
        return any(
            end > 0
            for topic, end in self._ends.items()
            if topic in source.topics or (source.pattern is not None and re.fullmatch(source.pattern, topic))
        )

    def read_stream(self, spark: SparkSession, source: Source, query: str) -> DataFrame:  # noqa: ARG002
        reader = spark.readStream.schema(_SCHEMA)
        if source.pattern is not None:
            whole = reader.option("recursiveFileLookup", "true").parquet(self._directory)
            return whole.where(F.col("topic").rlike(f"^({source.pattern})$"))
        reads = [reader.parquet(self._path(topic)) for topic in source.topics]
        whole = reads[0]
        for other in reads[1:]:
            whole = whole.unionByName(other)
        return whole

    def read_table(self, spark: SparkSession, source: Source) -> DataFrame:
        return spark.read.schema(_SCHEMA).parquet(*(self._path(topic) for topic in source.topics))

    def write(self, records: DataFrame, batch_id: int, query: str) -> None:  # noqa: ARG002
        by_topic: dict[str, list[Record]] = {}
        for row in records.toArrow().to_pylist():
            by_topic.setdefault(row["topic"], []).append(_record(row))
        for topic, made in by_topic.items():
            self.append(topic, made)

    def _rows(self, topic: str, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(os.path.join(self._path(topic), name)).to_pylist()
        return rows

    def _path(self, topic: str) -> str:
        path = os.path.join(self._directory, topic)
        os.makedirs(path, exist_ok=True)
        return path


def _record(row: dict[str, Any]) -> Record:
    at: datetime = row["timestamp"]
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    return Record(row["key"], row["value"], at.astimezone(UTC), headers)
