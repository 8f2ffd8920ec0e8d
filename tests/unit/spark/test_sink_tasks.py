"""What a task sends at least once, through producers that stay; without Spark."""

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

import headrace
from headrace.arrow import read
from headrace.spark import task_sink
from headrace.spark.sink_options import SinkOptions, sink_options
from headrace.spark.task_sink import PIECE_ROWS, send_rows

SECONDS = 60


@pytest.fixture
def options() -> Iterator[SinkOptions]:
    with headrace.Broker() as broker:
        broker.create_topic("out", partitions=1)
        yield sink_options({"kafka.bootstrap.servers": broker.address, "topic": "out"})
        for producer in (each for kept in task_sink._idle.values() for each in kept):
            producer.close(timeout=0)
        task_sink._idle.clear()


def some(count: int) -> pa.RecordBatch:
    return pa.record_batch({"value": [b"v"] * count})


def test_a_producer_stays_for_the_next_micro_batch(options: SinkOptions) -> None:
    assert send_rows([some(3)], options) == 3
    ((first,),) = task_sink._idle.values()
    assert send_rows([some(2)], options) == 2
    assert list(task_sink._idle.values()) == [[first]]


def test_a_query_that_fails_does_not_disturb_another_of_the_same_driver(options: SinkOptions) -> None:
    is_writing, has_failed = threading.Event(), threading.Event()
    written: list[int] = []

    def slowly() -> Iterator[pa.RecordBatch]:
        yield some(PIECE_ROWS)  # which are sent when more are asked for
        is_writing.set()
        assert has_failed.wait(SECONDS)
        yield some(1)

    other = threading.Thread(target=lambda: written.append(send_rows(slowly(), options)))
    other.start()
    assert is_writing.wait(SECONDS)
    with pytest.raises(ValueError, match="a row is for 9"):
        send_rows([pa.record_batch({"value": [b"v"], "partition": pa.array([9], pa.int32())})], options)
    has_failed.set()
    other.join(SECONDS)
    assert written == [PIECE_ROWS + 1]
    assert read("out", str(options.client["bootstrap.servers"])).num_rows == PIECE_ROWS + 1
