"""Rows that failed as dead letters: the record as it came, and headers that say where it was, when, and why it is dead.

| header | |
|---|---|
| `headrace.error` | what is wrong with it: class and message of what was raised, shortened if need be |
| `headrace.app`, `headrace.operator` | where it failed |
| `headrace.function` | which function of the user's it was, if it was one |
| `headrace.topic`, `headrace.partition`, `headrace.offset`, `headrace.timestamp` | which record it was |
| `headrace.failed-at` | when |
| `headrace.row` | "json" if the row was not one record any more; then there is none of the line before the last |

Behind an operator with state a row is not one record any more, and neither is one of a merge of which that is true. Key
and value are then those that `to` would write without a word: the key's text, and a JSON object of all columns.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.streams import dead_letters
from headrace.streams.compiler.encoding import HEADERS, default_key, iso, json_object
from headrace.streams.compiler.rows import DELETED, ERROR, FUNCTION, JSON_KEY, JSON_VALUE, OPERATOR, STAMP, TIME, VALUE
from headrace.streams.plan import DeadLetters
from headrace.streams.schema import names
from headrace.streams.shapes import Shape

RECORD: Final = {
    "_key": "binary",
    VALUE: "binary",
    "_headers": HEADERS,
    "_topic": "string",
    "_partition": "int",
    "_offset": "bigint",
    STAMP: "timestamp",
}


def with_original(rows: DataFrame, shape: Shape) -> DataFrame:
    """Rows that may fail next, with what their dead letters are made of, if they are not records any more."""
    if VALUE in rows.columns:
        return rows
    key = default_key(shape.key) if shape.key else F.lit(None).cast("binary")
    value = F.when(~F.col(DELETED), json_object(names(shape.columns)))
    return rows.withColumns({JSON_KEY: key, JSON_VALUE: value})


def record_columns(rows: DataFrame) -> list[Column]:
    """Those of RECORD, also of rows that are not records any more, which have no place. They have their originals."""
    if VALUE in rows.columns:
        given = {name: F.col(name) for name in RECORD}
    else:
        given = {"_key": F.col(JSON_KEY), VALUE: F.col(JSON_VALUE), STAMP: F.col(TIME)}
    return [given.get(name, F.lit(None)).cast(type_).alias(name) for name, type_ in RECORD.items()]


def good_rows(rows: DataFrame) -> DataFrame:
    """Those that have not failed."""
    return rows.where(F.col(ERROR).isNull()).drop(ERROR, FUNCTION, JSON_KEY, JSON_VALUE)


def dead_records(rows: DataFrame, sink: DeadLetters, app: str) -> DataFrame:
    """Those that have."""
    said = {
        dead_letters.ERROR: F.col(ERROR),
        dead_letters.APP: F.lit(app),
        dead_letters.OPERATOR: F.col(OPERATOR) if OPERATOR in rows.columns else F.lit(sink.input.name),
        "headrace.function": F.col(FUNCTION) if FUNCTION in rows.columns else None,
        "headrace.failed-at": iso(F.current_timestamp()),
    }
    is_record = VALUE in rows.columns
    if is_record:  # but for timers, which have no place
        said |= {
            dead_letters.TOPIC: F.col("_topic"),
            dead_letters.PARTITION: F.col("_partition").cast("string"),
            dead_letters.OFFSET: F.col("_offset").cast("string"),
            "headrace.timestamp": F.when(F.col("_topic").isNotNull(), iso(F.col(STAMP))),
            "headrace.row": F.when(F.col("_topic").isNull(), F.lit("json")),
        }
    else:
        said["headrace.row"] = F.lit("json")
    return rows.where(F.col(ERROR).isNotNull()).select(
        F.lit(sink.topic).alias("topic"),
        F.col("_key" if is_record else JSON_KEY).alias("key"),
        F.col(VALUE if is_record else JSON_VALUE).alias("value"),
        F.concat(_headers(rows), _added(said)).alias("headers"),
        F.col(STAMP if is_record else TIME).alias("timestamp"),
    )


def _headers(rows: DataFrame) -> Column:
    none = F.array().cast(HEADERS)
    return F.coalesce(F.col("_headers"), none) if "_headers" in rows.columns else none


def _added(said: dict[str, Column | None]) -> Column:
    """Without those that say nothing."""
    headers = F.array(
        *(
            F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value"))
            for name, text in said.items()
            if text is not None
        )
    )
    return F.filter(headers, lambda header: header["value"].isNotNull()).cast(HEADERS)
