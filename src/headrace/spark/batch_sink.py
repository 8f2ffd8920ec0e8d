"""`df.write.format("headrace").mode("append")`: a table into topics.

At least once, the tasks send their rows, and a task that is tried again sends them again. Exactly once, the rows travel
to the driver, which writes them in one transaction: all of them are seen, or none. There is no marker: a batch job has
no number by which it could be recognised, so a job that is run again writes again.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.client.errors import ConfigError
from headrace.client.producer import Producer
from headrace.spark.exactly_once import explained, send, transaction_timeout_ms
from headrace.spark.sink_options import SinkOptions, sink_options
from headrace.spark.sink_schema import record_columns
from headrace.spark.task_sink import TaskOutput, run_task


def batch_sink(given: dict[str, str], schema: StructType, *, overwrite: bool) -> "BatchSink":
    """Raises ConfigError."""
    options = sink_options(given)
    problems = []
    if overwrite:
        problems.append('a topic cannot be overwritten: use mode("append"), and delete the topic before if need be')
    if options.is_exactly_once and options.in_tasks:
        problems.append("transactions of tasks need a streaming query: leave out the option transactions")
    if problems:
        raise ConfigError(problems)
    record_columns(schema, options.topic)
    return BatchSink(options)


class BatchSink(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return run_task(iterator, self._options)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if not self._options.is_exactly_once:
            return
        options = self._options
        tables = chain.from_iterable(each.tables() for each in messages if isinstance(each, TaskOutput))
        with (
            Producer(config=options.transactional(options.name)) as producer,
            explained(options.name, transaction_timeout_ms(options)),
            producer.transaction(),
        ):
            send(producer, tables, options)
