"""`df.writeStream.format("headrace")`: append and complete mode, exactly once or at least once.

Spark calls `write` for each task, on the executors, and then `commit`, in a process of its own on the driver. Exactly
once, the rows travel in the tasks' messages, and `commit` writes them in one transaction with the marker; or the tasks
write them in transactions of their own, and `commit` only marks the micro-batch as a whole. Either way a micro-batch
that is committed a second time finds its marker. At least once, the tasks send, and there is nothing to commit.

`commit` takes the application's name anew for each micro-batch, since Spark may call it in another process each time;
whoever is in the middle of a transaction is fenced. Two queries with one name find out by their markers.

Spark does not let Python sinks do update mode: `foreachBatch` with `headrace.spark.write_batch` does.
"""

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.spark.checkpoints import batch_ends, local_path
from headrace.spark.exactly_once import AppSink, MicroBatch
from headrace.spark.sink_options import SinkOptions, sink_options
from headrace.spark.sink_schema import record_columns
from headrace.spark.task_sink import TaskOutput, run_task


def stream_sink(given: dict[str, str], schema: StructType, *, overwrite: bool) -> "StreamSink":  # noqa: ARG001
    """`overwrite` is complete mode: all rows come each time, and all are written. Raises ConfigError."""
    options = sink_options(given)
    record_columns(schema, options.topic)
    return StreamSink(options)


class StreamSink(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return run_task(iterator, self._options)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 Spark's name
        outputs = [each for each in messages if isinstance(each, TaskOutput)]
        if not self._options.is_exactly_once or not outputs:
            return
        batch = MicroBatch(outputs[0].query_id, outputs[0].run_id, batchId, self._ends(batchId))
        topic = next((each.topic for each in outputs if each.topic is not None), None)
        with closing(AppSink(self._options)) as sink:
            sink.write(batch, chain.from_iterable(each.tables() for each in outputs), topic=topic)

    def _ends(self, batch_id: int) -> Any:
        """What the micro-batch reads up to. Only a checkpoint on this machine can be read without Spark."""
        root = None if self._options.checkpoint is None else local_path(self._options.checkpoint)
        return {} if root is None else batch_ends(root, batch_id)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing was begun on the driver; tasks end their own transactions."""
