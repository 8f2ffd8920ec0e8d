"""Checks by expressions: what Spark finds wrong with rows by itself. Those by functions are in `functions.py`."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.streams.compiler.columns import to_column
from headrace.streams.compiler.rows import DELETED, ERROR
from headrace.streams.compiler.stopping import stopped_by
from headrace.streams.expressions import Expression
from headrace.streams.plan import Check
from headrace.streams.shapes import Kind


def checked(rows: DataFrame, node: Check, *, stops: bool) -> DataFrame:
    """The rows with an ERROR where the condition is false or NULL; unless the first of them `stops` the query.

    The deletion of a row of a table has no columns that could be wrong.
    """
    assert isinstance(node.condition, Expression), node
    passes = F.coalesce(to_column(node.condition), F.lit(False))
    if node.shape.kind is not Kind.STREAM:
        passes = F.col(DELETED) | passes
    error = F.when(~passes, F.lit(node.message))
    if stops:
        return stopped_by(rows, error, verdict="is refused", operator=f"{node.name}: ")
    return rows.withColumn(ERROR, error)
