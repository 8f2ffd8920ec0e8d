"""A driver in a process of its own, to be killed: copies topics to others, exactly once or not, each by a query.

    python -m tests.support.spark_driver '{"copies": [{"bootstrap": ..., "source": ..., "topic": ..., ...}, ...]}'

It ends when everything is copied. If `kill_at` names a place for some of its copies, each of them waits there for the
others, and then the driver kills itself, the JVM and all, as a power cut would. Its own JVM is in its process group;
the workers end when the JVM does.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from headrace.client.arrow_write import TableWriter
from headrace.client.producer import Producer
from headrace.spark import batch_writer, driver_sink, session
from tests.support.spark_settings import QUICK_START

_LOOK_SECONDS: Final = 0.3
# After which function a driver dies, by the name of the place.
_PLACES: Final[dict[str, tuple[type, str]]] = {
    "middle": (TableWriter, "add"),
    "before": (Producer, "send_offsets"),
    "after": (Producer, "commit_transaction"),
}


class _Now(threading.local):
    """What this thread is writing: which micro-batch, of which application."""

    batch: int | None = None
    app: str | None = None


class End(NamedTuple):
    """Where an application is when the driver dies: in this micro-batch, or in any."""

    place: str  # in the "middle" of a transaction, "before" its commit, or right "after" it
    batch_id: int | None = None


_now = _Now()


def main(told: dict[str, Any]) -> None:
    copies = told["copies"]
    prepare_end({copy["app"]: End(copy["kill_at"], copy["kill_batch"]) for copy in copies if "kill_at" in copy})
    spark = session("killed", "local[2,4]", conf=QUICK_START)
    queries = [copying(spark, copy).start() for copy in copies]
    wait_for_all(queries)
    print("the end", flush=True)
    os._exit(0)  # the rest would take seconds


def wait_for_all(queries: Sequence[StreamingQuery]) -> None:
    """Until they have ended. Raises what has ended one of them, also while others go on."""
    while any(query.isActive for query in queries):
        for query in queries:
            query.awaitTermination(_LOOK_SECONDS)
    for query in queries:  # one that failed in the last moment
        query.awaitTermination()


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


def prepare_end(ends: Mapping[str, End]) -> None:
    """Die when each of these applications is where it is told to be; those which come first wait for the others."""
    write, still = driver_sink._write, set(ends)

    def remembered(df: Any, number: int, options: Any) -> None:
        _now.batch, _now.app = number, options.app
        write(df, number, options)

    def arrive(place: str) -> None:
        end = ends.get(_now.app or "")
        if end is None or end.place != place or end.batch_id not in (None, _now.batch):
            return
        still.discard(_now.app or "")
        if not still:
            os.killpg(0, signal.SIGKILL)
        threading.Event().wait()  # for the kill

    def ending_at(place: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def last(*arguments: Any, **keywords: Any) -> Any:
            done = original(*arguments, **keywords)
            arrive(place)
            return done

        return last

    setattr(driver_sink, "_write", remembered)  # noqa: B010 the names of its arguments do not matter here
    for place, (kind, name) in _PLACES.items():
        setattr(kind, name, ending_at(place, getattr(kind, name)))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
