"""write_batch in real queries: everything once, whatever happens between Spark's commit and ours."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import headrace
from headrace.arrow import read
from headrace.client.murmur2 import partition_of
from headrace.spark import batch_writer, write_batch
from headrace.spark.checkpoints import query_id
from headrace.spark.driver_sink import forget
from headrace.spark.exactly_once import AppSink
from headrace.spark.micro_batch import hadoop_reader
from headrace.spark.sink_options import batch_options
from tests.support.both_brokers import unique
from tests.support.spark_queries import LineFiles, committed_values, forget_last_commit, keyed, numbers, run_to_end


class TestExactlyOnce:
    @pytest.mark.parametrize(
        ("at", "transactions"),
        [
            ("headrace", "driver"),
            ("headrace", "tasks"),
            pytest.param("kafka", "driver", marks=pytest.mark.kafka),  # the tasks' own are shown there with the format
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
        writer = batch_writer(bootstrap=bootstrap, app=app, topic=topic, transactions=transactions)
        stream = keyed(files.stream(spark))
        run_to_end(stream.writeStream.foreachBatch(writer), checkpoint)
        assert numbers(topic, bootstrap) == list(range(30))
        assert forget_last_commit(checkpoint) == 2
        files.write(["30"])
        run_to_end(stream.writeStream.foreachBatch(writer), checkpoint)
        assert numbers(topic, bootstrap) == list(range(31))
        run_to_end(stream.writeStream.foreachBatch(writer), tmp_path / "another")  # a new query starts afresh
        assert numbers(topic, bootstrap) == sorted([*range(31)] * 2)

    def test_a_naive_sink_doubles(
        self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path
    ) -> None:
        """So the test above can fail."""
        topic, checkpoint = unique("out"), tmp_path / "checkpoint"
        writer = batch_writer(bootstrap=broker.address, topic=topic, guarantee="at_least_once")
        stream = keyed(files.stream(spark))
        run_to_end(stream.writeStream.foreachBatch(writer), checkpoint)
        forget_last_commit(checkpoint)
        run_to_end(stream.writeStream.foreachBatch(writer), checkpoint)
        assert numbers(topic, broker.address) == sorted([*range(30), *range(20, 30)])

    def test_update_mode(self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path) -> None:
        topic = unique("out")
        counts = files.stream(spark).groupBy((f.col("value") % 2).alias("odd")).count()
        rows = counts.select(f.concat_ws("=", "odd", "count").alias("value"))
        writer = batch_writer(bootstrap=broker.address, app=unique("app"), topic=topic)
        run_to_end(rows.writeStream.outputMode("update").foreachBatch(writer), tmp_path / "checkpoint")
        found = committed_values(topic, broker.address)
        assert sorted(found) == ["0=10", "0=15", "0=5", "1=10", "1=15", "1=5"]

    def test_a_second_driver_of_the_same_name_fences_the_first(
        self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path
    ) -> None:
        topic, app = unique("out"), unique("app")

        def write(df: DataFrame, batch_id: int) -> None:
            write_batch(df, batch_id, bootstrap=broker.address, app=app, topic=topic)
            if batch_id == 0:  # what another process does, when it begins
                options = batch_options(
                    bootstrap=broker.address,
                    app=app,
                    topic=topic,
                    guarantee="exactly_once",
                    transactions="driver",
                    checkpoint=None,
                    client={},
                )
                AppSink(options).close()

        stream = keyed(files.stream(spark)).writeStream.foreachBatch(write)
        with pytest.raises(StreamingQueryException, match="Another driver has begun with the application name"):
            run_to_end(stream, tmp_path / "checkpoint")
        assert numbers(topic, broker.address) == list(range(10))
        run_to_end(stream, tmp_path / "checkpoint")  # started again, it takes the name back
        assert numbers(topic, broker.address) == list(range(30))

    def test_end_offsets_of_the_source_are_committed_with_the_rows(
        self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path
    ) -> None:
        """The offsets file of a query over files is replaced by one of a query over topics."""
        topic, app, source = unique("out"), unique("app"), unique("in")
        broker.create_topic(source, partitions=2)
        pretended = tmp_path / "pretended"
        (pretended / "offsets").mkdir(parents=True)

        def write(df: DataFrame, batch_id: int) -> None:
            ends = f'{{"{source}": {{"0": {batch_id + 3}, "1": {batch_id + 4}}}}}'
            (pretended / "offsets" / str(batch_id)).write_text(f"v1\n{{}}\n{ends}")
            write_batch(df, batch_id, bootstrap=broker.address, app=app, topic=topic, checkpoint=str(pretended))

        run_to_end(keyed(files.stream(spark)).writeStream.foreachBatch(write), tmp_path / "checkpoint")
        with headrace.Admin(broker.address) as admin:
            found = admin.list_group_offsets(app)
            assert {place.partition: each.offset for place, each in found.items()} == {0: 5, 1: 6}
            assert {each.metadata.rpartition(":")[2] for each in found.values()} == {"2"}


class TestRows:
    def test_columns_of_a_record(self, spark: SparkSession, broker: headrace.Broker) -> None:
        first, second = unique("first"), unique("second")
        for name in (first, second):
            broker.create_topic(name, partitions=4)
        df = spark.sql(f"""
            SELECT CASE WHEN id % 2 = 0 THEN '{first}' ELSE '{second}' END AS topic,
                   CASE WHEN id = 3 THEN NULL ELSE CAST(CONCAT('k', id) AS BINARY) END AS key,
                   CASE WHEN id = 5 THEN NULL ELSE CONCAT('v', id) END AS value,
                   CASE WHEN id < 2 THEN ARRAY(NAMED_STRUCT('key', 'h', 'value', CAST('x' AS BINARY))) END AS headers,
                   CASE WHEN id = 4 THEN 1 END AS partition,
                   CASE WHEN id = 6 THEN TIMESTAMP_MILLIS(1234567890123) END AS timestamp,
                   'not a part of a record' AS comment
            FROM RANGE(8)""")
        write_batch(df, 0, bootstrap=broker.address, guarantee="at_least_once")
        found = {row["value"]: row for name in (first, second) for row in read(name, broker.address).to_pylist()}
        assert len(found) == 8
        assert {row["topic"] for value, row in found.items() if value and int(value[1:]) % 2} == {second}
        assert (found[b"v3"]["key"], found[None]["key"]) == (None, b"k5")
        assert found[b"v1"]["headers"] == [{"key": "h", "value": b"x"}]
        assert found[b"v2"]["headers"] is None
        assert found[b"v4"]["partition"] == 1
        assert found[b"v7"]["partition"] == partition_of(b"k7", 4)
        assert found[b"v6"]["timestamp"].timestamp() == 1234567890.123

    def test_what_cannot_be_written_is_told(self, spark: SparkSession, broker: headrace.Broker) -> None:
        with pytest.raises(headrace.ConfigError, match="neither an option topic nor a column topic"):
            write_batch(spark.sql("SELECT 'x' AS value"), 0, bootstrap=broker.address, app="x")
        with pytest.raises(headrace.ConfigError, match="column value is int32"):
            write_batch(spark.sql("SELECT 1 AS value"), 0, bootstrap=broker.address, app="x", topic="t")
        with pytest.raises(headrace.WrongStateError, match="needs a streaming query"):
            write_batch(spark.sql("SELECT 'x' AS value"), 0, bootstrap=broker.address, app="x", topic="t")

    def test_rows_that_spark_cannot_compute_leave_nothing(
        self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path
    ) -> None:
        topic = unique("out")
        checked = files.stream(spark).selectExpr(
            "IF(value = '15', CAST(raise_error('bad row') AS STRING), value) value"
        )
        writer = batch_writer(bootstrap=broker.address, app=unique("app"), topic=topic)
        with pytest.raises(StreamingQueryException, match="bad row"):
            run_to_end(checked.writeStream.foreachBatch(writer), tmp_path / "checkpoint")
        assert numbers(topic, broker.address) == list(range(10))


class TestMistakes:
    def test_two_writes_in_one_batch(
        self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path
    ) -> None:
        app = unique("app")

        def write(df: DataFrame, batch_id: int) -> None:
            write_batch(df, batch_id, bootstrap=broker.address, app=app, topic=unique("out"))
            write_batch(df, batch_id, bootstrap=broker.address, app=app, topic=unique("dead"))

        with pytest.raises(StreamingQueryException, match="union the DataFrames"):
            run_to_end(keyed(files.stream(spark)).writeStream.foreachBatch(write), tmp_path / "checkpoint")

    def test_another_batch_id_than_the_query_s(
        self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path
    ) -> None:
        def write(df: DataFrame, batch_id: int) -> None:
            write_batch(df, 7, bootstrap=broker.address, app="x", topic="t")

        with pytest.raises(StreamingQueryException, match="pass on the one that foreachBatch gives"):
            run_to_end(keyed(files.stream(spark)).writeStream.foreachBatch(write), tmp_path / "checkpoint")

    def test_a_thread_of_one_s_own_needs_the_checkpoint(
        self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path
    ) -> None:
        topic, app, checkpoint = unique("out"), unique("app"), str(tmp_path / "checkpoint")
        complaints = []

        def write(df: DataFrame, batch_id: int) -> None:
            told = partial(write_batch, df, batch_id, bootstrap=broker.address, app=app, topic=topic)
            with ThreadPoolExecutor(1) as pool:
                complaints.append(str(pool.submit(told).exception()))
                pool.submit(told, checkpoint=checkpoint).result()

        run_to_end(keyed(files.stream(spark)).writeStream.foreachBatch(write), tmp_path / "checkpoint")
        assert ["also tell the checkpoint" in complaint for complaint in complaints] == [True] * 3
        assert numbers(topic, broker.address) == list(range(30))

    def test_a_checkpoint_on_any_file_system_can_be_read(self, spark: SparkSession, tmp_path: Path) -> None:
        (tmp_path / "metadata").write_text('{"id": "a"}')
        read = hadoop_reader(spark.range(1))
        assert query_id(f"file://{tmp_path}", read) == "a"
        assert read(f"file://{tmp_path}/nothing") is None

    def test_two_queries_of_one_name_in_one_driver(
        self, spark: SparkSession, broker: headrace.Broker, files: LineFiles, tmp_path: Path
    ) -> None:
        app = unique("app")
        writer = batch_writer(bootstrap=broker.address, app=app, topic=unique("out"))
        stream = keyed(files.stream(spark)).writeStream.foreachBatch(writer)
        first = stream.option("checkpointLocation", str(tmp_path / "first")).start()
        try:
            first.processAllAvailable()
            with pytest.raises(StreamingQueryException, match="Two queries of this driver write as application"):
                run_to_end(keyed(files.stream(spark)).writeStream.foreachBatch(writer), tmp_path / "second")
        finally:
            first.stop()
            forget(app)
