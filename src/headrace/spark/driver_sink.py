"""`write_batch`: the sink for foreachBatch, in every output mode.

    writer = headrace.spark.batch_writer(bootstrap="localhost:9092", app="sales")
    sales.writeStream.foreachBatch(writer).outputMode("update").option("checkpointLocation", "sales").start()

By default the rows come to the driver as Arrow batches and go out in one transaction, in which the marker is, too (see
`markers.py`). The producer stays between micro-batches: the first one of a run takes the application's name over from
whoever has it. With `transactions="tasks"` the rows stay where they are, and each task has a transaction of its own.

How a micro-batch finds out which one it is, and where its checkpoint is, stands in `micro_batch.py`.
"""

import atexit
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.client.errors import WrongStateError
from headrace.spark.collecting import batches
from headrace.spark.exactly_once import AppSink, MicroBatch
from headrace.spark.micro_batch import is_running, micro_batch
from headrace.spark.sink_options import DRIVER, EXACTLY_ONCE, SinkOptions, batch_options
from headrace.spark.sink_schema import record_columns
from headrace.spark.task_sink import pieces, send_rows, write_rows

_LOG: Final = logging.getLogger(__name__)


def write_batch(
    df: DataFrame,
    batch_id: int,
    *,
    bootstrap: str,
    app: str | None = None,
    topic: str | None = None,
    guarantee: str = EXACTLY_ONCE,
    transactions: str = DRIVER,
    checkpoint: str | None = None,
    **client: Any,
) -> None:
    """Write a micro-batch: columns `value`, and if they are there `key`, `topic`, `headers`, `partition`, `timestamp`.

    `app` names the application: transactional id, and group of the offsets; one name is for one query. `topic` is that
    of all rows, else the column says it. `guarantee` is exactly_once or at_least_once, `transactions` are of the driver
    or of tasks. `checkpoint` is found out by itself, save in threads of one's own. All else are settings of the
    producer, by Kafka's names with underscores. Raises KafkaError, ConfigError.
    """
    options = batch_options(
        bootstrap=bootstrap,
        app=app,
        topic=topic,
        guarantee=guarantee,
        transactions=transactions,
        checkpoint=checkpoint,
        client={name.replace("_", "."): value for name, value in client.items()},
    )
    _write(df, batch_id, options)


def batch_writer(*, bootstrap: str, app: str | None = None, **options: Any) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch`; the arguments are those of `write_batch`."""

    def write(df: DataFrame, batch_id: int) -> None:
        write_batch(df, batch_id, bootstrap=bootstrap, app=app, **options)

    return write


def _write(df: DataFrame, batch_id: int, options: SinkOptions) -> None:
    names = record_columns(df.schema, options.topic)
    rows = df if len(names) == len(df.columns) else df.select(*names)
    if not options.is_exactly_once:
        _write_at_least_once(rows, options)
        return
    batch = micro_batch(df, batch_id, options.checkpoint)
    with _kept(df, options, batch) as sink:
        is_new = _write_in_tasks(rows, sink, batch) if options.in_tasks else sink.write(batch, pieces(batches(rows)))
    if not is_new:
        # The rows are in the log, but Spark may have died before it had their state: that is written when rows are
        # computed, and Spark refuses a micro-batch with state whose rows nobody has asked for.
        rows.write.format("noop").mode("overwrite").save()
        _LOG.info("[%s batch %d] was written before, and is skipped", options.app, batch_id)


def _write_in_tasks(rows: DataFrame, sink: AppSink, batch: MicroBatch) -> bool:
    """The tasks write the rows; then the driver marks the micro-batch as a whole."""
    if sink.has(batch):
        return False
    topics = _in_tasks(rows, partial(_write_rows, sink.options, batch))
    return sink.write(batch, (), topic=next(iter(topics), None))


def _write_at_least_once(rows: DataFrame, options: SinkOptions) -> None:
    if options.in_tasks:
        _in_tasks(rows, partial(_send_rows, options))
    else:
        send_rows(batches(rows), options)


def _in_tasks(rows: DataFrame, work: Callable[[Iterator[Any]], str | None]) -> list[str]:
    """Run it for each task's rows; the topics that they tell."""

    def run(iterator: Iterator[Any]) -> Iterator[Any]:
        yield pa.record_batch({"topic": pa.array([work(iterator)], pa.string())})

    told = rows.mapInArrow(run, "topic string").collect()
    return [row.topic for row in told if row.topic is not None]


def _write_rows(options: SinkOptions, batch: MicroBatch, iterator: Iterator[Any]) -> str | None:
    return write_rows(iterator, options, batch)


def _send_rows(options: SinkOptions, iterator: Iterator[Any]) -> None:
    send_rows(iterator, options)


class _Place:
    """Where the sink of one application stays from one micro-batch to the next."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held while a micro-batch is written
        self.sink: AppSink | None = None
        self.query_id = ""  # which it serves

    def close(self) -> None:
        sink, self.sink = self.sink, None
        if sink is not None:
            sink.close()


_places: dict[str, _Place] = {}  # by application


@contextmanager
def _kept(df: DataFrame, options: SinkOptions, batch: MicroBatch) -> Iterator[AppSink]:
    """The sink of an application, opened if need be; after a failure it is closed, and the next time opened anew."""
    place = _places.setdefault(options.name, _Place())
    with place.lock:
        if place.sink is not None and place.query_id != batch.query_id and is_running(df, place.query_id):
            raise WrongStateError(
                f"Two queries of this driver write as application {options.name!r}, and each would forget what the "
                "other has written. Give each of them an app of its own."
            )
        if place.sink is not None:
            place.sink.refuse_second_write(batch)
            if place.sink.options.client != options.client:
                place.close()
        if place.sink is None:
            place.sink = AppSink(options)
        place.sink.options = options
        place.query_id = batch.query_id
        try:
            yield place.sink
        except BaseException:
            place.close()
            raise


def forget(app: str) -> None:
    """Close the sink of an application, if it is open; the next micro-batch opens it again."""
    place = _places.get(app)
    if place is not None:
        with place.lock:
            place.close()


@atexit.register
def _forget_all() -> None:
    for place in _places.values():
        place.close()  # without its lock: what is being written now will not end well in any case
