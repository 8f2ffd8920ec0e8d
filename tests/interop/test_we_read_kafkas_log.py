"""Data directories of a real Apache Kafka are opened, read and continued: after a stop, and after a kill."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from headrace.log.checkpoints import LOG_STARTS, RECOVERY_POINTS, TopicPartition, read_offsets
from headrace.log.config import UNLIMITED, LogConfig
from headrace.log.log import Log
from headrace.log.producers import ProducerState
from headrace.protocol.records import NewRecord, read_records
from tests.support.kafka import copy_data
from tests.support.kafka_run import KafkaRun, ProducerLine, Witnessed
from tests.support.log_reading import committed_records, read_batches, uncommitted_records
from tests.support.our_logs import FS, Writer

pytestmark = pytest.mark.kafka

TOPICS: Final = ["plain", "append-time", "sized", "recompressed", "gzip", "snappy", "lz4", "zstd", "ledger", "open"]
# The records' times are years ago, and producers are forgotten by those.
CONFIG: Final = LogConfig(producer_id_expiration_ms=UNLIMITED)
COMPACTED: Final = LogConfig(producer_id_expiration_ms=UNLIMITED, cleanup_policy=frozenset({"compact"}))
NOW_MS: Final = 1_800_000_000_000


@dataclass(frozen=True)
class Left:
    """A copy of a data directory, and what Kafka had said before it left it."""

    data: Path
    clean: bool
    said: Witnessed

    @contextmanager
    def open(self, topic: str, partition: int = 0) -> Iterator[Log]:
        place = TopicPartition(topic, partition)
        log = Log.open(
            FS,
            str(self.data / str(place)),
            COMPACTED if topic.startswith(("compacted", "__")) else CONFIG,
            recovery_point=read_offsets(FS, str(self.data / RECOVERY_POINTS)).get(place, 0),
            log_start_offset=read_offsets(FS, str(self.data / LOG_STARTS)).get(place, 0),
            clean=self.clean,
            now_ms=NOW_MS,
        )
        log.raise_high_watermark(log.log_end_offset)
        yield log
        log.close()


@pytest.fixture(params=["stopped", "killed"])
def left(request: pytest.FixtureRequest, kafka_run: KafkaRun, tmp_path: Path) -> Left:
    if request.param == "stopped":
        return Left(copy_data(kafka_run.clean, tmp_path / "data"), clean=True, said=kafka_run.before_stop)
    return Left(copy_data(kafka_run.killed, tmp_path / "data"), clean=False, said=kafka_run.before_kill)


def user_partitions(left: Left) -> list[tuple[str, int]]:
    return [(topic, partition) for topic, partition in left.said.partitions() if not topic.startswith("__")]


def test_consumers_of_both_isolation_levels_get_what_kafka_gives_them(left: Left) -> None:
    for topic, partition in user_partitions(left):
        if topic == "trimmed" and not left.clean:
            continue  # Kafka itself forgets, when it is killed, a log start that it had not yet written down
        with left.open(topic, partition) as log:
            expected = left.said.records(topic, partition, isolation="read_uncommitted")
            assert uncommitted_records(log) == expected, topic
            expected = left.said.records(topic, partition, isolation="read_committed")
            assert committed_records(log) == expected, topic


def test_offsets_and_the_largest_timestamp_are_what_kafka_says(left: Left) -> None:
    for topic, partition in user_partitions(left):
        if topic == "trimmed" and not left.clean:
            continue
        said = left.said.offsets(topic, partition)
        with left.open(topic, partition) as log:
            assert log.log_start_offset == said["log_start_offset"], topic
            assert log.log_end_offset == said["high_watermark"], topic
            assert log.last_stable_offset == said["last_stable_offset"], topic
            newest = log.max_timestamp()
            assert newest is not None
            assert (newest.timestamp, newest.offset) == (said["max_timestamp"], said["max_timestamp_offset"]), topic


def test_every_record_has_the_leader_epoch_that_consumers_see(left: Left) -> None:
    for topic, partition in user_partitions(left):
        if topic == "trimmed" and not left.clean:
            continue
        with left.open(topic, partition) as log:
            for offset, epoch in left.said.leader_epochs(topic, partition).items():
                assert log.epochs.epoch_at(offset) == epoch, (topic, offset)


def test_producers_are_known_as_kafka_describes_them(left: Left) -> None:
    described = 0
    for topic, partition in user_partitions(left):
        with left.open(topic, partition) as log:
            known = {state.producer_id: as_described(state) for state in log.producers}
            assert known == left.said.producers(topic, partition), topic
            described += len(known)
    assert described >= 15


def as_described(state: ProducerState) -> ProducerLine:
    entry = state.to_snapshot()[-1]
    return ProducerLine(
        entry.producer_id,
        entry.producer_epoch,
        entry.last_sequence,
        entry.timestamp,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )


def test_internal_topics_are_read_to_their_end(left: Left) -> None:
    names = [path.name for path in left.data.glob("__*-*")]
    assert len(names) > 5
    for name in names:
        topic, _, number = name.rpartition("-")
        with left.open(topic, int(number)) as log:
            offsets = [record.offset for _, batch in read_batches(log) for record in read_records(batch)]
            assert offsets == sorted(set(offsets))
            assert not offsets or offsets[-1] == log.log_end_offset - 1


def test_a_time_is_found_where_kafka_finds_it(left: Left) -> None:
    for topic, partition in user_partitions(left):
        if topic == "trimmed" and not left.clean:
            continue
        with left.open(topic, partition) as log:
            for asked, expected in left.said.times(topic, partition).items():
                found = log.find_timestamp(asked)
                answer = (-1, -1) if found is None else (found.offset, found.timestamp)
                assert answer == expected, (topic, asked)


@pytest.mark.parametrize("topic", [*TOPICS, "compacted"])
def test_the_log_goes_on_where_kafka_stopped(left: Left, topic: str) -> None:
    with left.open(topic) as log:
        before = uncommitted_records(log)
        writer = Writer(log, leader_epoch=9, clock_ms=NOW_MS)
        for number in range(30):
            writer.append(NewRecord(NOW_MS, b"ours %d" % number, b"after Kafka"), producer_id=777_777)
        expected = before + writer.acknowledged
        assert uncommitted_records(log) == expected
    reopened = Left(left.data, clean=True, said=left.said)
    with reopened.open(topic) as log:
        assert uncommitted_records(log) == expected
        assert log.epochs.latest_epoch == 9
        state = log.producers.get(777_777)
        assert state is not None
        assert state.next_sequence == 30
