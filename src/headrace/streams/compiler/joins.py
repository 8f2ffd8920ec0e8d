"""Joins of two streams, by Spark's own interval join: rows wait in its state until no partner can come any more.

As in Kafka Streams, rows without a value have no part in it, a row without a partner comes out when its time is over,
and the time of a result is the later of its two rows. If another stateful operator follows in the same query, it is
that of the left row, since only that keeps Spark's watermark.
"""

import operator
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.streams.compiler.columns import column
from headrace.streams.compiler.rows import DELETED, TIME, user_columns
from headrace.streams.compiler.stateful import with_watermark
from headrace.streams.plan import StreamJoin
from headrace.streams.schema import names

_RIGHT: Final = "_right_"
_HOW: Final = {"inner": "inner", "left": "left_outer", "outer": "full_outer"}


def joined_streams(left: DataFrame, right: DataFrame, node: StreamJoin, *, followed: bool) -> DataFrame:
    """`followed` is whether another stateful operator reads this one in the same query."""
    ours, theirs = (below.shape for below in node.inputs)
    one = with_watermark(left.where(~F.col(DELETED)), ours.grace_ms).select(*user_columns(ours), F.col(TIME))
    other = with_watermark(right.where(~F.col(DELETED)), theirs.grace_ms).select(
        *(column(name).alias(_RIGHT + name) for name in (*names(theirs.columns), TIME))
    )
    rows = one.join(other, _condition(node), _HOW[node.how])
    time = F.col(TIME) if followed else F.greatest(F.col(TIME), F.col(_RIGHT + TIME))
    return rows.select(*_columns(node), time.alias(TIME), F.lit(False).alias(DELETED))


def _condition(node: StreamJoin) -> Column:
    equal = reduce(operator.and_, (column(ours) == column(_RIGHT + theirs) for ours, theirs in node.on))
    # Said once more, since the state of a full outer join of Spark's finds NULL under NULL.
    known = reduce(operator.and_, (column(ours).isNotNull() for ours, _ in node.on))
    at, right_at = F.col(TIME), F.col(_RIGHT + TIME)
    return equal & known & (right_at >= at - _interval(node.before_ms)) & (right_at <= at + _interval(node.after_ms))


def _columns(node: StreamJoin) -> list[Column]:
    """The left ones, then the right ones; those that were joined on under one name come from whichever row there is."""
    ours = names(node.inputs[0].shape.columns)
    shared = {left for left, right in node.on if left == right}
    made = []
    for name in names(node.shape.columns):
        if name in shared:
            made.append(F.coalesce(column(name), column(_RIGHT + name)).alias(name))
        else:
            made.append(column(name) if name in ours else column(_RIGHT + name).alias(name))
    return made


def _interval(milliseconds: int) -> Column:
    return F.expr(f"INTERVAL {milliseconds} MILLISECONDS")
