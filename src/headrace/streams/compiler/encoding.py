"""Rows as records: what `to` writes. The columns of the result are those that the sink of `headrace.spark` knows."""

from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType

from headrace.streams.compiler.columns import column, to_column
from headrace.streams.compiler.rows import DELETED, ERROR, TIME, VALUE
from headrace.streams.plan import DeadLetters, Sink, Source
from headrace.streams.schema import names
from headrace.streams.serdes import BytesSerde, JsonSerde, LongSerde, OwnSerde, Serde, StringSerde

_JSON: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",  # microseconds, so that it reads back as what it was
    "ignoreNullFields": "false",  # all columns are there, and NULL is null
}
_HEADERS: Final = "array<struct<key:string,value:binary>>"
ERROR_HEADER: Final = "headrace.error"


def records(rows: DataFrame, sink: Sink) -> DataFrame:
    topic = F.lit(sink.topic) if isinstance(sink.topic, str) else to_column(sink.topic).cast("string")
    value = _value(sink)
    return rows.select(
        topic.alias("topic"),
        _key(rows, sink).alias("key"),
        F.when(F.col(DELETED), F.lit(None)).otherwise(value).alias("value"),
        _headers(rows).alias("headers"),
        F.col(TIME).alias("timestamp"),
    )


def dead_records(rows: DataFrame, sink: DeadLetters, app: str) -> DataFrame:
    """Bytes and headers as they were, and headers that say where it was, when, and what is wrong with it."""
    source = sink.input
    assert isinstance(source, Source), source
    said = {
        ERROR_HEADER: F.col(ERROR),
        "headrace.app": F.lit(app),
        "headrace.operator": F.lit(source.name),
        "headrace.topic": F.col("_topic"),
        "headrace.partition": F.col("_partition").cast("string"),
        "headrace.offset": F.col("_offset").cast("string"),
        "headrace.failed-at": F.date_format(F.current_timestamp(), _JSON["timestampFormat"]),
    }
    added = F.array(
        *(F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value")) for name, text in said.items())
    )
    before = F.coalesce(F.col("_headers"), F.array().cast(_HEADERS))
    return rows.where(F.col(ERROR).isNotNull()).select(
        F.lit(sink.topic).alias("topic"),
        F.col("_key").alias("key"),
        F.col(VALUE).alias("value"),
        F.concat(before, added.cast(_HEADERS)).alias("headers"),
        F.col(TIME).alias("timestamp"),
    )


def _key(rows: DataFrame, sink: Sink) -> Column:
    key = sink.shape.key
    if sink.key is not None and not isinstance(sink.key, JsonSerde):
        return _encoded(sink.key, names(sink.shape.columns))
    if sink.key is not None:
        return _json(key if sink.key.columns is None else names(sink.key.columns))
    if not key:
        return F.col("_key") if "_key" in rows.columns else F.lit(None).cast("binary")
    if len(key) == 1:
        return _text(column(key[0]))
    return _json(key)


def _value(sink: Sink) -> Column:
    every = names(sink.shape.columns)
    return _json(every) if sink.value is None else _encoded(sink.value, every)


def _headers(rows: DataFrame) -> Column:
    return F.col("_headers") if "_headers" in rows.columns else F.lit(None).cast(_HEADERS)


def _encoded(serde: Serde, every: tuple[str, ...]) -> Column:
    match serde:
        case JsonSerde():
            return _json(every if serde.columns is None else names(serde.columns))
        case StringSerde():
            return _text(column(serde.column))
        case LongSerde():
            return F.unhex(F.lpad(F.hex(column(serde.column).cast("bigint")), 16, "0"))
        case BytesSerde():
            return column(serde.column).cast("binary")
        case OwnSerde():
            encode = F.udf(_encode(serde), BinaryType(), useArrow=False)
            return encode(F.struct(*map(column, names(serde.columns))))


def _encode(serde: OwnSerde) -> Any:
    assert serde.encode is not None, serde
    call = serde.encode.call
    assert call is not None, serde

    def encode(row: Any) -> Any:
        return call(row.asDict(recursive=True))

    return encode


def _json(columns: tuple[str, ...]) -> Column:
    return F.to_json(F.struct(*map(column, columns)), _JSON).cast("binary")


def _text(made: Column) -> Column:
    return made.cast("string").cast("binary")
