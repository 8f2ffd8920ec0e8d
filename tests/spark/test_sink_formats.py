"""format("headrace") of `write` and `writeStream`: the same guarantees through Spark's own way of writing."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import headrace
from headrace.arrow import read
from tests.support.both_brokers import unique
from tests.support.spark_queries import (
    QUERY_SECONDS,
    LineFiles,
    committed_values,
    forget_last_commit,
    keyed,
    numbers,
    run_to_end,
)
from tests.support.spark_source import fill, stream


def streamed(rows: DataFrame, bootstrap: str, **options: str) -> Any:
    return rows.writeStream.format("headrace").option("kafka.bootstrap.servers", bootstrap).options(**options)


def spread(rows: DataFrame) -> DataFrame:
    """Over two tasks, by value: the same ones each time."""
    return rows.repartition(2, "value")


class TestStreams:
    @pytest.mark.parametrize(
        ("at", "transactions"),
        [
            ("headrace", "driver"),
            ("headrace", "tasks"),
            pytest.param("kafka", "tasks", marks=pytest.mark.kafka),  # the driver's are shown there with foreachBatch
        ],
    )
    def test_a_repeated_batch_is_written_once(
        self,
        request: pytest.FixtureRequest,
        spark: SparkSession,
        files: LineFiles,
        tmp_path: Path,
        at: str,
        transactions: str,
    ) -> None:
        bootstrap: str = request.getfixturevalue(f"{at}_bootstrap")
        topic, app, checkpoint = unique("out"), unique("app"), tmp_path / "checkpoint"
        rows = spread(keyed(files.stream(spark)))
        writer = streamed(rows, bootstrap, app=app, topic=topic, transactions=transactions)
        run_to_end(writer, checkpoint)
        assert numbers(topic, bootstrap) == list(range(30))
        assert forget_last_commit(checkpoint) == 2
        files.write(["30"])
        run_to_end(writer, checkpoint)
        assert numbers(topic, bootstrap) == list(range(31))
        run_to_end(writer, tmp_path / "another")  # a new query starts afresh
        assert numbers(topic, bootstrap) == sorted([*range(31)] * 2)
        files.write(["31"])
        with pytest.raises(StreamingQueryException, match=r"Another query .* writes as application"):
            run_to_end(writer, checkpoint)  # and has the name now

    @pytest.mark.parametrize("options", [{}, {"app": "any", "guarantee": "at_least_once"}])
    def test_at_least_once_doubles_what_is_repeated(
        self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path, options: dict[str, str]
    ) -> None:
        topic, checkpoint = unique("out"), tmp_path / "checkpoint"
        writer = streamed(keyed(files.stream(spark)), broker.address, topic=topic, **options)
        run_to_end(writer, checkpoint)
        assert numbers(topic, broker.address) == list(range(30))
        forget_last_commit(checkpoint)
        run_to_end(writer, checkpoint)
        assert numbers(topic, broker.address) == sorted([*range(30), *range(20, 30)])

    @pytest.mark.parametrize("transactions", ["driver", "tasks"])
    def test_a_task_that_is_killed_is_tried_again(
        self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path, transactions: str
    ) -> None:
        """The worker of one task dies behind its first rows; the second attempt is left alone."""
        topic, grave = unique("out"), tmp_path / "grave"
        files.write(map(str, range(30, 5_000)))

        def die(batches: Iterator[Any]) -> Iterator[Any]:
            for number, batch in enumerate(batches):
                context = TaskContext.get()
                is_third = context.getLocalProperty("streaming.sql.batchId") == "3"
                if number == 1 and is_third and context.partitionId() == 1 and context.attemptNumber() == 0:
                    grave.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield batch

        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
        try:
            rows = spread(keyed(files.stream(spark))).mapInArrow(die, "key string, value string")
            writer = streamed(rows, broker.address, app=unique("app"), topic=topic, transactions=transactions)
            run_to_end(writer, tmp_path / "checkpoint")
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        assert grave.exists()
        assert numbers(topic, broker.address) == list(range(5_000))

    def test_complete_mode(
        self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path
    ) -> None:
        topic = unique("out")
        counts = files.stream(spark).groupBy((f.col("value") % 2).alias("odd")).count()
        rows = counts.select(f.concat_ws("=", "odd", "count").alias("value"))
        writer = streamed(rows, broker.address, app=unique("app"), topic=topic).outputMode("complete")
        run_to_end(writer, tmp_path / "checkpoint")
        assert sorted(committed_values(topic, broker.address)) == ["0=10", "0=15", "0=5", "1=10", "1=15", "1=5"]

    def test_update_mode_is_refused_by_spark(
        self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path
    ) -> None:
        counts = files.stream(spark).groupBy("value").count().select("value")
        writer = streamed(counts, broker.address, topic="x").outputMode("update")
        with pytest.raises((StreamingQueryException, PySparkException), match=r"[Uu]pdate"):
            run_to_end(writer, tmp_path / "checkpoint")

    def test_rows_that_are_too_many_for_the_driver_are_told(
        self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path
    ) -> None:
        topic = unique("out")
        writer = streamed(keyed(files.stream(spark)), broker.address, app=unique("app"), topic=topic, maxTaskBytes="9")
        with pytest.raises(StreamingQueryException, match="more than 9 bytes of rows for the driver"):
            run_to_end(writer, tmp_path / "checkpoint")

    def test_a_checkpoint_in_the_place_of_the_session_is_told(
        self, spark: SparkSession, broker: headrace.Broker, tmp_path: Path
    ) -> None:
        source, app = unique("in"), unique("app")
        broker.create_topic(source, partitions=1)
        fill(broker.address, source, range(5))
        rows = stream(spark, broker.address, subscribe=source, startingOffsets="earliest").select("value")
        spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
        try:
            writer = streamed(rows, broker.address, app=app, topic=app, checkpoint=str(tmp_path / app))
            query = writer.queryName(app).trigger(availableNow=True).start()
            assert query.awaitTermination(QUERY_SECONDS), "the query has not ended in time"
        finally:
            spark.conf.unset("spark.sql.streaming.checkpointLocation")
        assert numbers(app, broker.address) == list(range(5))
        with headrace.Admin(broker.address) as admin:
            assert [each.offset for each in admin.list_group_offsets(app).values()] == [5]

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            ({"guarantee": "exactly_once"}, "exactly once needs an option app"),
            ({"app": "a", "kafka.transactional.id": "x"}, r"kafka\.transactional\.id is the sink's own business"),
            (
                {"app": "a", "kafka.enable.idempotence": "true"},
                r"kafka\.enable\.idempotence is the sink's own business",
            ),
            ({"app": "a", "kafka.transaction.timeout.ms": "90000000"}, "does not allow transactions of 90000000 ms"),
        ],
    )
    def test_what_cannot_be_is_told(
        self,
        spark: SparkSession,
        broker: headrace.Broker,
        files: LineFiles,
        tmp_path: Path,
        options: dict[str, str],
        complaint: str,
    ) -> None:
        with pytest.raises((StreamingQueryException, PySparkException), match=complaint):
            run_to_end(streamed(keyed(files.stream(spark)), broker.address, topic="x", **options), tmp_path / "c")

    def test_the_schema_is_looked_at_before_the_first_row(
        self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path
    ) -> None:
        lengths = files.stream(spark).selectExpr("length(value) AS value")
        with pytest.raises((StreamingQueryException, PySparkException), match="column value is int32"):
            run_to_end(streamed(lengths, broker.address, topic="x"), tmp_path / "checkpoint")


class TestBatches:
    def test_at_least_once_and_exactly_once(self, spark: SparkSession, bootstrap: str) -> None:
        plain, whole = unique("plain"), unique("whole")
        rows = spark.range(1_000).selectExpr("CAST(id AS STRING) AS value").repartition(2)
        writer = rows.write.format("headrace").mode("append").option("kafka.bootstrap.servers", bootstrap)
        writer.option("topic", plain).save()
        assert numbers(plain, bootstrap) == list(range(1_000))
        writer.option("topic", whole).option("app", unique("app")).save()
        assert numbers(whole, bootstrap) == list(range(1_000))

    def test_headers_may_be_left_out(self, spark: SparkSession, broker: headrace.Broker) -> None:
        header = "ARRAY(NAMED_STRUCT('key', 'h', 'value', CAST('x' AS BINARY))) AS headers"
        writer = spark.range(1).selectExpr("'v' AS value", header).write.format("headrace").mode("append")
        writer = writer.option("kafka.bootstrap.servers", broker.address)
        with_headers, without = unique("out"), unique("out")
        writer.option("topic", with_headers).save()
        writer.option("topic", without).option("includeHeaders", "false").save()
        assert read(with_headers, broker.address).to_pylist()[0]["headers"] == [{"key": "h", "value": b"x"}]
        assert read(without, broker.address).to_pylist()[0]["headers"] is None

    def test_settings_of_the_producer(self, spark: SparkSession, broker: headrace.Broker) -> None:
        """A repeated letter is short when it is compressed."""
        rows = spark.range(100).selectExpr("REPEAT('x', 1000) AS value").coalesce(1)
        writer = rows.write.format("headrace").mode("append").option("kafka.bootstrap.servers", broker.address)
        sizes = []
        for compression in ("none", "gzip"):
            topic = unique("out")
            writer.option("topic", topic).option("kafka.compression.type", compression).save()
            with headrace.Admin(broker.address) as admin:
                (logs,) = admin.describe_log_dirs().values()
            replicas = [item for log in logs for item in log.replicas.items()]
            sizes.append(sum(replica.size_bytes for place, replica in replicas if place.topic == topic))
        assert sizes[0] > 100_000
        assert 0 < sizes[1] < 10_000

    def test_a_job_that_fails_leaves_nothing(self, spark: SparkSession, broker: headrace.Broker) -> None:
        topic = unique("out")
        bad = "IF(id = 900, CAST(raise_error('bad row') AS STRING), CAST(id AS STRING)) AS value"
        writer = spark.range(1_000).selectExpr(bad).write.format("headrace").mode("append")
        options = {"kafka.bootstrap.servers": broker.address, "topic": topic, "app": unique("app")}
        with pytest.raises(PySparkException, match="bad row"):
            writer.options(**options).save()
        with headrace.Admin(broker.address) as admin:
            assert topic not in [each.name for each in admin.list_topics()]

    @pytest.mark.parametrize(
        ("mode", "options", "complaint"),
        [
            ("overwrite", {"topic": "x"}, "a topic cannot be overwritten"),
            ("append", {"topic": "x", "app": "a", "transactions": "tasks"}, "need a streaming query"),
            ("append", {}, "neither an option topic nor a column topic"),
            ("append", {"topics": "x"}, "Did you mean topic"),
        ],
    )
    def test_what_cannot_be_is_told(
        self, spark: SparkSession, broker: headrace.Broker, mode: str, options: dict[str, str], complaint: str
    ) -> None:
        writer = spark.range(1).selectExpr("CAST(id AS STRING) AS value").write.format("headrace").mode(mode)
        with pytest.raises(PySparkException, match=complaint):
            writer.option("kafka.bootstrap.servers", broker.address).options(**options).save()
