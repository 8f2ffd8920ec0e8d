"""Where rows come from and go to: topics of a cluster, by the source and the sink of `headrace.spark`."""

from collections.abc import Mapping
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from headrace.spark.datasource import NAME
from headrace.spark.driver_sink import write_batch
from headrace.streams.compiler.data_frames import frame_records
from headrace.streams.plan import Source
from headrace.streams.shapes import Kind


class Topics(Protocol):
    """As the compiler sees them: a cluster's, or those of a test."""

    def read_stream(self, spark: SparkSession, source: Source, query: str) -> DataFrame:
        """New records, in the columns of the format "headrace"."""

    def read_table(self, spark: SparkSession, source: Source) -> DataFrame:
        """All records that there are now."""

    def write(self, records: DataFrame, batch_id: int, query: str) -> None:
        """Write a micro-batch: once, if it is called again for the same one."""


class ClusterTopics:
    """The sink commits the offsets of a query to the group `<app>.<query>`, in its transactions or after them."""

    def __init__(
        self,
        bootstrap: str,
        app: str,
        *,
        exactly_once: bool,
        starts: Mapping[tuple[str, str], str] | None = None,
        max_per_trigger: int | None = None,
        skips_lost: bool = False,
    ) -> None:
        """`starts` are starting offsets by query and source, for those which do not begin where the source says."""
        self._bootstrap = bootstrap
        self._app = app
        self._exactly_once = exactly_once
        self._starts = starts or {}
        self._max_per_trigger = max_per_trigger
        self._skips_lost = skips_lost

    def read_stream(self, spark: SparkSession, source: Source, query: str) -> DataFrame:
        if source.frame is not None:
            return frame_records(source, spark)
        start = self._starts.get((query, source.name), source.start)
        reader = spark.readStream.format(NAME).options(**self._options(source)).option("startingOffsets", start)
        if self._max_per_trigger is not None and source.shape.kind is Kind.STREAM:
            reader = reader.option("maxOffsetsPerTrigger", self._max_per_trigger)
        reader = reader.option("failOnDataLoss", str(not self._skips_lost).lower())
        if self._exactly_once:  # else the group would have two who commit to it, and lose the marker of what is written
            return reader.option("commitOffsets", "false").load()
        return reader.option("kafka.group.id", self._group(query)).load()

    def read_table(self, spark: SparkSession, source: Source) -> DataFrame:
        return spark.read.format(NAME).options(**self._options(source)).load()

    def write(self, records: DataFrame, batch_id: int, query: str) -> None:
        guarantee = "exactly_once" if self._exactly_once else "at_least_once"
        write_batch(records, batch_id, bootstrap=self._bootstrap, app=self._group(query), guarantee=guarantee)

    def _group(self, query: str) -> str:
        return f"{self._app}.{query}"

    def _options(self, source: Source) -> dict[str, str]:
        what = (
            ("subscribePattern", source.pattern)
            if source.pattern is not None
            else ("subscribe", ",".join(source.topics))
        )
        return {
            "kafka.bootstrap.servers": self._bootstrap,
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
            what[0]: what[1],
        }
