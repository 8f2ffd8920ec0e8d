"""Records of a topic as rows: keys and values decoded by their serdes, and what could not be, with the reason.

A row whose `_error` is not NULL is a poison pill. Everything happens in Spark's own functions, without Python, save for
serdes of the user's own. A column that key and value have both is the key's; without a key, the value's.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from headrace.streams.compiler.columns import to_column
from headrace.streams.compiler.rows import DELETED, ERROR, STAMP, TIME, VALUE
from headrace.streams.expressions import Expression
from headrace.streams.failing import error_text, misfit_text
from headrace.streams.functions import Function
from headrace.streams.plan import PROCESSING_TIME, Source
from headrace.streams.schema import names, schema_text
from headrace.streams.serdes import BytesSerde, JsonSerde, LongSerde, OwnSerde, Serde, StringSerde
from headrace.streams.shapes import Kind

_CORRUPT: Final = "_corrupt"
_LONG_BYTES: Final = 8


class _Part(NamedTuple):
    """A key or a value. `columns` and `error` read `parsed`, if there is one, which is made once."""

    parsed: Column | None
    columns: Mapping[str, Column]
    error: Column


def decoded(raw: DataFrame, source: Source, internal: StructType | None = None) -> DataFrame:
    """`raw` has the columns of the format "headrace". `internal` are the columns of a topic between two queries."""
    parts = {"value": _part("value", source.value, internal)}
    if source.key is not None:
        keys = None if internal is None else StructType([internal[name] for name in source.shape.key])
        parts["key"] = _part("key", source.key, keys)
    parsed = raw.withColumns({_parsed(which): it.parsed for which, it in parts.items() if it.parsed is not None})
    rows = parsed.select(
        *(_found(name, parts).alias(name) for name in names(source.shape.columns)),
        F.col("key").alias("_key"),
        F.col("topic").alias("_topic"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias(TIME),
        F.col("timestamp").alias(STAMP),
        F.col("headers").alias("_headers"),
        F.col("value").alias(VALUE),
        F.col("value").isNull().alias(DELETED),
        F.coalesce(*(part.error for part in parts.values()), _missing_key(source)).alias(ERROR),
    )
    return _with_time(rows, source)


def _with_time(rows: DataFrame, source: Source) -> DataFrame:
    if source.time == PROCESSING_TIME:
        return rows.withColumn(TIME, F.current_timestamp())
    if not isinstance(source.time, Expression):
        return rows
    time = to_column(source.time).cast("timestamp")
    # A tombstone has no columns to take its time from, and keeps that of its record.
    missing = time.isNull() & ~F.col(DELETED) & F.col(ERROR).isNull()
    error = F.when(missing, F.lit(f"its time, {source.time}, is NULL")).otherwise(F.col(ERROR))
    return rows.withColumns({ERROR: error, TIME: F.coalesce(time, F.col(TIME))})


def _missing_key(source: Source) -> Column:
    if source.shape.kind is Kind.STREAM:
        return F.lit(None).cast("string")
    return F.when(F.col("key").isNull(), F.lit("it has no key, and in a table nothing can be without"))


def _found(name: str, parts: Mapping[str, _Part]) -> Column:
    found = [
        parts[which].columns[name] for which in ("key", "value") if which in parts and name in parts[which].columns
    ]
    return F.coalesce(*found)


def _part(which: str, serde: Serde, internal: StructType | None) -> _Part:
    data = F.col(which)
    match serde:
        case JsonSerde():
            schema = internal if serde.columns is None else StructType.fromDDL(schema_text(serde.columns))
            assert schema is not None, serde
            return _json(which, data, schema)
        case StringSerde():
            text = data.cast("string")
            made = text if serde.type == "string" else text.try_cast(serde.type)
            wrong = ~F.is_valid_utf8(text) | made.isNull()
            return _Part(None, {serde.column: made}, _error(data, wrong, f"the {which} is not text for a {serde.type}"))
        case LongSerde():
            number = F.conv(F.hex(data), 16, -10).cast("bigint")
            wrong = F.length(data) != _LONG_BYTES
            return _Part(None, {serde.column: number}, _error(data, wrong, f"the {which} is not a long of eight bytes"))
        case BytesSerde():
            return _Part(None, {serde.column: data}, F.lit(None).cast("string"))
        case OwnSerde():
            return _own(which, data, serde)


def _json(which: str, data: Column, schema: StructType) -> _Part:
    text = data.cast("string")
    whole = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    made = F.col(_parsed(which))
    wrong = made.isNull() | made[_CORRUPT].isNotNull() | ~F.is_valid_utf8(text)
    reason = f"the {which} is not JSON that fits {schema.simpleString()}"
    columns = {field.name: made[field.name] for field in schema.fields}
    return _Part(F.from_json(text, whole, options), columns, _error(data, wrong, reason))


def _own(which: str, data: Column, serde: OwnSerde) -> _Part:
    row = StructType.fromDDL(schema_text(serde.columns))
    result = StructType([StructField("row", row), StructField("error", StringType())])
    assert serde.decode is not None, serde
    made = F.col(_parsed(which))
    call = F.arrow_udf(decoder(serde.decode, to_arrow_schema(row, timezone="UTC")), result)
    columns = {field.name: made["row"][field.name] for field in row.fields}
    return _Part(call(data), columns, F.concat(F.lit(f"the {which}: "), made["error"]))


def decoder(function: Function, schema: pa.Schema) -> Callable[[pa.Array], pa.Array]:
    """The user's function over many records: of each a row that fits the schema, or the text of what is wrong."""
    call, columns, row_type = function.call, schema.names, pa.struct(list(schema))
    result = pa.struct([("row", row_type), ("error", pa.string())])
    assert call is not None, function

    def one(data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            row = call(data)
            return None if row is None else {"row": {name: row.get(name) for name in columns}}
        except Exception as error:  # whatever it is, it is the record's fault: it goes to the dead letters
            return {"error": error_text(error)}

    def judged(made: Any) -> Any:
        try:
            pa.array([made], result)
        except Exception as error:  # whatever Arrow says of what a user's function gave
            return {"error": misfit_text(error)}
        return made

    def decode(records: pa.Array) -> pa.Array:
        made = [one(data) for data in records.to_pylist()]
        try:
            return pa.array(made, result)
        except Exception:  # one of them, so all are judged
            return pa.array([judged(each) for each in made], result)

    return decode


def _error(data: Column, wrong: Column, reason: str) -> Column:
    return F.when(data.isNotNull() & wrong, F.lit(reason))


def _parsed(which: str) -> str:
    return f"_parsed_{which}"
