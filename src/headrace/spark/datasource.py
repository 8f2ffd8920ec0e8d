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

from headrace.client.errors import ConfigError

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

    def reader(self, schema: StructType) -> DataSourceReader:
        from headrace.spark.batch_source import BatchSource

        self._check(schema)
        return BatchSource(self._source_options())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from headrace.spark.stream_source import StreamSource

        self._check(schema)
        return StreamSource(self._source_options())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from headrace.spark.batch_sink import batch_sink

        return batch_sink(dict(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from headrace.spark.stream_sink import stream_sink

        return stream_sink(dict(self.options), schema, overwrite=overwrite)

    def _check(self, schema: StructType) -> None:
        """As Spark's own source, this one has the columns that it has. Raises ConfigError."""
        wanted, fixed = schema.simpleString(), self.schema().simpleString()
        if wanted != fixed:
            raise ConfigError(
                [f"the columns cannot be chosen by schema(), they are {fixed}, not {wanted}: leave it out"]
            )

    def _source_options(self) -> "Options":
        from headrace.spark.source_options import source_options

        return source_options(dict(self.options))
