"""Topics as data frames: every option of a batch query, with a real Spark."""

from datetime import UTC, datetime

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import headrace
from tests.support.both_brokers import eventually, unique
from tests.support.spark_source import batch, fill, numbers

T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def topic(broker: headrace.Broker) -> str:
    """Two partitions: 0 to 99 a second apart in the one, 100 to 149 in the other."""
    name = unique("batch")
    broker.create_topic(name, partitions=2, retention_ms=-1)  # its records are old
    fill(broker.address, name, range(100), timestamps_ms=[T0 + each * 1_000 for each in range(100)])
    fill(broker.address, name, range(100, 150), partition=1, timestamps_ms=[T0 + each * 1_000 for each in range(50)])
    return name


def test_all_columns_are_those_of_sparks_source(spark: SparkSession, broker: headrace.Broker, topic: str) -> None:
    frame = batch(spark, broker.address, subscribe=topic)
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    row = frame.where("partition = 1 and offset = 7").first()
    assert row is not None
    assert (bytes(row.key), bytes(row.value)) == (b"107", b"107")
    assert (row.topic, row.partition, row.offset, row.timestampType) == (topic, 1, 7, 0)
    assert row.timestamp.astimezone(UTC) == datetime.fromtimestamp((T0 + 7_000) / 1000, UTC)
    assert numbers(frame) == list(range(150))


def test_include_headers(spark: SparkSession, broker: headrace.Broker) -> None:
    name = unique("headers")
    broker.create_topic(name, partitions=1)
    with headrace.Producer(broker.address) as producer:
        producer.send(name, value=b"with", headers=[("a", b"1"), ("b", None)])
        producer.send(name, value=b"without")
    frame = batch(spark, broker.address, subscribe=name, includeHeaders=True)
    assert frame.dtypes[-1] == ("headers", "array<struct<key:string,value:binary>>")
    found = {bytes(row.value): row.headers for row in frame.collect()}
    assert [(each.key, each.value and bytes(each.value)) for each in found[b"with"]] == [("a", b"1"), ("b", None)]
    assert found[b"without"] is None


class TestWhatIsRead:
    def test_several_topics(self, spark: SparkSession, broker: headrace.Broker, topic: str) -> None:
        other = unique("other")
        broker.create_topic(other, partitions=1)
        fill(broker.address, other, [1_000])
        assert numbers(batch(spark, broker.address, subscribe=f"{topic},{other}")) == [*range(150), 1_000]

    def test_topics_by_pattern(self, spark: SparkSession, broker: headrace.Broker) -> None:
        word = unique("pattern")
        for name, value in ((f"{word}.a", 1), (f"{word}.b", 2), (f"{word}.b.c", 3)):
            broker.create_topic(name, partitions=1)
            fill(broker.address, name, [value])
        assert numbers(batch(spark, broker.address, subscribePattern=rf"{word}\.[a-z]")) == [1, 2]

    def test_single_partitions(self, spark: SparkSession, broker: headrace.Broker, topic: str) -> None:
        assert numbers(batch(spark, broker.address, assign=f'{{"{topic}": [1]}}')) == list(range(100, 150))

    def test_an_empty_topic(self, spark: SparkSession, broker: headrace.Broker) -> None:
        name = unique("empty")
        broker.create_topic(name, partitions=2)
        assert numbers(batch(spark, broker.address, subscribe=name)) == []

    def test_a_topic_that_is_not_there(self, spark: SparkSession, broker: headrace.Broker) -> None:
        with pytest.raises(AnalysisException, match="There is no nowhere"):
            batch(spark, broker.address, subscribe="nowhere").collect()

    def test_a_partition_that_is_not_there(self, spark: SparkSession, broker: headrace.Broker, topic: str) -> None:
        with pytest.raises(AnalysisException, match=f"There is no {topic}-7"):
            batch(spark, broker.address, assign=f'{{"{topic}": [0, 7]}}').collect()


