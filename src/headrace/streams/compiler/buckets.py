"""Operators with state of our own in Spark: keys hashed into buckets, and a bucket's rows in one piece of Arrow.

Theory. `transformWithState` calls Python for each key and converts rows one by one. So its keys here are buckets, and
its rows are few: a first stage packs what a task has for a bucket into the bytes of an Arrow table, the stateful stage
unpacks them, lets the operator make a step, and gives a packed table, which a last stage unpacks. Types pass as they
are. What a bucket keeps in Spark, and how it is not read again for each micro-batch, is in `bucket_states.py`.

Rows are late by the rule of the operator; Spark, which sees only packed rows, drops none.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, DataType, DoubleType, FloatType, Row, StringType, StructType

from headrace.streams.compiler.bucket_states import BucketStates
from headrace.streams.compiler.columns import column
from headrace.streams.compiler.rows import TIME
from headrace.streams.keyed.operator import GROUP, Clock, KeyedOperator
from headrace.streams.keyed.order import OFFSET, PLACE
from headrace.streams.keyed.packing import packed, unpacked
from headrace.streams.keyed.state_table import StateTable

BUCKETS: Final = 32  # a step of a bucket costs a millisecond even if it has one row; state is kept per bucket for ever
_BUCKET: Final = "_bucket"
_ROWS: Final = "_rows"
_PACKED: Final = f"{_BUCKET} int, {_ROWS} binary"
_OWN_WORKERS: Final = "HEADRACE_STATE"
_END_OF_TIME_MS: Final = 1 << 52
_MOST_PACKED: Final = 262_144  # rows that a task holds before it packs them: more in one piece is faster, and larger


def bucketed(
    df: DataFrame,
    group_columns: Sequence[str],
    operator: KeyedOperator,
    output: StructType,
    *,
    mode: str,
    buckets: int = BUCKETS,
    event_time: bool = False,
) -> DataFrame:
    """What the operator makes of the rows, which have the columns of `operator.py`; GROUP is made here, of
    `group_columns`, unless it is there.

    `output` are the columns of what comes out, with the hidden ones. `mode` is that of the query. With `event_time` the
    operator sees the watermark of `df`, which must have one.
    """
    keyed = df if GROUP in df.columns else df.withColumn(GROUP, group_bytes(df, group_columns))
    # A key that is NULL as a whole has a bucket, too: some operators let such rows pass.
    rows = keyed.withColumn(_BUCKET, F.pmod(F.hash(GROUP), F.lit(buckets)))
    arrow = to_arrow_schema(keyed.schema, timezone="UTC")
    steps = _Steps(operator, arrow, uuid4().hex, has_timers=event_time, is_bounded=not df.isStreaming)
    time_mode = "EventTime" if event_time else "None"
    packed_rows = rows.mapInArrow(_pack, _PACKED).groupBy(_BUCKET)
    with _own_workers(df.sparkSession):
        made = packed_rows.transformWithState(steps, f"{_ROWS} binary", mode, time_mode)
    return made.mapInArrow(_unpacker(to_arrow_schema(output, timezone="UTC")), output)


@contextmanager
def _own_workers(spark: SparkSession) -> Iterator[None]:
    """For functions that are made within: Spark shares workers only among functions of the same environment, and those
    which remember state should meet it again, and be few."""
    environment = spark.sparkContext.environment
    environment[_OWN_WORKERS] = "1"
    try:
        yield
    finally:
        del environment[_OWN_WORKERS]


def in_place(df: DataFrame) -> DataFrame:
    """With PLACE and OFFSET, by which operators order the rows of a micro-batch."""
    if "_offset" not in df.columns:
        return df.withColumns({PLACE: F.lit(0).cast("bigint"), OFFSET: F.unix_micros(TIME)})
    # Rows of a DataFrame have no offset.
    offset = F.coalesce("_offset", F.unix_micros(TIME))
    return df.withColumns({PLACE: F.xxhash64("_topic", "_partition"), OFFSET: offset})


def group_bytes(df: DataFrame, columns: Sequence[str]) -> Column:
    """The same bytes for equal keys, also if one is an int and the other a long; NULL if all columns are."""
    texts = [_text(column(name), df.schema[name].dataType) for name in columns]
    if len(texts) == 1:
        return texts[0].cast("binary")
    whole = F.to_json(F.array(*texts)).cast("binary")
    return F.when(F.coalesce(*texts).isNotNull(), whole)


def _text(value: Column, kind: DataType) -> Column:
    if isinstance(kind, StringType):
        return value
    if isinstance(kind, BinaryType):
        return F.hex(value)
    if isinstance(kind, FloatType | DoubleType):
        return (value + F.lit(0.0)).cast("string")  # 0.0 and -0.0 are one key
    if kind.typeName() in ("struct", "array", "map"):
        return F.to_json(value, {"ignoreNullFields": "false"})
    return value.cast("string")


class _Steps(StatefulProcessor):  # type: ignore[misc]  # PySpark has no types for it
    """Each bucket's rows of a micro-batch, and its timer, as steps of the operator."""

    def __init__(
        self, operator: KeyedOperator, schema: pa.Schema, run: str, *, has_timers: bool, is_bounded: bool
    ) -> None:
        self._operator = operator
        self._schema = schema
        self._run = run  # tells the states of this operator in this run from others that a worker has met
        self._has_timers = has_timers
        self._is_bounded = is_bounded

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._states = BucketStates(handle, self._operator.state_schema, self._run)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        batch = pa.concat_tables([unpacked(row[_ROWS]) for row in rows])
        if self._is_bounded:
            yield from self._only_step(batch)
        else:
            yield from self._step(key[0], batch, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        yield from self._step(key[0], self._schema.empty_table(), timerValues)

    def close(self) -> None:
        pass

    def _step(self, bucket: int, batch: pa.Table, timers: Any) -> Iterator[Row]:
        # Before Spark knows a watermark it says 0, and -1 if there are no timers at all.
        watermark_ms = timers.getCurrentWatermarkInMs()
        clock = Clock(watermark_ms if watermark_ms > 0 else None)
        loaded = self._states.load(bucket)
        made = self._operator.step(batch, loaded.table, clock)
        wakes_at = self._operator.wakes_at(loaded.table) if self._has_timers else None
        self._states.save(bucket, loaded, wakes_at=wakes_at)
        yield from _row(made)

    def _only_step(self, batch: pa.Table) -> Iterator[Row]:
        """Of a batch query: all rows there are, and then the end of time."""
        state = StateTable(self._operator.state_schema)
        yield from _row(self._operator.step(batch, state, Clock(None)))
        if self._has_timers:
            yield from _row(self._operator.step(batch.slice(0, 0), state, Clock(_END_OF_TIME_MS)))


def _row(made: pa.Table) -> Iterator[Row]:
    if len(made):
        yield Row(**{_ROWS: packed(made)})


def _pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += len(batch)
        if rows >= _MOST_PACKED:
            yield _split(waiting)
            waiting, rows = [], 0
    if rows:
        yield _split(waiting)


def _split(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One row for each bucket."""
    whole = pa.Table.from_batches(batches).combine_chunks()
    numbers = whole[_BUCKET].combine_chunks().to_numpy()
    order = np.argsort(numbers, kind="stable")
    rows = whole.drop_columns(_BUCKET).take(pa.array(order))
    found, starts = np.unique(numbers[order], return_index=True)
    ends = [*starts[1:], len(rows)]
    pieces = [packed(rows.slice(start, end - start)) for start, end in zip(starts, ends, strict=True)]
    return pa.record_batch({_BUCKET: pa.array(found, pa.int32()), _ROWS: pa.array(pieces, pa.binary())})


def _unpacker(schema: pa.Schema) -> Any:
    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch.column(_ROWS):
                yield from unpacked(data.as_py()).cast(schema).to_batches()

    return unpack
