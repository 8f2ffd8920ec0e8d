"""Operators that keep nothing: projections and filters of Spark's, and Python functions where the user gave them."""

import operator
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.streams.compiler.columns import column, to_column
from headrace.streams.compiler.functions import BRANCH, KEPT
from headrace.streams.compiler.rows import DELETED, hidden_of, key_columns, user_columns
from headrace.streams.expressions import Expression
from headrace.streams.plan import (
    Branch,
    Check,
    Chosen,
    Filter,
    FlatMap,
    Map,
    Merge,
    Node,
    Peek,
    Repartition,
    Select,
    SelectKey,
    ToStream,
    ToTable,
)
from headrace.streams.schema import names
from headrace.streams.shapes import Kind


def compile_stateless(node: Node, inputs: list[DataFrame]) -> DataFrame | None:
    """None for an operator that is not of this kind. Functions have been called already (see `functions.py`)."""
    df = inputs[0]
    match node:
        case Filter():
            return _filtered(df, node)
        case Select():
            return df.select(*(to_column(made).alias(name) for name, made in node.columns), *hidden_of(df))
        case SelectKey():
            return df.withColumns({name: to_column(made) for name, made in node.columns})
        case Check() | Map() | FlatMap() | Peek():
            return df
        case Branch():
            return _branched(df, node)
        case Chosen():
            return df.where(F.col(BRANCH) == node.choice).drop(BRANCH)
        case Merge():
            return _merged(inputs)
        case Repartition():
            return df.repartition(node.partitions, *(key_columns(node.shape) or [F.col("_key")]))
        case ToStream():
            return _changes(df, node)
        case ToTable():
            # As in Kafka Streams, a row whose whole key is NULL is in no table.
            return df.where(reduce(operator.or_, (key.isNotNull() for key in key_columns(node.shape))))
    return None


def _filtered(df: DataFrame, node: Filter) -> DataFrame:
    passes = to_column(node.condition) if isinstance(node.condition, Expression) else F.col(KEPT)
    if node.shape.kind is Kind.STREAM:
        return df.where(passes).drop(KEPT)
    # A row of a table that does not pass is not there: what was there under its key is deleted.
    return df.withColumn(DELETED, F.col(DELETED) | ~F.coalesce(passes, F.lit(False))).drop(KEPT)


def _branched(df: DataFrame, node: Branch) -> DataFrame:
    """The rows with the name of their branch, the first whose condition is true."""
    if BRANCH in df.columns:  # a function had a say
        return df
    chosen = F.lit(node.default).cast("string")
    for choice, condition in reversed(node.choices):
        assert isinstance(condition, Expression), condition
        chosen = F.when(to_column(condition), F.lit(choice)).otherwise(chosen)
    return df.select(*user_columns(node.shape), *hidden_of(df), chosen.alias(BRANCH))


def _merged(inputs: list[DataFrame]) -> DataFrame:
    """By name. Hidden columns that not all of them have are left out."""
    kept = [name for name in inputs[0].columns if all(name in df.columns for df in inputs)]
    whole = inputs[0].select(*map(column, kept))
    for other in inputs[1:]:
        whole = whole.unionByName(other.select(*map(column, kept)))
    return whole


def _changes(df: DataFrame, node: ToStream) -> DataFrame:
    return df.withColumns(
        {
            name: F.when(~F.col(DELETED), column(name))
            for name in names(node.shape.columns)
            if name not in node.shape.key
        }
    )