class TestFromWhereToWhere:
    def test_offsets_of_each_partition(self, spark: SparkSession, broker: headrace.Broker, topic: str) -> None:
        frame = batch(
            spark,
            broker.address,
            subscribe=topic,
            startingOffsets=f'{{"{topic}": {{"0": 90, "1": -2}}}}',
            endingOffsets=f'{{"{topic}": {{"0": -1, "1": 3}}}}',
        )
        assert numbers(frame) == [*range(90, 100), 100, 101, 102]

    def test_one_time_for_all(self, spark: SparkSession, broker: headrace.Broker, topic: str) -> None:
        frame = batch(
            spark,
            broker.address,
            subscribe=topic,
            startingTimestamp=T0 + 40_000,
            endingTimestamp=T0 + 42_000,
            startingOffsets="earliest",  # a time counts more
        )
        assert numbers(frame) == [40, 41, 140, 141]

    def test_times_of_each_partition(self, spark: SparkSession, broker: headrace.Broker, topic: str) -> None:
        frame = batch(
            spark,
            broker.address,
            subscribe=topic,
            startingOffsetsByTimestamp=f'{{"{topic}": {{"0": {T0 + 97_500}, "1": {T0 + 48_000}}}}}',
            endingOffsetsByTimestamp=f'{{"{topic}": {{"0": {T0 + 99_000}, "1": {T0 + 99_000}}}}}',
        )
        assert numbers(frame) == [98, 148, 149]

    def test_no_record_is_that_young(self, spark: SparkSession, broker: headrace.Broker, topic: str) -> None:
        late = T0 + 60_000  # partition 1 ends before
        with pytest.raises(AnalysisException, match=f"no record of {topic}-1 is as young as {late}"):
            batch(spark, broker.address, subscribe=topic, startingTimestamp=late).collect()
        frame = batch(
            spark,
            broker.address,
            subscribe=topic,
            startingTimestamp=late,
            startingOffsetsByTimestampStrategy="latest",
        )
        assert numbers(frame) == list(range(60, 100))

    def test_a_partition_may_not_be_left_out(self, spark: SparkSession, broker: headrace.Broker, topic: str) -> None:
        with pytest.raises(AnalysisException, match=f"{topic}-1 is left out"):
            batch(spark, broker.address, subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 0}}}}').collect()

    def test_the_end_lies_after_the_start(self, spark: SparkSession, broker: headrace.Broker, topic: str) -> None:
        backwards = {
            "subscribe": topic,
            "startingOffsets": f'{{"{topic}": {{"0": 5, "1": 0}}}}',
            "endingOffsets": f'{{"{topic}": {{"0": 2, "1": 1}}}}',
        }
        with pytest.raises(AnalysisException, match="ends at offset 2, before it begins, at 5"):
            batch(spark, broker.address, **backwards).collect()
        assert numbers(batch(spark, broker.address, failOnDataLoss=False, **backwards)) == [100]


class TestTasks:
    def test_one_for_each_partition(self, spark: SparkSession, broker: headrace.Broker, topic: str) -> None:
        assert batch(spark, broker.address, subscribe=topic).rdd.getNumPartitions() == 2

    def test_min_partitions(self, spark: SparkSession, broker: headrace.Broker, topic: str) -> None:
        frame = batch(spark, broker.address, subscribe=topic, minPartitions=6)
        assert frame.rdd.getNumPartitions() == 6
        assert numbers(frame) == list(range(150))

    def test_max_records_per_partition(self, spark: SparkSession, broker: headrace.Broker, topic: str) -> None:
        frame = batch(spark, broker.address, subscribe=topic, maxRecordsPerPartition=30)
        assert frame.rdd.getNumPartitions() == 4 + 2
        assert numbers(frame) == list(range(150))


class TestOptionsOfTheClient:
    def test_small_fetches(self, spark: SparkSession, broker: headrace.Broker, topic: str) -> None:
        frame = batch(
            spark,
            broker.address,
            subscribe=topic,
            kafka__max__partition__fetch__bytes=200,
            kafka__fetch__max__wait__ms=10,
            kafka__check__crcs=True,
            kafka__client__id="spark",
        )
        assert numbers(frame) == list(range(150))

    def test_those_without_a_meaning_are_accepted(
        self, spark: SparkSession, broker: headrace.Broker, topic: str
    ) -> None:
        frame = batch(
            spark,
            broker.address,
            subscribe=topic,
            fetchOffset__numRetries=5,
            fetchOffset__retryIntervalMs=10,
            maxOffsetsPerTrigger=10,
            minOffsetsPerTrigger=10,
            maxTriggerDelay="5s",
            kafka__max__poll__records=10,
            kafka__session__timeout__ms=45_000,
        )
        assert frame.count() == 150

    @pytest.mark.parametrize(
        ("option", "said"),
        [
            ({"startingOffset": "latest"}, "Did you mean startingOffsets"),
            ({"kafka__auto__offset__reset": "latest"}, "startingOffsets instead"),
            ({"kafka__key__deserializer": "x"}, "keys are binary"),
            ({"kafka__value__deserializer": "x"}, "values are binary"),
            ({"kafka__enable__auto__commit": "true"}, "the option commitOffsets turns that off"),
            ({"kafka__interceptor__classes": "x"}, "use DataFrame operations"),
            ({"startingOffsets": "latest"}, "startingOffsets is latest"),
            ({"minPartitions": "0"}, "whole number above 0"),
        ],
    )
    def test_what_is_wrong_is_told(
        self, spark: SparkSession, broker: headrace.Broker, topic: str, option: dict[str, str], said: str
    ) -> None:
        with pytest.raises(AnalysisException, match=said):
            batch(spark, broker.address, subscribe=topic, **option).collect()

    def test_poll_timeout(self, spark: SparkSession) -> None:
        """A broker that is gone between planning and reading: the task says so, after that time."""
        with headrace.Broker() as other:
            other.create_topic("soon-gone", partitions=1)
            fill(other.address, "soon-gone", [1])
            frame = batch(spark, other.address, subscribe="soon-gone", kafkaConsumer__pollTimeoutMs=100)
            frame.rdd.getNumPartitions()  # planned now
            planned = frame.rdd
        with pytest.raises(Exception, match=r"soon-gone-0|NETWORK_EXCEPTION|REQUEST_TIMED_OUT"):
            planned.count()


