"""Operators that Spark itself keeps state for: aggregates over groups and windows, and deduplication.

As in Kafka Streams, a row without a value and a row whose whole key is NULL are in no group. The time of a result is
the latest of its rows; but a final window that another stateful operator follows in the same query has the time of its
end, since only that keeps Spark's watermark.
"""

import operator
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.streams.aggregates import Aggregation
from headrace.streams.compiler.columns import to_column
from headrace.streams.compiler.rows import DELETED, TIME, user_columns
from headrace.streams.plan import Aggregate, Deduplicate
from headrace.streams.windows import Hopping, Session, Tumbling, Window

_WINDOW = "_window"


def aggregated(df: DataFrame, node: Aggregate, *, followed: bool) -> DataFrame:
    """`followed` is whether another stateful operator reads this one in the same query."""
    keys = [to_column(made).alias(name) for name, made in node.keys]
    some_key = ~_all_null([to_column(made) for _, made in node.keys])
    rows = with_watermark(df.where(~F.col(DELETED) & some_key), node.shape.grace_ms)
    results = [_result(made, df).alias(name) for name, made in node.aggregations]
    latest = F.max(TIME).alias(TIME)
    if node.window is None:
        grouped = rows.groupBy(*keys).agg(*results, latest)
    else:
        grouped = rows.groupBy(_window(node.window).alias(_WINDOW), *keys).agg(*results, latest)
        if followed:
            grouped = grouped.withColumn(TIME, F.window_time(_WINDOW))
        grouped = grouped.withColumns({"window_start": F.col(_WINDOW)["start"], "window_end": F.col(_WINDOW)["end"]})
    return grouped.select(*user_columns(node.shape), F.col(TIME), F.lit(False).alias(DELETED))


def deduplicated(df: DataFrame, node: Deduplicate) -> DataFrame:
    """Spark forgets a row when the watermark has passed it by the watermark's own delay, which thus is `within`."""
    rows = with_watermark(df, max(node.within_ms, node.shape.grace_ms))
    return rows.dropDuplicatesWithinWatermark(list(node.columns))


def with_watermark(df: DataFrame, grace_ms: int) -> DataFrame:
    return df if _has_watermark(df) else df.withWatermark(TIME, f"{grace_ms} milliseconds")


def _has_watermark(df: DataFrame) -> bool:
    """Spark keeps the delay in the metadata of the column; a second one for the same rows would be refused."""
    return "spark.watermarkDelayMs" in df.schema[TIME].metadata


def _window(window: Window) -> Column:
    match window:
        case Tumbling():
            return F.window(TIME, _ms(window.size_ms))
        case Hopping():
            return F.window(TIME, _ms(window.size_ms), _ms(window.hop_ms))
        case Session():
            return F.session_window(TIME, _ms(window.gap_ms))
    raise AssertionError(f"{window} has no form in Spark")


def _result(aggregation: Aggregation, df: DataFrame) -> Column:
    if aggregation.of is None:
        return F.count(F.lit(1))
    of = to_column(aggregation.of)
    order: Any = F.struct(*(name for name in (TIME, "_partition", "_offset") if name in df.columns))
    match aggregation.kind:
        case "count":
            return F.count(of)
        case "sum":
            return F.sum(of)
        case "min":
            return F.min(of)
        case "max":
            return F.max(of)
        case "avg":
            return F.avg(of)
        case "collect":
            return F.collect_list(of)
        case "first":
            return F.min_by(of, order)
        case "latest":
            return F.max_by(of, order)
    raise AssertionError(f"{aggregation} has no form in Spark")


def _all_null(columns: list[Column]) -> Column:
    return reduce(operator.and_, (column.isNull() for column in columns))


def _ms(milliseconds: int) -> str:
    return f"{milliseconds} milliseconds"
