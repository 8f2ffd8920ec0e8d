"""Folds: what is computed over groups where Spark has no operator of its own, by operators on keys.

Functions of the user's, sliding windows, sessions with changes, and groups of a table's rows. As in Kafka Streams, a
row without a value and a row whose whole key is NULL are in no group. The time of a result is the latest of its rows.
"""

from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from headrace.streams.compiler.buckets import bucketed, group_bytes, in_place
from headrace.streams.compiler.columns import column, to_column
from headrace.streams.compiler.dead_letters import RECORD, record_columns
from headrace.streams.compiler.late import counted, late_letter
from headrace.streams.compiler.rows import DELETED, TIME
from headrace.streams.compiler.stateful import aggregation_column, is_in_no_group, with_watermark
from headrace.streams.keyed import fold
from headrace.streams.keyed.aggregating import Aggregating, Part, Totals
from headrace.streams.keyed.fold_rows import ERROR, FUNCTION, KEYS, LATE, LETTER, Results, row_column
from headrace.streams.keyed.folding import Folding, FoldingRows, Reducing
from headrace.streams.keyed.operator import GROUP, SIDE, KeyedOperator
from headrace.streams.keyed.order import OFFSET, PLACE
from headrace.streams.keyed.regrouping import Regroup
from headrace.streams.keyed.sessions import FoldSessions
from headrace.streams.keyed.sliding import FoldSliding
from headrace.streams.plan import Aggregate, Cogroup, Fold, Grouping, Named, Reduce
from headrace.streams.queries import Mode
from headrace.streams.schema import names, schema_text
from headrace.streams.shapes import Kind, Shape
from headrace.streams.windows import Hopping, Session, Sliding, Tumbling

_BATCH: Final = (SIDE, TIME, DELETED, PLACE, OFFSET, KEYS)


def folded(
    inputs: list[DataFrame], node: Grouping, mode: Mode, *, letters: bool = False, late_letters: bool = False
) -> DataFrame:
    """With `letters`, also rows for which a function failed, with ERROR, FUNCTION and RECORD; with `late_letters`, also
    late rows, as `late.py` has them beside results. Either needs rows with their originals."""
    if isinstance(node, Aggregate) and node.input.shape.kind is Kind.TABLE:
        return _regrouped(inputs[0], node, mode)
    keys_of_inputs = node.keys_of_inputs if isinstance(node, Cogroup) else (node.keys,)
    sides = [
        _side(df, keys, node, side, lettered=letters or late_letters)
        for side, (df, keys) in enumerate(zip(inputs, keys_of_inputs, strict=True))
    ]
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), sides)
    is_windowed = node.window is not None
    letter = _arrow_struct(_struct(rows, LETTER)) if letters or late_letters else None
    results = Results(
        node.name, _arrow_struct(_struct(rows, KEYS)), _folding(inputs, node), is_windowed, letter, late_letters
    )
    schema = from_arrow_schema(results.schema)
    made = bucketed(rows, (), _operator(node, results), schema, mode=mode, event_time=is_windowed)
    if is_windowed:
        made = _without_late(made, node, late_letters=late_letters)
    if letters:
        record = {name: F.col(LETTER).getField(name) for name in RECORD}
        return made.withColumns(record).drop(LETTER)
    return made.drop(LETTER, ERROR, FUNCTION)


def _without_late(made: DataFrame, node: Grouping, *, late_letters: bool) -> DataFrame:
    """Late rows are counted, and stand beside the results, or not at all."""
    if not made.isStreaming:  # then no row is late
        return made.drop(LATE)
    counts = counted(made, node, 0, F.coalesce(F.sum(LATE), F.lit(0)))
    if not late_letters:
        return counts.where(F.col(LATE).isNull()).drop(LATE)
    record = [F.col(LETTER).getField(name).alias(name) for name in RECORD]
    letter = F.when(F.col(LATE).isNotNull(), late_letter(record, F.col(ERROR), node))
    return counts.withColumn(LATE, letter)


def _side(df: DataFrame, keys: Named, node: Grouping, side: int, *, lettered: bool) -> DataFrame:
    """The rows of one input, each a struct of what is folded, with its key as a struct beside it."""
    rows = in_place(df.where(~is_in_no_group(keys)))
    if node.window is not None:
        rows = with_watermark(rows, node.shape.grace_ms)
    made = rows.withColumns(
        {
            SIDE: F.lit(side).cast("tinyint"),
            KEYS: F.struct(*(to_column(made).alias(name) for name, made in keys)),
            row_column(side): _row(node, side),
            **({LETTER: F.struct(*record_columns(rows))} if lettered else {}),
        }
    )
    letter = (LETTER,) if lettered else ()
    return _with_group(made, keys).select(GROUP, *_BATCH, *letter, row_column(side))