class TestWhatIsNotThere:
    def test_offsets_that_are_gone(self, spark: SparkSession, broker: headrace.Broker) -> None:
        name = unique("gone")
        broker.create_topic(name, partitions=1)
        fill(broker.address, name, range(20))
        with headrace.Admin(broker.address) as admin:
            admin.delete_records({headrace.TopicPartition(name, 0): 5})
        first = f'{{"{name}": {{"0": 2}}}}'
        with pytest.raises(AnalysisException, match=f"{name}-0 are gone: the query is at offset 2.*begins at 5"):
            batch(spark, broker.address, subscribe=name, startingOffsets=first).collect()
        frame = batch(spark, broker.address, subscribe=name, startingOffsets=first, failOnDataLoss=False)
        assert numbers(frame) == list(range(5, 20))

    def test_offsets_that_go_while_a_query_runs(self, spark: SparkSession, broker: headrace.Broker) -> None:
        """Planned first, deleted then, read at last: the worker finds out."""
        name = unique("going")
        broker.create_topic(name, partitions=1)
        fill(broker.address, name, range(20))
        failing = batch(spark, broker.address, subscribe=name)
        going_on = batch(spark, broker.address, subscribe=name, failOnDataLoss=False)
        planned = [frame.select("value").rdd for frame in (failing, going_on)]
        assert [each.getNumPartitions() for each in planned] == [1, 1]
        with headrace.Admin(broker.address) as admin:
            admin.delete_records({headrace.TopicPartition(name, 0): 5})
        with pytest.raises(Exception, match=r"the query is at offset 0.*begins at 5.*failOnDataLoss=false"):
            planned[0].collect()
        assert sorted(int(bytes(row.value)) for row in planned[1].collect()) == list(range(5, 20))

    def test_a_topic_that_is_made_anew_while_a_query_runs(self, spark: SparkSession, broker: headrace.Broker) -> None:
        name = unique("anew")
        broker.create_topic(name, partitions=1)
        fill(broker.address, name, range(20))
        planned = [
            batch(spark, broker.address, subscribe=name, failOnDataLoss=fail).select("value").rdd
            for fail in (True, False)
        ]
        assert [each.getNumPartitions() for each in planned] == [1, 1]
        with headrace.Admin(broker.address) as admin:
            admin.delete_topic(name)
            admin.create_topic(name, partitions=1)
        fill(broker.address, name, range(500, 540))
        with pytest.raises(Exception, match="another was made under its name"):
            planned[0].collect()
        assert planned[1].collect() == []


class TestTransactions:
    def test_aborted_records_never_show(self, spark: SparkSession, broker: headrace.Broker) -> None:
        name = unique("committed")
        broker.create_topic(name, partitions=1)
        with headrace.Producer(broker.address, transactional_id=name) as producer:
            for first, is_kept in ((0, True), (10, False), (20, True)):
                try:
                    with producer.transaction():
                        for value in range(first, first + 10):
                            producer.send(name, value=str(value).encode(), partition=0)
                        if not is_kept:
                            producer.flush()
                            raise LookupError
                except LookupError:
                    pass
        committed = [*range(10), *range(20, 30)]
        options = {"subscribe": name, "kafka__isolation__level": "read_committed"}
        assert numbers(batch(spark, broker.address, **options)) == committed
        assert numbers(batch(spark, broker.address, minPartitions=7, **options)) == committed
        assert numbers(batch(spark, broker.address, subscribe=name)) == list(range(30))

    def test_an_open_transaction_is_not_waited_for(self, spark: SparkSession, broker: headrace.Broker) -> None:
        name = unique("open")
        broker.create_topic(name, partitions=1)
        fill(broker.address, name, range(5))
        with headrace.Producer(broker.address, transactional_id=name) as producer, producer.transaction():
            producer.send(name, value=b"5", partition=0)
            producer.flush()
            frame = batch(spark, broker.address, subscribe=name, kafka__isolation__level="read_committed")
            assert numbers(frame) == list(range(5))


@pytest.mark.slow
def test_gaps_of_a_compacted_topic(spark: SparkSession) -> None:
    with headrace.Broker(log_cleaner_backoff_ms=50) as own:
        own.create_topic("table", cleanup_policy="compact", min_cleanable_dirty_ratio=0, segment_ms=50)
        with headrace.Producer(own.address) as producer:
            for number in range(300):
                producer.send("table", key=str(number % 3).encode(), value=str(number).encode())
        eventually(lambda: _is_compacted(own.address))
        frame = batch(spark, own.address, subscribe="table", minPartitions=5).orderBy("offset")
        rows = frame.collect()
        assert {bytes(row.key): int(bytes(row.value)) for row in rows} == {b"0": 297, b"1": 298, b"2": 299, b"end": 0}
        assert len(rows) < rows[-1].offset


def _is_compacted(address: str) -> bool:
    """A segment ends when something is written after segment.ms."""
    with headrace.Producer(address) as producer:
        producer.send("table", key=b"end", value=b"0")
    table = headrace.arrow.read("table", address)
    return int(table.num_rows) < 150
