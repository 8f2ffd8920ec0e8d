"""A broker that goes away under a running query, and a source that commits where the sink does."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import headrace
from headrace.arrow import write
from headrace.spark import batch_writer
from tests.support.both_brokers import unique
from tests.support.broker_process import BrokerProcess
from tests.support.spark_queries import committed_values, run_to_end
from tests.support.waiting import wait_until

QUERY_SECONDS = 600  # so long the machine may be busy; a query that needs it hangs


def read_topic(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("headrace").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options).load()


def numbered(first: int, last: int) -> pa.Table:
    values = [str(number) for number in range(first, last)]
    return pa.table({"key": values, "value": values})


@pytest.mark.parametrize("form", ["foreachBatch", "format"])
def test_a_broker_that_restarts_under_a_running_query(spark: SparkSession, tmp_path: Path, form: str) -> None:
    """Killed and started again twice, while micro-batches come and go: each record once."""
    source, topic, app = unique("in"), unique("out"), unique("app")
    (tmp_path / "broker").mkdir()
    with BrokerProcess(tmp_path / "broker") as broker:
        address = broker.bootstrap
        with headrace.Admin(address) as admin:
            admin.create_topic(source, partitions=2)
            admin.create_topic(topic, partitions=2)
        rows = read_topic(spark, address, source, maxOffsetsPerTrigger="50").select("key", "value")
        if form == "format":
            writer = rows.writeStream.format("headrace").option("kafka.bootstrap.servers", address)
            writer = writer.option("app", app).option("topic", topic)
        else:
            writer = rows.writeStream.foreachBatch(batch_writer(bootstrap=address, app=app, topic=topic))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            for kills in range(2):
                write(numbered(kills * 500, kills * 500 + 500), source, address)
                written = kills * 500 + 100
                wait_until(
                    lambda written=written: len(committed_values(topic, address)) >= written or not query.isActive,  # type: ignore[misc]
                    "micro-batches are written",
                    seconds=QUERY_SECONDS,
                )
                broker.kill()
                broker.start()
            wait_until(
                lambda: len(committed_values(topic, address)) >= 1_000 or not query.isActive,
                "everything is written",
                seconds=QUERY_SECONDS,
            )
            assert query.exception() is None
        finally:
            query.stop()
        assert sorted(map(int, committed_values(topic, address))) == list(range(1_000))
        broker.check_log()


def test_a_source_with_the_group_of_the_sink_is_found_out(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    source, topic, app = unique("in"), unique("out"), unique("app")
    broker.create_topic(source, partitions=1)
    write(numbered(0, 50), source, broker.address)
    options = {"maxOffsetsPerTrigger": "10", "kafka.group.id": app}
    rows = read_topic(spark, broker.address, source, **options).select("value")
    writer = rows.writeStream.foreachBatch(batch_writer(bootstrap=broker.address, app=app, topic=topic))
    with pytest.raises(StreamingQueryException, match=r"give the source another kafka\.group\.id"):
        run_to_end(writer, tmp_path / "checkpoint")


def test_the_lag_of_the_group_is_that_of_the_pipeline(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    """Also with the format, whose commit runs in a process that sees nothing but the checkpoint."""
    source, first, second = unique("in"), unique("out"), unique("out")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(source, partitions=1)
        write(numbered(0, 50), source, bootstrap)
        rows = read_topic(spark, bootstrap, source, maxOffsetsPerTrigger="20").select("key", "value")
        batches = rows.writeStream.foreachBatch(batch_writer(bootstrap=bootstrap, app=first, topic=first))
        run_to_end(batches, tmp_path / "first")
        streamed = rows.writeStream.format("headrace").option("kafka.bootstrap.servers", bootstrap)
        run_to_end(streamed.option("app", second).option("topic", second), tmp_path / "second")
        for app in (first, second):
            assert sorted(map(int, committed_values(app, bootstrap))) == list(range(50))
            (found,) = admin.list_group_offsets(app, require_stable=True).items()
            assert found[0] == (source, 0)
            assert (found[1].offset, found[1].metadata.rpartition(":")[2]) == (50, "2")
            assert admin.list_group_offsets(f"{app}.marker") == {}
