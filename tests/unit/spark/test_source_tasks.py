"""What a worker does with a task, and what it keeps for the next one."""

import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

import headrace
from headrace.client import background
from headrace.client.arrow_fetch import Part
from headrace.spark import source_tasks
from headrace.spark.options import Options
from headrace.spark.source_options import source_options
from headrace.spark.source_schema import arrow_schema, schema_of
from headrace.spark.source_tasks import SourceTask, read_task
from tests.support.spark_source import fill

BROKER = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "t"}


@pytest.mark.parametrize("with_headers", [False, True])
def test_the_columns_are_what_spark_expects_of_the_schema(with_headers: bool) -> None:
    options = source_options({**BROKER, "includeHeaders": str(with_headers)})
    assert to_arrow_schema(schema_of(options), timezone="UTC").equals(arrow_schema(with_headers=with_headers))


def test_rows_with_headers() -> None:
    with headrace.Broker() as broker:
        broker.create_topic("t", retention_ms=-1)  # its records are of 1970
        with headrace.Producer(broker.address) as producer:
            producer.send("t", value=b"a", headers=[("h", b"1")], timestamp=5)
            producer.send("t", value=None, key=b"k", timestamp=6)
        options = source_options({**BROKER, "kafka.bootstrap.servers": broker.address, "includeHeaders": "true"})
        (batch,) = read_task(SourceTask(Part("t", 0, 0, 2)), options)
    assert batch.schema == arrow_schema(with_headers=True)
    found = pa.Table.from_batches([batch]).drop_columns("timestamp").to_pylist()
    same = {"topic": "t", "partition": 0, "timestampType": 0}
    assert found == [
        {**same, "key": None, "value": b"a", "offset": 0, "headers": [{"key": "h", "value": b"1"}]},
        {**same, "key": b"k", "value": None, "offset": 1, "headers": None},
    ]
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [5_000, 6_000]


def test_a_worker_reads_also_without_assertions() -> None:
    program = """if True:
        import sys
        from headrace.client.arrow_fetch import Part
        from headrace.spark.source_options import source_options
        from headrace.spark.source_tasks import SourceTask, read_task

        options = source_options({"kafka.bootstrap.servers": sys.argv[1], "subscribe": "t"})
        print(sum(batch.num_rows for batch in read_task(SourceTask(Part("t", 0, 0, 5)), options)))
    """
    with headrace.Broker() as broker:
        broker.create_topic("t")
        fill(broker.address, "t", range(5))
        done = subprocess.run([sys.executable, "-O", "-c", program, broker.address], capture_output=True, check=False)
    assert (done.stdout.decode(), done.returncode) == ("5\n", 0), done.stderr.decode()


def test_connections_are_kept_for_the_next_task() -> None:
    with headrace.Broker() as broker:
        broker.create_topic("t")
        fill(broker.address, "t", range(10))
        options = source_options({**BROKER, "kafka.bootstrap.servers": broker.address})

        def connections() -> list[object]:
            async def open_now() -> list[object]:
                return list(source_tasks._client(options)._cluster._pool.open_connections())

            return background.call(open_now())

        assert sum(batch.num_rows for batch in read_task(SourceTask(Part("t", 0, 0, 5)), options)) == 5
        before = connections()
        assert before
        assert sum(batch.num_rows for batch in read_task(SourceTask(Part("t", 0, 5, 10)), options)) == 5
        assert connections() == before


def test_a_worker_keeps_a_few_clients_only() -> None:
    def options(number: int) -> Options:
        return source_options({**BROKER, "kafka.client.id": f"client-{number}"})

    first = source_tasks._client(options(0))
    assert source_tasks._client(options(0)) is first
    for number in range(1, 20):
        source_tasks._client(options(number))
    assert len(source_tasks._clients) == 8
    assert first._is_closed
    assert source_tasks._client(options(0)) is not first
