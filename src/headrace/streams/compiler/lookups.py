"""Joins with global tables: the whole table is read anew for each micro-batch and sent to every task.

So a row sees the table as it was when its micro-batch began. Spark keeps nothing, and there is no shuffle.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.streams.compiler.columns import column
from headrace.streams.compiler.rows import DELETED, ERROR, hidden_of
from headrace.streams.plan import GlobalLookup
from headrace.streams.schema import names

_RIGHT = "_right_"


def latest_rows(df: DataFrame) -> DataFrame:
    """Of all records of a table's topic the last of each key, without tombstones and without what cannot be decoded."""
    whole = F.struct(*map(column, df.columns))
    # All records of a key are in one partition, so the highest offset is the last.
    last = df.where(F.col(ERROR).isNull()).groupBy("_key").agg(F.max_by(whole, "_offset").alias("_last"))
    return last.select("_last.*").where(~F.col(DELETED))


def looked_up(left: DataFrame, right: DataFrame, node: GlobalLookup) -> DataFrame:
    """As in Kafka Streams, rows without a value have no part in it, not even in a left join."""
    table = right.select(*(column(name).alias(_RIGHT + name) for name in names(node.inputs[1].shape.columns)))
    matches = [column(ours) == column(_RIGHT + theirs) for ours, theirs in node.on]
    rows = left.where(~F.col(DELETED))
    joined = rows.join(F.broadcast(table), matches, "inner" if node.how == "inner" else "left")
    ours = names(node.inputs[0].shape.columns)
    return joined.select(*(_side(name, ours) for name in names(node.shape.columns)), *hidden_of(left))


def _side(name: str, ours: tuple[str, ...]) -> Column:
    return column(name) if name in ours else column(_RIGHT + name).alias(name)
