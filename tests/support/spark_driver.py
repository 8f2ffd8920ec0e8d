"""A driver in a process of its own, to be killed: copies a topic to another, exactly once or not.

    python -m tests.support.spark_driver '{"bootstrap": ..., "source": ..., "topic": ..., ...}'

It ends when everything is copied, or at the place that `kill_at` names: it kills itself, the JVM and all, as a power
cut would. Its own JVM is in its process group; the workers end when the JVM does.
"""

import json
import os
import signal
import sys
import threading
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from headrace.client.arrow_write import TableWriter
from headrace.client.producer import Producer
from headrace.spark import batch_writer, driver_sink, session
from headrace.spark.exactly_once import AppSink
from tests.support.spark_settings import QUICK_START


class _Now(threading.local):
    """What this thread is writing: which micro-batch, of which application."""

    batch: int | None = None
    app: str | None = None


_now = _Now()


def main(told: dict[str, Any]) -> None:
    if "kill_at" in told:
        prepare_end(told["kill_at"], batch_id=told["kill_batch"])
    query = copying(session("killed", "local[2,4]", conf=QUICK_START), told).start()
    query.awaitTermination()
    print("the end", flush=True)
    os._exit(0)  # the rest would take seconds


def copying(spark: SparkSession, told: dict[str, Any]) -> DataStreamWriter:
    """The query, which ends when everything is copied."""
    rows = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", told["bootstrap"])
        .option("subscribe", told["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", told["rows_per_batch"])
        .load()
        .select("key", "value")
    )
    sink = {name: told[name] for name in ("app", "topic", "transactions") if name in told}
    if told["form"] == "format":
        writer = (
            rows.writeStream.format("headrace").option("kafka.bootstrap.servers", told["bootstrap"]).options(**sink)
        )
    else:
        guarantee = "at_least_once" if told["form"] == "naive" else "exactly_once"
        write = batch_writer(bootstrap=told["bootstrap"], guarantee=guarantee, **sink)
        writer = rows.writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", told["checkpoint"]).trigger(availableNow=True)


def prepare_end(place: str, *, batch_id: int | None = None, app: str | None = None) -> None:
    """Die in the middle of a transaction, before its commit, or right after it.

    In the write of this micro-batch, of this application, or of any.
    """
    patched: Final = {
        "middle": (TableWriter, "add"),
        "before": (AppSink, "_mark"),
        "after": (Producer, "commit_transaction"),
    }
    kind, name = patched[place]
    original, write = getattr(kind, name), driver_sink._write

    def remembered(df: Any, number: int, options: Any) -> None:
        _now.batch, _now.app = number, options.app
        write(df, number, options)

    def last(*arguments: Any, **keywords: Any) -> Any:
        done = original(*arguments, **keywords)
        if batch_id in (None, _now.batch) and app in (None, _now.app):
            os.killpg(0, signal.SIGKILL)
        return done

    setattr(driver_sink, "_write", remembered)  # noqa: B010 the names of its arguments do not matter here
    setattr(kind, name, last)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
