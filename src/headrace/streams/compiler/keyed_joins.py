"""Joins with tables: the rows of both sides, in one set of columns and each with its side, go to an operator on keys.

As in Kafka Streams, a row of a stream without a value has no part in a join, nor has one whose whole key is NULL; but a
left join gives the latter, without a partner. A table has no row whose whole key is NULL.
"""

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, BooleanType, StructField, StructType, TimestampType

from headrace.streams.compiler.buckets import bucketed, group_bytes, in_place
from headrace.streams.compiler.columns import column
from headrace.streams.compiler.rows import DELETED, TIME
from headrace.streams.keyed import foreign_key_join as by_foreign_key
from headrace.streams.keyed import lookup, table_join
from headrace.streams.keyed.foreign_key_join import LEFT_KEY, RIGHT_KEY
from headrace.streams.keyed.operator import SIDE
from headrace.streams.keyed.order import OFFSET, PLACE
from headrace.streams.plan import ForeignKeyJoin, TableJoin, TableLookup
from headrace.streams.queries import Mode
from headrace.streams.schema import names

_LEFT: Final = 0
_RIGHT: Final = 1
_RECORD_KEY: Final = "_key"
_NOTHING: Final = b"\xff"  # as the right key of a row that names none: no text is this
_HIDDEN: Final = (StructField(TIME, TimestampType()), StructField(DELETED, BooleanType()))
_LEFT_KEY: Final = StructField(LEFT_KEY, BinaryType())
_RIGHT_KEY: Final = StructField(RIGHT_KEY, BinaryType())

Fields = list[StructField]


def joined_with_table(stream: DataFrame, table: DataFrame, node: TableLookup, mode: Mode) -> DataFrame:
    assert node.how != "outer", node
    on, rows, table = _with_equal_keys(stream.where(~F.col(DELETED)), table, node.on)
    if node.how == "inner":
        rows = rows.where(~_all_null(on))
    kept = names(node.inputs[0].shape.columns)
    if not node.shape.key and _RECORD_KEY in stream.columns:
        kept += (_RECORD_KEY,)  # rows keep the key of their record as it came
    left, right = _fields(rows, kept), _fields(table, _added(node))
    batch = _both(rows, table.where(~_all_null(on)), on, left, right)
    joining = lookup.Lookup(node.how, _arrow(left), _arrow(right))
    return bucketed(batch, on, joining, StructType([*left, *right, *_HIDDEN]), mode=mode)


def joined_tables(left_table: DataFrame, right_table: DataFrame, node: TableJoin, mode: Mode) -> DataFrame:
    on, left_rows, right_rows = _with_equal_keys(left_table, right_table, node.on)
    values = [name for name in names(node.inputs[0].shape.columns) if name not in node.shape.key]
    left, right = _fields(left_rows, values), _fields(right_rows, _added(node))
    batch = _both(left_rows.where(~_all_null(on)), right_rows.where(~_all_null(on)), on, left, right)
    key = _fields(batch, on)
    joining = table_join.TableJoin(node.how, _arrow(key), _arrow(left), _arrow(right))
    made = bucketed(batch, on, joining, StructType([*key, *left, *right, *_HIDDEN]), mode=mode)
    return made.withColumnsRenamed(dict(zip(on, node.shape.key, strict=True)))


def joined_by_foreign_key(left_table: DataFrame, right_table: DataFrame, node: ForeignKeyJoin, mode: Mode) -> DataFrame:
    assert node.how != "outer", node
    on, left_rows, right_rows = _with_equal_keys(left_table, right_table, node.on)
    key = node.shape.key
    left_rows = left_rows.where(~_all_null(key))
    if node.how == "inner":  # a row that names nothing is as good as none
        left_rows = left_rows.withColumn(DELETED, F.col(DELETED) | _all_null(on))
    left = _fields(left_table, names(node.inputs[0].shape.columns))
    right = _fields(right_rows, _added(node))

    naming = left_rows.withColumn(RIGHT_KEY, F.coalesce(group_bytes(left_rows, on), F.lit(_NOTHING)))
    first = by_foreign_key.Subscriptions(_arrow(left))
    output = StructType([_RIGHT_KEY, _LEFT_KEY, *left, *_HIDDEN])
    sent = bucketed(_tagged(naming, _LEFT, [_RIGHT_KEY, *left], []), key, first, output, mode=mode)

    named = right_rows.where(~_all_null(on)).withColumn(RIGHT_KEY, group_bytes(right_rows, on))
    batch = _both(sent, named, [RIGHT_KEY], [_LEFT_KEY, *left], right)
    second = by_foreign_key.Subscribers(node.how, _arrow(left), _arrow(right))
    result = [*left, *right, *_HIDDEN]
    answers = bucketed(batch, [RIGHT_KEY], second, StructType([_LEFT_KEY, *result]), mode=mode)

    third = by_foreign_key.Settled(_arrow(result))
    return bucketed(answers, [LEFT_KEY], third, StructType(result), mode=mode)


def _with_equal_keys(
    left: DataFrame, right: DataFrame, on: Sequence[tuple[str, str]]
) -> tuple[list[str], DataFrame, DataFrame]:
    """Both with equal columns, by name and type, for what must be equal: the left ones, or wider ones beside them."""
    ours = left.select(*(column(name) for name, _ in on))
    theirs = right.select(*(column(name) for _, name in on))
    made = []
    for number, field in enumerate(ours.union(theirs).schema.fields):  # a union widens types
        ours_name, theirs_name = on[number]
        is_ours = left.schema[ours_name].dataType == field.dataType
        made.append(ours_name if is_ours else f"_on_{number}")
        if not is_ours:
            left = left.withColumn(made[-1], column(ours_name).cast(field.dataType))
        if theirs_name != made[-1] or right.schema[theirs_name].dataType != field.dataType:
            right = right.withColumn(made[-1], column(theirs_name).cast(field.dataType))
    return made, left, right


def _both(left_rows: DataFrame, right_rows: DataFrame, on: Sequence[str], left: Fields, right: Fields) -> DataFrame:
    """The rows of both sides, each with its key, its own columns and NULL in the other's."""
    apart = [field for field in _fields(left_rows, on) if field not in left]
    also_right = [field for field in _fields(right_rows, on) if field not in right]
    missing = [field for field in left if field not in also_right]
    ours = _tagged(left_rows, _LEFT, [*apart, *left], right)
    theirs = _tagged(right_rows, _RIGHT, [*also_right, *right], missing)
    return ours.unionByName(theirs)


def _tagged(df: DataFrame, side: int, own: Fields, others: Fields) -> DataFrame:
    return in_place(df).select(
        F.lit(side).cast("tinyint").alias(SIDE),
        *(F.col(name) for name in (TIME, DELETED, PLACE, OFFSET)),
        *(column(field.name) for field in own),
        *(F.lit(None).cast(field.dataType).alias(field.name) for field in others),
    )


def _added(node: TableLookup | TableJoin | ForeignKeyJoin) -> tuple[str, ...]:
    """The columns of the result that are the right table's."""
    ours = names(node.inputs[0].shape.columns)
    return tuple(name for name in names(node.shape.columns) if name not in ours)


def _fields(df: DataFrame, wanted: Sequence[str]) -> Fields:
    return [StructField(name, df.schema[name].dataType) for name in wanted]


def _arrow(fields: Fields) -> pa.Schema:
    return to_arrow_schema(StructType(list(fields)), timezone="UTC")


def _all_null(wanted: Sequence[str]) -> Column:
    return reduce(operator.and_, (column(name).isNull() for name in wanted))
