"""Records of a topic as rows: keys and values decoded by their serdes, and what could not be, with the reason.

A row whose `_error` is not NULL is a poison pill. Everything happens in Spark's own functions, without Python, save for
serdes of the user's own. A column that key and value have both is the key's; without a key, the value's.

A time beyond the years 1 to 9999 is a poison pill, too. Python has none, so that it would stop every function that is
given its row; and it mostly is one in milliseconds where JSON has seconds, which as the time of a row would make all
others late.
"""

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.streams.compiler.columns import column, to_column
from headrace.streams.compiler.rows import DELETED, ERROR, STAMP, TIME, VALUE
from headrace.streams.expressions import Expression
from headrace.streams.failing import error_text, misfit_text
from headrace.streams.functions import Function
from headrace.streams.plan import PROCESSING_TIME, Source
from headrace.streams.schema import names, schema_text
from headrace.streams.serdes import BytesSerde, JsonSerde, LongSerde, OwnSerde, Serde, StringSerde
from headrace.streams.shapes import Kind
from headrace.streams.whole_numbers import array_of

_CORRUPT: Final = "_corrupt"
_LONG_BYTES: Final = 8
_FIRST_TIME: Final = "0001-01-01"
_LAST_TIME: Final = "9999-12-31T23:59:59.999999Z"


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
    return _with_time(rows if source.internal else _with_times(rows, source), source)


def _with_times(rows: DataFrame, source: Source) -> DataFrame:
    """With an error for those which have a time in their columns that cannot be."""
    beyond = {name: _is_beyond(column(name), rows.schema[name].dataType) for name in names(source.shape.columns)}
    errors = [F.when(it, _beyond(f"the column {name}")) for name, it in beyond.items() if it is not None]
    return rows.withColumn(ERROR, F.coalesce(F.col(ERROR), *errors)) if errors else rows


def _is_beyond(value: Column, kind: DataType) -> Column | None:
    """Whether there is a time before the year 1 or after the year 9999 in it; None if it can have none."""
    match kind:
        case TimestampType() | TimestampNTZType() | DateType():
            first, last = (F.lit(each).cast(kind) for each in (_FIRST_TIME, _LAST_TIME))
            return F.coalesce((value < first) | (value > last), F.lit(False))
        case StructType():
            inner = (_is_beyond(value.getField(field.name), field.dataType) for field in kind.fields)
            found = [each for each in inner if each is not None]
            return reduce(operator.or_, found) if found else None
        case ArrayType():
            element = kind.elementType
            if _is_beyond(value, element) is None:
                return None
            return F.coalesce(F.exists(value, lambda each: cast("Column", _is_beyond(each, element))), F.lit(False))
        case MapType():
            entry = StructType([StructField("key", kind.keyType), StructField("value", kind.valueType)])
            return _is_beyond(F.map_entries(value), ArrayType(entry))
    return None


def _beyond(what: str) -> Column:
    return F.lit(f"{what} is beyond the years 1 to 9999")


def _with_time(rows: DataFrame, source: Source) -> DataFrame:
    if source.time == PROCESSING_TIME:
        return rows.withColumn(TIME, F.current_timestamp())
    if not isinstance(source.time, Expression):
        return rows
    time = to_column(source.time).cast("timestamp")
    # A tombstone has no columns to take its time from, and keeps that of its record.
    missing = time.isNull() & ~F.col(DELETED)
    is_beyond = cast("Column", _is_beyond(time, TimestampType()))
    said = f"its time, {source.time},"
    error = F.when(missing, F.lit(f"{said} is NULL")).when(is_beyond, _beyond(said))
    return rows.withColumns(
        {ERROR: F.coalesce(F.col(ERROR), error), TIME: F.coalesce(F.when(~is_beyond, time), F.col(TIME))}
    )


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
            array_of([made], result)
        except Exception as error:  # whatever is said of what a user's function gave
            return {"error": misfit_text(error)}
        return made

    def decode(records: pa.Array) -> pa.Array:
        made = [one(data) for data in records.to_pylist()]
        try:
            return array_of(made, result)
        except Exception:  # one of them, so all are judged
            return pa.array([judged(each) for each in made], result)

    return decode


def _error(data: Column, wrong: Column, reason: str) -> Column:
    return F.when(data.isNotNull() & wrong, F.lit(reason))


def _parsed(which: str) -> str:
    return f"_parsed_{which}"
