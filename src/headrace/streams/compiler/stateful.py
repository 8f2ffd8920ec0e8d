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
from headrace.streams.compiler.columns import column, to_column
from headrace.streams.compiler.rows import DELETED, TIME, user_columns
from headrace.streams.plan import Aggregate, Deduplicate, Named
from headrace.streams.windows import Hopping, Session, Tumbling, Window

_WINDOW = "_window"


def aggregated(df: DataFrame, node: Aggregate, *, followed: bool) -> DataFrame:
    """`followed` is whether another stateful operator reads this one in the same query."""
    keys = [to_column(made).alias(name) for name, made in node.keys]
    rows = with_watermark(df.where(~is_in_no_group(node.keys)), node.shape.grace_ms)
    results = [aggregation_column(made, df).alias(name) for name, made in node.aggregations]
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
    if not df.isStreaming:
        return _first_within(df, node)
    rows = with_watermark(df, max(node.within_ms, node.shape.grace_ms))
    return rows.dropDuplicatesWithinWatermark(list(node.columns))


def _first_within(df: DataFrame, node: Deduplicate) -> DataFrame:
    """The same for a batch, which Spark has no operator for: by time, each row that is not within of one that stays."""
    times = [name for name in (TIME, "_partition", "_offset") if name in df.columns]
    row = F.struct(F.struct(*times).alias("order"), F.struct(*map(column, df.columns)).alias("whole"))
    groups = df.groupBy(*map(column, node.columns)).agg(F.collect_list(row).alias("rows"))
    before = lambda one, other: F.when(one["order"] < other["order"], -1).otherwise(1)  # noqa: E731
    ordered = groups.select(F.array_sort("rows", before).alias("rows"))
    none = F.slice("rows", 1, 0)

    def add(kept: Column, each: Column) -> Column:
        last = F.try_element_at(kept, F.lit(-1))["order"][TIME]
        passed = F.unix_millis(each["order"][TIME]) - F.unix_millis(last) > node.within_ms
        return F.when(last.isNull() | passed, F.concat(kept, F.array(each))).otherwise(kept)

    return ordered.select(F.explode(F.aggregate("rows", none, add)).alias("row")).select("row.whole.*")


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


def aggregation_column(aggregation: Aggregation, df: DataFrame) -> Column:
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


def is_in_no_group(keys: Named) -> Column:
    """A row without a value, or whose whole key is NULL."""
    return F.col(DELETED) | reduce(operator.and_, (to_column(made).isNull() for _, made in keys))


def _ms(milliseconds: int) -> str:
    return f"{milliseconds} milliseconds"
