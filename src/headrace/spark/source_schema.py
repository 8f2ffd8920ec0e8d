"""The columns of the source: those of Spark's own Kafka source, in its order."""

from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.spark.options import Options

_COLUMNS: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
_HEADERS: Final = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)

# The same for Arrow, as Spark compares it: every field of a row may be null.
_ARROW: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
_ARROW_HEADERS: Final = pa.field(
    "headers", pa.list_(pa.field("element", pa.struct({"key": "string", "value": "binary"})))
)
# Where the columns of `protocol.columns` have another name.
_OURS: Final = {"timestampType": "timestamp_type"}


def schema_of(options: Options) -> StructType:
    return spark_schema(with_headers=options.values["includeHeaders"])


def spark_schema(*, with_headers: bool) -> StructType:
    fields = list(_COLUMNS.fields)
    return StructType([*fields, _HEADERS] if with_headers else fields)


def arrow_schema(*, with_headers: bool) -> Any:
    return _ARROW.append(_ARROW_HEADERS) if with_headers else _ARROW


def to_spark(batch: Any, schema: Any) -> Any:
    """A record batch of `protocol.columns`, as Spark wants it; no column is copied."""
    columns = [batch.column(_OURS.get(field.name, field.name)) for field in schema]
    if "headers" in schema.names:
        columns[-1] = columns[-1].cast(schema.field("headers").type)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
