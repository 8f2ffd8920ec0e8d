"""Rows as records: what `to` writes. The columns of the result are those that the sink of `headrace.spark` knows.

Serdes of the user's own have been called already: see `functions.py`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.streams.compiler.columns import column, to_column
from headrace.streams.compiler.functions import ENCODED
from headrace.streams.compiler.rows import DELETED, TIME
from headrace.streams.plan import Sink
from headrace.streams.schema import names
from headrace.streams.serdes import BytesSerde, JsonSerde, LongSerde, OwnSerde, Serde, StringSerde

TIME_FORMAT: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"  # microseconds, so that it reads back as what it was
HEADERS: Final = "array<struct<key:string,value:binary>>"
_JSON: Final = {
    "timestampFormat": TIME_FORMAT,
    "ignoreNullFields": "false",  # all columns are there, and NULL is null
}


def records(rows: DataFrame, sink: Sink) -> DataFrame:
    topic = F.lit(sink.topic) if isinstance(sink.topic, str) else to_column(sink.topic).cast("string")
    return rows.select(
        topic.alias("topic"),
        _key(rows, sink).alias("key"),
        F.when(F.col(DELETED), F.lit(None)).otherwise(_value(sink)).alias("value"),
        _headers(rows).alias("headers"),
        F.col(TIME).alias("timestamp"),
    )


def _key(rows: DataFrame, sink: Sink) -> Column:
    key = sink.shape.key
    if sink.key is not None:
        return _encoded("key", sink.key, key)
    if not key:
        return F.col("_key") if "_key" in rows.columns else F.lit(None).cast("binary")
    return default_key(key)


def default_key(key: tuple[str, ...]) -> Column:
    """Unless the sink says otherwise: the text of the only column, or a JSON object of several."""
    return _text(column(key[0])) if len(key) == 1 else json_object(key)


def _value(sink: Sink) -> Column:
    every = names(sink.shape.columns)
    return json_object(every) if sink.value is None else _encoded("value", sink.value, every)


def _headers(rows: DataFrame) -> Column:
    return F.col("_headers") if "_headers" in rows.columns else F.lit(None).cast(HEADERS)


def _encoded(part: str, serde: Serde, every: tuple[str, ...]) -> Column:
    match serde:
        case JsonSerde():
            return json_object(every if serde.columns is None else names(serde.columns))
        case StringSerde():
            return _text(column(serde.column))
        case LongSerde():
            return F.unhex(F.lpad(F.hex(column(serde.column).cast("bigint")), 16, "0"))
        case BytesSerde():
            return column(serde.column).cast("binary")
        case OwnSerde():
            return F.col(ENCODED[part])


def json_object(columns: tuple[str, ...]) -> Column:
    return F.to_json(F.struct(*map(column, columns)), _JSON).cast("binary")


def iso(time: Column) -> Column:
    return F.date_format(time, TIME_FORMAT)


def _text(made: Column) -> Column:
    return made.cast("string").cast("binary")
