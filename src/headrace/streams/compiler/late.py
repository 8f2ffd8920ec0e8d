"""Late records that leave as dead letters instead of being dropped by Spark without a word.

Theory. Only the query with the state knows what is late for it, and Spark gives it one result. So the query reads its
rows on two ways: those in time go to the operator, and those which are late stand beside its results, in a column of
their own, and are parted from them in `foreachBatch`. Both ways read the same records, since Spark has one source for
two readers of one relation, and both ask the same question, so that a row goes exactly one of them.

The question (see `lateness.py`) needs the watermark, which Spark knows and tells no expression. But it writes it into
the checkpoint before it runs the micro-batch, which is when the query's function for `foreachBatch` is called: that one
reads it, and hands it to the tasks as a local property. A micro-batch that is run again has the same watermark. The one
by which Spark itself drops rows lags a micro-batch behind, so what is in time here is in time there.

Windows of our own need none of this: their operators see the watermark, and give late rows beside their results (see
`folds.py`).
"""

from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType

from headrace.spark.micro_batch import watermark_ms
from headrace.streams.compiler.columns import column
from headrace.streams.compiler.dead_letters import RECORD, record_columns, with_original
from headrace.streams.compiler.encoding import iso
from headrace.streams.compiler.rows import DELETED, ERROR, OPERATOR, TIME
from headrace.streams.compiler.stateful import is_in_no_group
from headrace.streams.keyed.fold_rows import LATE
from headrace.streams.lateness import IS_AT, TAKEN_UNTIL, Deadline, Judged
from headrace.streams.plan import Cogroup, Grouping, Node, StreamJoin
from headrace.streams.progress import LATE_METRIC

_PROPERTY: Final = "headrace.watermark-ms"
_WATERMARK: Final = "_watermark"
_FIELDS: Final = RECORD | {TIME: "timestamp", ERROR: "string", OPERATOR: "string"}
_TYPE: Final = "struct<" + ",".join(f"{name}:{type_}" for name, type_ in _FIELDS.items()) + ">"


def tell_watermark(batch: DataFrame, batch_id: int) -> None:
    """To the tasks of this micro-batch, before they begin."""
    batch.sparkSession.sparkContext.setLocalProperty(_PROPERTY, str(watermark_ms(batch, batch_id)))


def parted(df: DataFrame, judged: Judged) -> tuple[DataFrame, DataFrame]:
    """The rows in time, as they were; and the late ones, as what `beside` takes."""
    deadline = _deadline_us(judged.deadline)
    asked = with_original(df, judged.input.shape).withColumn(_WATERMARK, _watermark_us(deadline))
    is_late = F.coalesce((deadline <= F.col(_WATERMARK)) & ~_is_passed_by(judged), F.lit(False))
    late = counted(asked.where(is_late), judged.node, judged.side, F.count(F.lit(1)))
    letter = late_letter(record_columns(late), _sentence(judged.deadline), judged.node)
    return asked.where(~is_late).select(*map(column, df.columns)), late.select(letter)


def counted(rows: DataFrame, node: Node, side: int, late: Column) -> DataFrame:
    """The rows; how many of them are late is told with the progress of the query."""
    return rows.observe(f"{LATE_METRIC}{node.name}.{side}", late.alias("rows"))


def late_letter(record: list[Column], error: Column, node: Node) -> Column:
    """The column of late rows that stand beside results, as `beside` takes it; `record` is RECORD."""
    fields = [*record, F.col(TIME), error.alias(ERROR), F.lit(node.name).alias(OPERATOR)]
    return F.struct(*fields).cast(_TYPE).alias(LATE)


def beside(results: DataFrame, late: list[DataFrame]) -> DataFrame:
    whole = results.withColumn(LATE, F.lit(None).cast(_TYPE))
    nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in results.schema.fields]
    return reduce(DataFrame.unionByName, (each.select(*nothing, LATE) for each in late), whole)


def results_of(batch: DataFrame) -> DataFrame:
    return batch.where(F.col(LATE).isNull()).drop(LATE)


def late_of(batch: DataFrame) -> DataFrame:
    """Rows as `dead_records` takes them."""
    return batch.where(F.col(LATE).isNotNull()).select(f"{LATE}.*")


def _sentence(deadline: Deadline) -> Column:
    until = F.timestamp_micros(_deadline_us(deadline))
    watermark = iso(F.timestamp_micros(F.col(_WATERMARK)))
    return F.concat(
        F.lit(TAKEN_UNTIL),
        iso(until),
        F.lit(IS_AT),
        watermark,
    )


def _deadline_us(deadline: Deadline) -> Column:
    time = F.unix_micros(TIME)
    start = time if deadline.hop_ms is None else time - F.pmod(time, F.lit(deadline.hop_ms * 1_000))
    return start + F.lit(deadline.after_ms * 1_000)


def _is_passed_by(judged: Judged) -> Column:
    """Rows in which the operator has no interest, whenever they come."""
    match judged.node:
        case Cogroup():
            return is_in_no_group(judged.node.keys_of_inputs[judged.side])
        case Grouping():
            return is_in_no_group(judged.node.keys)
        case StreamJoin():
            return F.col(DELETED)
    return F.lit(False)


def _watermark_us(of: Column) -> Column:
    """In microseconds, for each row, whatever column it is asked of."""
    return F.arrow_udf(_told_watermark_us, LongType())(of)


def _told_watermark_us(rows: pa.Array) -> pa.Array:
    context = TaskContext.get()
    assert context is not None, "this runs in tasks"
    told = context.getLocalProperty(_PROPERTY) or "0"
    return pa.repeat(pa.scalar(int(told) * 1_000, pa.int64()), len(rows))
