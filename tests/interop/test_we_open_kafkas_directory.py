"""A whole data directory of a real Apache Kafka is opened as one, after a stop and after a kill, and closed."""

from pathlib import Path
from typing import Final

import pytest

from headrace.log.checkpoints import TopicPartition
from headrace.log.config import UNLIMITED, LogConfig
from headrace.log.directory import LogDirectory
from headrace.protocol.internal_records import decode_metadata_record
from headrace.protocol.records import read_records
from tests.support.kafka import CLUSTER_ID, copy_data
from tests.support.kafka_run import KafkaRun, Witnessed
from tests.support.log_reading import committed_records, read_batches, uncommitted_records
from tests.support.our_logs import FS

pytestmark = pytest.mark.kafka

NOW_MS: Final = 1_800_000_000_000
METADATA_LOG: Final = TopicPartition("__cluster_metadata", 0)


def config_of(partition: TopicPartition) -> LogConfig:
    policy = frozenset({"compact" if partition.topic.startswith(("compacted", "__")) else "delete"})
    return LogConfig(cleanup_policy=policy, producer_id_expiration_ms=UNLIMITED)


def open_directory(data: Path) -> LogDirectory:
    return LogDirectory.open(FS, str(data), config_of, now_ms=NOW_MS)


@pytest.fixture(params=["stopped", "killed"])
def left(request: pytest.FixtureRequest, kafka_run: KafkaRun, tmp_path: Path) -> tuple[Path, Witnessed]:
    """A copy of a data directory, and what Kafka had said before it left it."""
    if request.param == "stopped":
        return copy_data(kafka_run.clean, tmp_path / "data"), kafka_run.before_stop
    return copy_data(kafka_run.killed, tmp_path / "data"), kafka_run.before_kill


def test_every_partition_is_there_and_nothing_is_broken(left: tuple[Path, Witnessed]) -> None:
    data, said = left
    directory = open_directory(data)
    expected = {TopicPartition(*place) for place in said.partitions()}
    internal = {partition for partition in directory if partition.topic.startswith("__")}
    assert set(directory) - internal == expected - internal
    assert METADATA_LOG in internal
    assert directory.broken == {}
    assert directory.warnings == []
    assert directory.meta is not None
    assert (directory.meta.cluster_id, directory.meta.node_id) == (CLUSTER_ID, 1)
    for topic, partition in said.partitions():
        if topic == "trimmed" and not directory.was_clean:
            continue  # Kafka itself forgets, when it is killed, a log start that it had not yet written down
        log = directory.get(TopicPartition(topic, partition), now_ms=NOW_MS)
        assert log is not None
        log.raise_high_watermark(log.log_end_offset)
        assert uncommitted_records(log) == said.records(topic, partition, isolation="read_uncommitted")
        assert committed_records(log) == said.records(topic, partition, isolation="read_committed")


def test_topics_have_the_ids_that_the_metadata_log_gave_them(left: tuple[Path, Witnessed]) -> None:
    data, said = left
    directory = open_directory(data)
    metadata = directory.get(METADATA_LOG, now_ms=NOW_MS)
    assert metadata is not None
    messages = [
        decode_metadata_record(record.value).message
        for header, batch in read_batches(metadata)
        if not header.is_control
        for record in read_records(batch)
        if record.value is not None
    ]
    ids = {message.name: message.topic_id for message in messages if type(message).__name__ == "TopicRecord"}
    for topic, partition in said.partitions():
        assert directory.topic_id(TopicPartition(topic, partition)) == ids[topic]


def test_what_kafka_had_deleted_goes(left: tuple[Path, Witnessed]) -> None:
    data, _ = left
    assert len(list(data.glob("*-delete"))) == 4
    directory = open_directory(data)
    for chore in directory.take_chores(now_ms=NOW_MS):
        chore.run()
    assert list(data.glob("*-delete")) == []


def test_after_a_close_nothing_needs_recovery_and_high_watermarks_are_remembered(left: tuple[Path, Witnessed]) -> None:
    data, said = left
    directory = open_directory(data)
    for place in directory:
        log = directory.get(place, now_ms=NOW_MS)
        assert log is not None
        log.raise_high_watermark(log.log_end_offset)
    directory.close(broker_epoch=7)
    again = open_directory(data)
    assert (again.was_clean, again.broker_epoch) == (True, 7)
    for topic, partition in said.partitions():
        log = again.get(TopicPartition(topic, partition), now_ms=NOW_MS)
        assert log is not None
        assert log.recovery_report is None
        assert log.high_watermark == log.log_end_offset == said.offsets(topic, partition)["high_watermark"]