def _with_group(df: DataFrame, keys: Named) -> DataFrame:
    """With GROUP, made of the struct of the key."""
    flat = df.select(
        *(F.col(KEYS).getField(name).alias(f"{KEYS}_{number}") for number, (name, _) in enumerate(keys)), "*"
    )
    return flat.withColumn(GROUP, group_bytes(flat, [f"{KEYS}_{number}" for number in range(len(keys))]))


def _row(node: Grouping, side: int) -> Column:
    """What a function of the user's gets, or the arguments of aggregations."""
    if isinstance(node, Aggregate):
        return _arguments(node)
    return F.struct(*map(column, names(node.inputs[side].shape.columns)))


def _arguments(node: Aggregate) -> Column:
    arguments = [to_column(made.of).alias(name) for name, made in node.aggregations if made.of is not None]
    return F.struct(*arguments) if arguments else F.struct(F.lit(None).cast("boolean").alias("_"))


def _folding(inputs: list[DataFrame], node: Grouping) -> Folding:
    match node:
        case Aggregate():
            return Aggregating(_parts(inputs[0], node))
        case Reduce():
            row = _struct(inputs[0].select(_row(node, 0).alias("_row")), "_row")
            grouped = {name for name, _ in node.keys}
            results = StructType([field for field in row.fields if field.name not in grouped])
            return Reducing(node.name, node.function, _arrow_struct(row), _arrow(results))
        case Fold():
            return FoldingRows(node.name, node.initial, (node.function,), node.merge, _arrow(_declared(node.shape)))
        case Cogroup():
            return FoldingRows(node.name, node.initial, node.functions, node.merge, _arrow(_declared(node.shape)))
    raise AssertionError(f"{node.name} is no fold")


def _parts(df: DataFrame, node: Aggregate) -> tuple[Part, ...]:
    """With the types that Spark would give to the results."""
    results = df.groupBy().agg(*(aggregation_column(made, df).alias(name) for name, made in node.aggregations)).schema
    arguments = _struct(df.select(_arguments(node).alias("_row")), "_row")
    types = {field.name: field.type for field in _arrow(arguments)}
    return tuple(
        Part(name, made.kind, types[name] if made.of is not None else None, field.type)
        for (name, made), field in zip(node.aggregations, _arrow(results), strict=True)
    )


def _operator(node: Grouping, results: Results) -> KeyedOperator:
    match node.window:
        case None:
            return fold.Fold(results)
        case Tumbling(size_ms):
            return fold.Fold(results, fold.Windows(size_ms, size_ms), node.emit)
        case Hopping(size_ms, hop_ms):
            return fold.Fold(results, fold.Windows(size_ms, hop_ms), node.emit)
        case Session(gap_ms):
            return FoldSessions(results, gap_ms, node.emit)
        case Sliding(difference_ms):
            return FoldSliding(results, difference_ms, node.emit)


def _regrouped(df: DataFrame, node: Aggregate, mode: Mode) -> DataFrame:
    """By the table's key to what changes in which group, and by the group to its totals."""
    rows = in_place(df).withColumns(
        {
            GROUP: group_bytes(df, node.input.shape.key or ("_key",)),
            SIDE: F.lit(0).cast("tinyint"),
            KEYS: F.struct(*(to_column(made).alias(name) for name, made in node.keys)),
            row_column(0): _arguments(node),
        }
    )
    rows = rows.where(F.col(GROUP).isNotNull()).select(GROUP, *_BATCH, row_column(0))
    regroup = Regroup(_arrow_struct(_struct(rows, KEYS)), _arrow_struct(_struct(rows, row_column(0))))
    moved = bucketed(rows, (), regroup, from_arrow_schema(regroup.output_schema), mode=mode)
    grouped = _with_group(moved, node.keys).where(F.col(GROUP).isNotNull())
    batch = grouped.select(GROUP, *_BATCH, row_column(0), row_column(1))
    totals = Totals(_parts(df, node))
    results = Results(node.name, regroup.key_type, totals, is_windowed=False)
    return bucketed(batch, (), fold.Fold(results), from_arrow_schema(results.schema), mode=mode)


def _declared(shape: Shape) -> StructType:
    """The columns of the result that a user has declared: all but the key, of which the window is a part."""
    return StructType.fromDDL(schema_text(tuple(field for field in shape.columns if field.name not in shape.key)))


def _struct(df: DataFrame, name: str) -> StructType:
    made = df.schema[name].dataType
    assert isinstance(made, StructType), made
    return made


def _arrow(struct: StructType) -> pa.Schema:
    return to_arrow_schema(struct, timezone="UTC")


def _arrow_struct(struct: StructType) -> pa.StructType:
    return pa.struct(list(_arrow(struct)))
