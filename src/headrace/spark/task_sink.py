"""What a task does with its rows: send them to the driver, or to the topics, with or without a transaction.

A transaction of a task has the marker of the task in it: `<app>.task-<number>` is its transactional id. An attempt that
is made again fences the one before, and skips what that one has committed. So the rows of a task must be the same each
time: Spark's are, as long as a micro-batch is computed from logged offsets and in the same number of tasks.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from headrace.client.producer import Producer
from headrace.spark.exactly_once import AppSink, MicroBatch, send
from headrace.spark.markers import task_name
from headrace.spark.micro_batch import BATCH_ID, QUERY_ID, RUN_ID
from headrace.spark.sink_options import SinkOptions
from headrace.spark.sink_rows import COLUMNS, by_topic, in_pieces

PIECE_ROWS: Final = 100_000  # encoded and sent together
PIECE_BYTES: Final = 32 * 1024 * 1024

# Kept by the worker, or the driver, from one micro-batch to the next, by their settings. Queries that write at the same
# time have one each: what goes wrong in one of them must not disturb another.
_idle: dict[str, list[Producer]] = {}


@dataclass
class TaskOutput(WriterCommitMessage):
    """What the driver hears of a task: which query, a topic of its rows, and the rows if they go through the driver."""

    query_id: str
    run_id: str
    topic: str | None
    rows: bytes | None = None

    def tables(self) -> Iterator[Any]:
        if self.rows is not None:
            yield from in_pieces(pa.ipc.open_stream(self.rows), rows=PIECE_ROWS, size_bytes=PIECE_BYTES)


def run_task(batches: Iterable[Any], options: SinkOptions) -> TaskOutput:
    """The rows of a task of the format, as record batches. Raises KafkaError, ValueError."""
    context = TaskContext.get()
    query_id, run_id = (context.getLocalProperty(name) or "" for name in (QUERY_ID, RUN_ID))
    if not options.is_exactly_once:
        send_rows(batches, options)
        return TaskOutput(query_id, run_id, None)
    if options.in_tasks:
        batch = MicroBatch(query_id, run_id, int(context.getLocalProperty(BATCH_ID)), {})
        return TaskOutput(query_id, run_id, write_rows(batches, options, batch))
    return TaskOutput(query_id, run_id, None, _packed(batches, options.max_task_bytes))


def send_rows(batches: Iterable[Any], options: SinkOptions) -> int:
    """At least once, through a producer that stays; how many."""
    idle = _idle.setdefault(repr(sorted(options.client.items())), [])
    try:
        producer = idle.pop()
    except IndexError:
        producer = Producer(config=options.client)
    try:
        count = send(producer, pieces(batches), options)
    except BaseException:
        producer.close(timeout=0)
        raise
    idle.append(producer)
    return count


def write_rows(batches: Iterable[Any], options: SinkOptions, batch: MicroBatch) -> str | None:
    """In a transaction of this task; a topic of its rows, None if there are none."""
    rows = pieces(batches)
    first = next(rows, None)
    if first is None:
        return None
    topic = next(iter(by_topic(first, options.topic)))[0]
    named = replace(options, app=task_name(options.name, TaskContext.get().partitionId()))
    with closing(AppSink(named, is_task=True)) as sink:
        sink.write(batch, _both(first, rows))
    return topic


def pieces(batches: Iterable[Any]) -> Iterator[Any]:
    return in_pieces(batches, rows=PIECE_ROWS, size_bytes=PIECE_BYTES)


def _both(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _packed(batches: Iterable[Any], limit_bytes: int) -> bytes | None:
    """The rows as an Arrow stream, without the columns that nobody wants; None if there are none."""
    sink = pa.BufferOutputStream()
    writer = None
    for batch in batches:
        chosen = batch.select([name for name in batch.schema.names if name in COLUMNS])
        if not chosen.num_rows:
            continue
        if writer is None:
            writer = pa.ipc.new_stream(sink, chosen.schema)
        writer.write_batch(chosen)
        if sink.tell() > limit_bytes:
            raise ValueError(
                f"A task has more than {limit_bytes} bytes of rows for the driver (maxTaskBytes). Let the tasks write "
                'them: option("transactions", "tasks"); or make micro-batches smaller (maxOffsetsPerTrigger).'
            )
    if writer is None:
        return None
    writer.close()
    return bytes(sink.getvalue())
