"""Topics as streams: every option of a streaming query and its bad days, with a real Spark."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import headrace
from headrace.spark.checkpoints import batch_ends
from tests.support.both_brokers import unique
from tests.support.broker_process import BrokerProcess
from tests.support.spark_source import QUERY_SECONDS, Rows, fill, offsets_in, stream
from tests.support.waiting import wait_until

SECONDS = 600.0  # so long the machine may be busy; a query that needs it hangs


@pytest.fixture
def name() -> str:
    return unique("stream").replace("-", "_")


@pytest.fixture
def topic(broker: headrace.Broker, name: str) -> str:
    """Two partitions: 0 to 59, and 100 to 129."""
    broker.create_topic(name, partitions=2)
    fill(broker.address, name, range(60))
    fill(broker.address, name, range(100, 130), partition=1)
    return name


ALL = [*range(60), *range(100, 130)]


@pytest.fixture
def rows() -> Rows:
    return Rows()


def ends(progress: list[dict[str, Any]]) -> list[dict[str, dict[str, int]]]:
    return [offsets_in(json.loads(each["sources"][0]["endOffset"])) for each in progress]


def committed(address: str, group: str) -> dict[str, int]:
    with headrace.Admin(address) as admin:
        return {str(each): found.offset for each, found in admin.list_group_offsets(group).items()}


def make_anew(address: str, topic: str, values: Sequence[int]) -> None:
    """Another topic under the same name, with these in its first partition."""
    with headrace.Admin(address) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=2)
    fill(address, topic, values)


class Running:
    """A query that goes on until the test ends."""

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query

    def __enter__(self) -> StreamingQuery:
        return self.query

    def __exit__(self, *_: object) -> None:
        self.query.stop()


class TestOptions:
    def test_max_offsets_and_the_group(
        self, spark: SparkSession, broker: headrace.Broker, topic: str, rows: Rows, tmp_path: Path
    ) -> None:
        frame = stream(
            spark,
            broker.address,
            subscribe=topic,
            startingOffsets="earliest",
            maxOffsetsPerTrigger=40,
            kafka__group__id=f"{topic}-lag",
            includeHeaders=True,
        )
        assert frame.columns[-1] == "headers"
        progress = rows.run(frame, tmp_path)
        assert rows.values == ALL
        assert [each["numInputRows"] for each in progress] == [39, 39, 12]
        assert ends(progress)[0] == {topic: {"0": 26, "1": 13}}
        assert json.loads(progress[0]["sources"][0]["latestOffset"]) == {topic: {"0": 60, "1": 30}}
        # All of it, although no other micro-batch has followed the last one.
        assert committed(broker.address, f"{topic}-lag") == {f"{topic}-0": 60, f"{topic}-1": 30}
        # The checkpoint is what the sink and others read.
        assert batch_ends(str(tmp_path), 2) == {(topic, 0): 60, (topic, 1): 30}
        # And the query goes on from there.
        fill(broker.address, topic, [60])
        again = rows.run(frame, tmp_path)
        assert [each["numInputRows"] for each in again] == [1]

    def test_without_limits_and_a_named_group(
        self, spark: SparkSession, broker: headrace.Broker, topic: str, rows: Rows, tmp_path: Path
    ) -> None:
        frame = stream(
            spark,
            broker.address,
            subscribePattern=f"{topic}.*",
            startingOffsets=f'{{"{topic}": {{"0": 50, "1": -2}}}}',
            minPartitions=4,
            groupIdPrefix=f"{topic}-prefix",
            fetchOffset__numRetries=3,
            fetchOffset__retryIntervalMs=10,
        )
        progress = rows.run(frame, tmp_path)
        assert rows.values == [*range(50, 60), *range(100, 130)]
        assert [each["numInputRows"] for each in progress] == [40]
        with headrace.Admin(broker.address) as admin:
            groups = [each for each in map(str, admin.list_groups()) if f"{topic}-prefix-" in each]
        assert len(groups) == 1

    def test_a_stream_begins_at_the_end_if_nothing_is_said(
        self, spark: SparkSession, broker: headrace.Broker, topic: str, rows: Rows, tmp_path: Path
    ) -> None:
        frame = stream(spark, broker.address, assign=f'{{"{topic}": [1]}}', commitOffsets=False)
        assert rows.run(frame, tmp_path) == []
        fill(broker.address, topic, [60])
        fill(broker.address, topic, [130], partition=1)
        rows.run(frame, tmp_path)
        assert rows.values == [130]

    def test_and_does_not_read_what_is_older_if_its_first_micro_batch_fails(
        self, spark: SparkSession, broker: headrace.Broker, topic: str, rows: Rows, tmp_path: Path
    ) -> None:
        """Spark asks once more where the query begins, and by then the end is another."""
        frame = stream(spark, broker.address, subscribe=topic)

        def fail(_: DataFrame, batch_id: int) -> None:
            fill(broker.address, topic, [60, 61])
            raise LookupError(batch_id)

        writer = frame.writeStream.foreachBatch(fail).option("checkpointLocation", str(tmp_path))
        with pytest.raises(StreamingQueryException, match="LookupError"):
            writer.trigger(availableNow=True).start().awaitTermination(QUERY_SECONDS)
        rows.run(frame, tmp_path)
        assert rows.values == [60, 61]

    def test_min_offsets_and_the_delay(
        self, spark: SparkSession, broker: headrace.Broker, topic: str, rows: Rows, tmp_path: Path
    ) -> None:
        frame = stream(
            spark,
            broker.address,
            subscribe=topic,
            startingOffsets="earliest",
            minOffsetsPerTrigger=5,
            maxTriggerDelay="1h",
        )
        with Running(rows.start(frame, tmp_path, processingTime="0 seconds")):
            wait_until(lambda: rows.values == ALL, "the first micro-batch", seconds=SECONDS)
            fill(broker.address, topic, [60, 61, 62, 63])
            fill(broker.address, topic, [130], partition=1)  # the fifth
            wait_until(lambda: len(rows.values) == 95, "the second", seconds=SECONDS)
        assert [len(each) for each in rows.batches] == [90, 5]

    def test_times(self, spark: SparkSession, broker: headrace.Broker, name: str, rows: Rows, tmp_path: Path) -> None:
        broker.create_topic(name, partitions=1, retention_ms=-1)  # its records are of 1970
        fill(broker.address, name, range(10), timestamps_ms=[1_000 * each for each in range(10)])
        options = {"subscribe": name, "maxRecordsPerPartition": 2}
        rows.run(stream(spark, broker.address, startingTimestamp=7_000, **options), tmp_path / "a")
        assert rows.values == [7, 8, 9]
        by_partition = f'{{"{name}": {{"0": 20000}}}}'
        late = {**options, "startingOffsetsByTimestamp": by_partition}
        with pytest.raises(StreamingQueryException, match=r"no record of .* is as young as 20000"):
            rows.run(stream(spark, broker.address, **late), tmp_path / "b")
        frame = stream(spark, broker.address, startingOffsetsByTimestampStrategy="latest", **late)
        assert rows.run(frame, tmp_path / "c") == []

    def test_read_committed(
        self, spark: SparkSession, broker: headrace.Broker, name: str, rows: Rows, tmp_path: Path
    ) -> None:
        broker.create_topic(name, partitions=1)
        frame = stream(
            spark,
            broker.address,
            subscribe=name,
            startingOffsets="earliest",
            kafka__isolation__level="read_committed",
            kafkaConsumer__pollTimeoutMs=30_000,
        )
        with headrace.Producer(broker.address, transactional_id=name) as producer:
            with producer.transaction():
                producer.send(name, value=b"1", partition=0)
            rows.run(frame, tmp_path)
            assert rows.values == [1]
            with suppress(LookupError), producer.transaction():
                producer.send(name, value=b"2", partition=0)
                producer.flush()
                rows.run(frame, tmp_path)  # while it is open
                raise LookupError
            with producer.transaction():
                producer.send(name, value=b"3", partition=0)
        assert [each["numInputRows"] for each in rows.run(frame, tmp_path)] == [1]
        assert rows.values == [1, 3]

    @pytest.mark.parametrize(
        ("option", "said"),
        [
            ({"endingOffsets": "latest"}, "leave out endingOffsets"),
            ({"maxOffsetPerTrigger": 5}, "maxOffsetsPerTrigger"),
        ],
    )
    def test_what_is_wrong_is_told(
        self,
        spark: SparkSession,
        broker: headrace.Broker,
        topic: str,
        rows: Rows,
        option: Any,
        said: str,
        tmp_path: Path,
    ) -> None:
        with pytest.raises(Exception, match=said):
            rows.run(stream(spark, broker.address, subscribe=topic, **option), tmp_path)


class TestBadDays:
    def test_a_partition_and_a_topic_are_added(
        self, spark: SparkSession, broker: headrace.Broker, topic: str, rows: Rows, tmp_path: Path
    ) -> None:
        frame = stream(spark, broker.address, subscribePattern=f"{topic}.*", startingOffsets="earliest")
        with (
            Running(rows.start(frame, tmp_path, processingTime="0 seconds")),
            headrace.Admin(broker.address) as admin,
        ):
            wait_until(lambda: rows.values == ALL, "what was there", seconds=SECONDS)
            admin.create_partitions({topic: 3})
            fill(broker.address, topic, [200], partition=2)
            admin.create_topic(f"{topic}_more", partitions=1)
            fill(broker.address, f"{topic}_more", [300])
            wait_until(lambda: rows.values == sorted([*ALL, 200, 300]), "what was added", seconds=SECONDS)

    def test_the_broker_is_restarted_under_a_query(
        self, spark: SparkSession, name: str, rows: Rows, tmp_path: Path
    ) -> None:
        with BrokerProcess(tmp_path) as own:
            with headrace.Admin(own.bootstrap) as admin:
                admin.create_topic(name, partitions=1)
            fill(own.bootstrap, name, range(5))
            frame = stream(spark, own.bootstrap, subscribe=name, startingOffsets="earliest")
            query = rows.start(frame, tmp_path / "checkpoint", processingTime="0 seconds")
            with Running(query):
                wait_until(lambda: rows.values == list(range(5)), "what was there", seconds=SECONDS)
                own.kill()
                own.start()
                fill(own.bootstrap, name, range(5, 9))
                wait_until(lambda: rows.values == list(range(9)), "what came afterwards", seconds=SECONDS)
                assert query.exception() is None

    def test_offsets_are_gone(
        self, spark: SparkSession, broker: headrace.Broker, topic: str, rows: Rows, tmp_path: Path
    ) -> None:
        options = {"subscribe": topic, "startingOffsets": "earliest"}
        rows.run(stream(spark, broker.address, **options), tmp_path)
        fill(broker.address, topic, range(60, 70))
        with headrace.Admin(broker.address) as admin:
            admin.delete_records({headrace.TopicPartition(topic, 0): 65})
        with pytest.raises(StreamingQueryException) as caught:
            rows.run(stream(spark, broker.address, **options), tmp_path)
        said = str(caught.value)
        assert f"Records of {topic}-0 are gone: the query is at offset 60, and the log begins at 65" in said
        assert "failOnDataLoss=false" in said
        rows.run(stream(spark, broker.address, failOnDataLoss=False, **options), tmp_path)
        assert rows.values == sorted([*ALL, *range(65, 70)])

    @pytest.mark.parametrize("fail", [True, False])
    def test_the_topic_is_made_anew_under_a_query(
        self, spark: SparkSession, broker: headrace.Broker, topic: str, rows: Rows, tmp_path: Path, fail: bool
    ) -> None:
        frame = stream(spark, broker.address, subscribe=topic, startingOffsets="earliest", failOnDataLoss=fail)
        query = rows.start(frame, tmp_path, processingTime="0 seconds")
        with Running(query):
            wait_until(lambda: rows.values == ALL, "the old topic", seconds=SECONDS)
            make_anew(broker.address, topic, range(1_000, 1_200))
            if fail:
                with pytest.raises(StreamingQueryException, match=r"Topic .* was deleted|Partitions are gone"):
                    query.awaitTermination(QUERY_SECONDS)
                assert rows.values == ALL
            else:
                both = [*ALL, *range(1_000, 1_200)]
                wait_until(lambda: rows.values == both, "all of the new one, once", seconds=SECONDS)

    def test_the_topic_is_made_anew_while_the_query_rests(
        self, spark: SparkSession, broker: headrace.Broker, topic: str, rows: Rows, tmp_path: Path
    ) -> None:
        """With more records than before in one partition, and as many in the other: offsets alone do not tell."""
        options = {"subscribe": topic, "startingOffsets": "earliest"}
        rows.run(stream(spark, broker.address, **options), tmp_path)
        make_anew(broker.address, topic, range(1_000, 1_200))
        fill(broker.address, topic, range(2_000, 2_030), partition=1)
        with pytest.raises(StreamingQueryException) as caught:
            rows.run(stream(spark, broker.address, **options), tmp_path)
        said = str(caught.value)
        assert f"Topic {topic} was deleted, and another was made under its name" in said
        assert f"{{'{topic}': {{'0': 60, '1': 30}}}}" in said
        assert "failOnDataLoss=false" in said
        assert rows.values == ALL
        rows.run(stream(spark, broker.address, failOnDataLoss=False, **options), tmp_path)
        assert rows.values == [*ALL, *range(1_000, 1_200), *range(2_000, 2_030)]
        # From now on it is the new topic that the query reads, and nothing is lost.
        fill(broker.address, topic, [3_000])
        rows.run(stream(spark, broker.address, **options), tmp_path)
        assert rows.batches[-1] == [3_000]

    def test_the_topic_is_made_anew_under_a_micro_batch_that_failed(
        self, spark: SparkSession, broker: headrace.Broker, topic: str, rows: Rows, tmp_path: Path
    ) -> None:
        """It is planned again, by offsets that were those of the old topic."""
        options = {"subscribe": topic, "startingOffsets": "earliest"}

        def fail(*_: object) -> None:
            raise LookupError

        frame = stream(spark, broker.address, **options)
        writer = frame.writeStream.foreachBatch(fail).option("checkpointLocation", str(tmp_path))
        with pytest.raises(StreamingQueryException, match="LookupError"):
            writer.trigger(availableNow=True).start().awaitTermination(QUERY_SECONDS)
        make_anew(broker.address, topic, range(1_000, 1_200))
        with pytest.raises(StreamingQueryException, match=f"Topic {topic} was deleted"):
            rows.run(frame, tmp_path)
        rows.run(stream(spark, broker.address, failOnDataLoss=False, **options), tmp_path)
        assert rows.values == list(range(1_000, 1_200))

    def test_the_topic_is_deleted(
        self, spark: SparkSession, broker: headrace.Broker, topic: str, rows: Rows, tmp_path: Path
    ) -> None:
        frame = stream(spark, broker.address, subscribe=topic, startingOffsets="earliest")
        query = rows.start(frame, tmp_path, processingTime="0 seconds")
        with Running(query), headrace.Admin(broker.address) as admin:
            wait_until(lambda: rows.values == ALL, "what was there", seconds=SECONDS)
            admin.delete_topic(topic)
            with pytest.raises(StreamingQueryException, match=rf"{topic}-0 \(read up to offset 60\)"):
                query.awaitTermination(QUERY_SECONDS)

    def test_a_task_is_killed_and_retried(
        self, spark: SparkSession, broker: headrace.Broker, topic: str, rows: Rows, tmp_path: Path
    ) -> None:
        """A worker dies when it has had the first rows of a task; the task is read again, from its beginning."""
        frame = stream(spark, broker.address, subscribe=topic, startingOffsets="earliest", minPartitions=4)
        mark = tmp_path / "died"

        def die_once(batches: Any) -> Any:
            import os
            import signal

            for batch in batches:
                yield batch
                if batch["offset"][0].as_py() == 0 and batch["partition"][0].as_py() == 0 and not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)

        rows.run(frame.mapInArrow(die_once, frame.schema), tmp_path / "checkpoint")
        assert mark.exists()
        assert rows.values == ALL
