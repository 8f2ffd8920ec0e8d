"""The source on Apache Kafka: the decisive parts of what the other tests show on a Headrace broker."""

from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

import headrace
from tests.support.both_brokers import eventually, unique
from tests.support.spark_source import Rows, batch, fill, numbers, stream

pytestmark = pytest.mark.kafka

T0 = 1_700_000_000_000


@pytest.fixture
def topic(kafka_bootstrap: str) -> str:
    """Two partitions: 0 to 59 a second apart, and 100 to 129."""
    name = unique("judged")
    create(kafka_bootstrap, name, partitions=2)
    fill(kafka_bootstrap, name, range(60), timestamps_ms=[T0 + 1_000 * each for each in range(60)])
    fill(kafka_bootstrap, name, range(100, 130), partition=1, timestamps_ms=[T0 + 59_000] * 30, compression_type="zstd")
    return name


def create(address: str, name: str, partitions: int) -> None:
    with headrace.Admin(address) as admin:
        admin.create_topic(name, partitions=partitions)
        eventually(lambda: len(admin.describe_topic(name).partitions) == partitions)


def test_batches(spark: SparkSession, kafka_bootstrap: str, topic: str) -> None:
    assert numbers(batch(spark, kafka_bootstrap, subscribe=topic, minPartitions=5)) == [*range(60), *range(100, 130)]
    frame = batch(spark, kafka_bootstrap, subscribe=topic, startingTimestamp=T0 + 57_000, endingTimestamp=T0 + 59_000)
    assert numbers(frame) == [57, 58]
    with headrace.Admin(kafka_bootstrap) as admin:
        admin.delete_records({headrace.TopicPartition(topic, 0): 50})
    gone = {"subscribe": topic, "startingOffsets": f'{{"{topic}": {{"0": 0, "1": 28}}}}'}
    with pytest.raises(AnalysisException, match="the query is at offset 0, and the log begins at 50"):
        batch(spark, kafka_bootstrap, **gone).collect()
    assert numbers(batch(spark, kafka_bootstrap, failOnDataLoss=False, **gone)) == [*range(50, 60), 128, 129]


def test_what_goes_while_a_task_reads(spark: SparkSession, kafka_bootstrap: str, topic: str) -> None:
    planned = [
        batch(spark, kafka_bootstrap, subscribe=topic, failOnDataLoss=fail).select("value").rdd
        for fail in (True, False)
    ]
    assert [each.getNumPartitions() for each in planned] == [2, 2]
    with headrace.Admin(kafka_bootstrap) as admin:
        admin.delete_records({headrace.TopicPartition(topic, 0): 50})
    with pytest.raises(Exception, match=r"the query is at offset 0.*begins at 50"):
        planned[0].collect()
    assert sorted(int(bytes(row.value)) for row in planned[1].collect()) == [*range(50, 60), *range(100, 130)]


def test_streams(spark: SparkSession, kafka_bootstrap: str, topic: str, tmp_path: Path) -> None:
    rows = Rows()
    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka__group__id": f"{topic}-lag"}
    frame = stream(spark, kafka_bootstrap, maxOffsetsPerTrigger=40, **options)
    progress = rows.run(frame, tmp_path)
    assert [each["numInputRows"] for each in progress] == [39, 39, 12]
    assert rows.values == [*range(60), *range(100, 130)]
    with headrace.Admin(kafka_bootstrap) as admin:
        found = {str(each): at.offset for each, at in admin.list_group_offsets(f"{topic}-lag").items()}
        assert found == {f"{topic}-0": 60, f"{topic}-1": 30}


def test_a_topic_made_anew_while_the_query_rests(
    spark: SparkSession, kafka_bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """With more records than before in one partition, and as many in the other: offsets alone do not tell."""
    rows = Rows()
    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka__group__id": f"{topic}-lag"}
    rows.run(stream(spark, kafka_bootstrap, **options), tmp_path)
    with headrace.Admin(kafka_bootstrap) as admin:
        admin.delete_topic(topic)
        eventually(lambda: topic not in [each.name for each in admin.list_topics()])
    create(kafka_bootstrap, topic, partitions=2)
    fill(kafka_bootstrap, topic, range(1_000, 1_200))
    fill(kafka_bootstrap, topic, range(2_000, 2_030), partition=1)
    with pytest.raises(StreamingQueryException, match=f"Topic {topic} was deleted, and another was made"):
        rows.run(stream(spark, kafka_bootstrap, **options), tmp_path)
    rows.run(stream(spark, kafka_bootstrap, failOnDataLoss=False, **options), tmp_path)
    assert rows.values == [*range(60), *range(100, 130), *range(1_000, 1_200), *range(2_000, 2_030)]


def test_read_committed(spark: SparkSession, kafka_bootstrap: str) -> None:
    name = unique("judged")
    create(kafka_bootstrap, name, partitions=1)
    with headrace.Producer(kafka_bootstrap, transactional_id=name) as producer:
        for first, is_kept in ((0, True), (10, False), (20, True)):
            with suppress(LookupError), producer.transaction():
                for value in range(first, first + 10):
                    producer.send(name, value=str(value).encode(), partition=0)
                producer.flush()
                if not is_kept:
                    raise LookupError
    frame = batch(spark, kafka_bootstrap, subscribe=name, kafka__isolation__level="read_committed", minPartitions=4)
    assert numbers(frame) == [*range(10), *range(20, 30)]
