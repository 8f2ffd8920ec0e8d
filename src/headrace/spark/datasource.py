"""The format "headrace": what Spark asks for a reader or a writer, and nothing else.

Spark sends this object to the processes that plan and to the workers by reference, so Headrace must be installed where
the executors run. The parts are imported when they are asked for: a worker that reads does not load the sink.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from headrace.spark.options import Options

NAME: Final = "headrace"


def register(spark: SparkSession) -> None:
    """Teach this session the format "headrace"."""
    spark.dataSource.register(HeadraceSource)


class HeadraceSource(DataSource):
    """`spark.read`, `spark.readStream`, `df.write` and `df.writeStream` with `format("headrace")`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        from headrace.spark.source_schema import schema_of

        return schema_of(self._source_options())

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 Spark's own columns cannot be chosen
        from headrace.spark.batch_source import BatchSource

        return BatchSource(self._source_options())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        from headrace.spark.stream_source import StreamSource

        return StreamSource(self._source_options())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from headrace.spark.batch_sink import batch_sink

        return batch_sink(dict(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from headrace.spark.stream_sink import stream_sink

        return stream_sink(dict(self.options), schema, overwrite=overwrite)

    def _source_options(self) -> "Options":
        from headrace.spark.source_options import source_options

        return source_options(dict(self.options))
