"""kill -9 at random moments, under load, again and again: nothing acknowledged is missing, doubled, or out of order.

A real process on a real disk, several idempotent producers that send again what was not acknowledged. SIGKILL leaves
the page cache alone, so what was written is there after the restart, synced or not; what a power cut takes away is the
business of the file system in memory (tests/unit/log). Here it is about the moments: in the middle of a write, a roll,
a compaction, a deletion, a snapshot, a recovery.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

import pytest

from headrace.log.checkpoints import LOG_STARTS, RECOVERY_POINTS, TopicPartition, read_offsets
from headrace.log.fs import RealFileSystem
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch
from tests.support.broker_process import BrokerProcess
from tests.support.histories import History, check
from tests.support.kills import BUSY, KILLS, SEED, kill_while_starting, stay_a_moment
from tests.support.retrying_producer import BATCH_INTERVAL_MS, START_MS, RetryingProducer, read_back
from tests.support.waiting import DEADLINE_SECONDS, wait_until
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.slow

PARTITIONS: Final = 3
PRODUCERS: Final = 3
TOPIC: Final = "t"
TOPIC_RESOURCE: Final = 2
SET: Final = 0
ROLL_AFTER_BATCHES: Final = 20


def create_topic(client: WireClient, name: str, configs: dict[str, str]) -> None:
    rows = [CreatableTopicConfig(*item) for item in configs.items()]
    answer = client.ask("CreateTopics", 5, CreateTopicsRequest([CreatableTopic(name, PARTITIONS, 1, [], rows)]))
    assert answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), answer


def keep_what_is_left(client: WireClient) -> None:
    """No retention from now on: what is read must not go meanwhile."""
    row = AlterConfigsResource(TOPIC_RESOURCE, TOPIC, [AlterableConfig("retention.ms", SET, "-1")])
    answer = client.ask("IncrementalAlterConfigs", 1, IncrementalAlterConfigsRequest([row])).responses[0]
    assert answer.error_code == ErrorCode.NONE


@contextmanager
def producing(
    broker: BrokerProcess, history: History, *, acks: Sequence[int], keys: int | None = None
) -> Iterator[list[RetryingProducer]]:
    """Producers at work; at the end everything that they sent is acknowledged, and read back into the history."""
    producers = [
        RetryingProducer(
            f"p{number}",
            broker.address,
            TOPIC,
            history,
            partitions=PARTITIONS,
            acks=acks[number % len(acks)],
            keys=keys,
        )
        for number in range(PRODUCERS)
    ]
    for producer in producers:
        producer.start()
    try:
        yield producers
    finally:
        for producer in producers:
            producer.finish()
    for producer in producers:
        producer.join(120)
        assert producer.fault is None, producer.fault
        assert not producer.is_alive(), f"{producer.name} is not done"
    with WireClient(broker.address) as client:
        keep_what_is_left(client)
        for partition in range(PARTITIONS):
            history.log_start[partition], history.read[partition] = read_back(client, TOPIC, partition)


def kill_after_progress(broker: BrokerProcess, producers: Sequence[RetryingProducer], random: Random) -> None:
    """Let the producers get some acknowledgements, and then a moment more."""
    wanted = sum(producer.acknowledged for producer in producers) + random.randrange(200)
    wait_until(lambda: sum(each.acknowledged for each in producers) >= wanted or any(each.fault for each in producers))
    stay_a_moment(random.random() * 0.01)
    broker.kill()


def report(history: History) -> str:
    acknowledged = sum(map(len, history.acknowledged.values()))
    return f"{acknowledged} records acknowledged, {KILLS} kills, seed {SEED}: {check(history)[:5]}"


SEGMENT_MS: Final = str(ROLL_AFTER_BATCHES * PRODUCERS * BATCH_INTERVAL_MS)


@pytest.mark.parametrize(
    "configs",
    [{}, {"flush.messages": "1"}, {"segment.ms": SEGMENT_MS}, {"segment.ms": SEGMENT_MS, "flush.messages": "1"}],
    ids=["plain", "synced", "rolling", "rolling and synced"],
)
def test_what_was_acknowledged_survives_once_and_in_order(tmp_path: Path, configs: dict[str, str]) -> None:
    random = Random(f"{SEED} {configs}")
    history = History()
    with BrokerProcess(tmp_path, configs=BUSY) as broker:
        with WireClient(broker.address) as client:
            create_topic(client, TOPIC, {"retention.ms": "-1", **configs})
        with producing(broker, history, acks=[-1, 1]) as producers:
            for number in range(KILLS):
                kill_after_progress(broker, producers, random)
                if number % 3 == 2:
                    kill_while_starting(broker, random)
                broker.start()
        assert not check(history), report(history)
        assert all(producer.retries for producer in producers), "no connection ever broke: the test shows nothing"
        broker.check_log()
        assert broker.stop() == 0


def test_retries_of_all_batches_on_their_way_are_recognised_after_a_kill(tmp_path: Path) -> None:
    """They stand before the recovery point, where a snapshot of the producers has no more than the last of them."""
    batches = [
        bytes(
            build_batch(
                [NewRecord(START_MS, None, b"%d" % number)] * 3,
                producer_id=7,
                producer_epoch=0,
                base_sequence=3 * number,
            )
        )
        for number in range(5)
    ]
    later = bytes(build_batch([NewRecord(START_MS + 2 * BATCH_INTERVAL_MS, None, b"of nobody")]))
    with BrokerProcess(tmp_path, configs=BUSY) as broker:
        with WireClient(broker.address) as client:
            create_topic(client, TOPIC, {"retention.ms": "-1", "segment.ms": str(BATCH_INTERVAL_MS)})
            stored = [produce(client, batch) for batch in (*batches, later)]
        wait_until(lambda: recovery_point(broker) == 15, "the first segment is synced, and that is written down")
        broker.kill()
        broker.start()
        with WireClient(broker.address) as client:
            assert [produce(client, batch) for batch in batches] == stored[:5] == [0, 3, 6, 9, 12]
            assert produce(client, later) == 16
            assert len(read_back(client, TOPIC, 0)[1]) == 17
        broker.check_log()


def produce(client: WireClient, batch: bytes) -> int:
    """Where it stands now."""
    topic = TopicProduceData(TOPIC, bytes(16), [PartitionProduceData(0, batch)])
    (row,) = client.ask("Produce", 9, ProduceRequest(None, 1, 30_000, [topic])).responses[0].partition_responses
    assert row.error_code == ErrorCode.NONE, ErrorCode(row.error_code).name
    offset: int = row.base_offset
    return offset


def recovery_point(broker: BrokerProcess) -> int:
    points = read_offsets(RealFileSystem(), str(broker.data / RECOVERY_POINTS))
    return points.get(TopicPartition(TOPIC, 0), 0)


def test_compaction_may_be_interrupted_anywhere(tmp_path: Path) -> None:
    random = Random(f"{SEED} compaction")
    history = History(keys={})
    with BrokerProcess(tmp_path, configs=BUSY) as broker:
        configs = {"cleanup.policy": "compact", "segment.ms": SEGMENT_MS, "min.cleanable.dirty.ratio": "0.01"}
        with WireClient(broker.address) as client:
            create_topic(client, TOPIC, configs)
        with producing(broker, history, acks=[-1], keys=20) as producers:
            for number in range(KILLS):
                if number % 2:
                    wait_for_compaction(broker)
                    broker.kill()
                else:
                    kill_after_progress(broker, producers, random)
                if number % 3 == 2:
                    kill_while_starting(broker, random)
                broker.start()
        assert not check(history), report(history)
        sent = sum(map(len, history.attempted.values()))
        wait_until(lambda: count_records(broker) < sent / 2, "compaction, after all that")
        with WireClient(broker.address) as client:
            for partition in range(PARTITIONS):
                history.read[partition] = read_back(client, TOPIC, partition)[1]
        assert not check(history), report(history)
        broker.check_log()


def wait_for_compaction(broker: BrokerProcess) -> None:
    """Until one is under way: segments in their stages stand in the directory for some milliseconds."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not any(path.suffix in (".cleaned", ".swap") for path in broker.data.glob(f"{TOPIC}-*/*")):
        assert time.monotonic() < deadline, "nothing is ever compacted"


def count_records(broker: BrokerProcess) -> int:
    with WireClient(broker.address) as client:
        return sum(len(read_back(client, TOPIC, partition)[1]) for partition in range(PARTITIONS))


@pytest.mark.parametrize("retention_ms", ["-1", "1000"], ids=["on demand", "by age"])
def test_deletion_from_the_start_may_be_interrupted_anywhere(tmp_path: Path, retention_ms: str) -> None:
    """DeleteRecords moves the log start; retention removes segments, here all that are full: the records are old."""
    random = Random(f"{SEED} deletion {retention_ms}")
    history = History()
    with BrokerProcess(tmp_path, configs=BUSY) as broker:
        configs = {"segment.ms": SEGMENT_MS, "retention.ms": retention_ms, "file.delete.delay.ms": "0"}
        with WireClient(broker.address) as client:
            create_topic(client, TOPIC, configs)
        with producing(broker, history, acks=[-1, 1]) as producers:
            for number in range(KILLS):
                if retention_ms == "-1":
                    wait_until(lambda: min(ends(history)) > 1, "there is something to delete")
                    delete_records(broker, [end * 2 // 3 for end in ends(history)])
                if number % 2:
                    wait_until(lambda: begins_later(broker), "something is deleted, and stays so")
                    broker.kill()
                else:
                    kill_after_progress(broker, producers, random)
                broker.start()
        assert not check(history), report(history)
        assert all(history.log_start.values()), "nothing was deleted: the test shows nothing"
        broker.check_log()


def ends(history: History) -> list[int]:
    return [len(history.acknowledged[partition]) for partition in range(PARTITIONS)]


def begins_later(broker: BrokerProcess) -> bool:
    """Whether every partition's beginning is gone for good: its first segment, or by a start that is written down.

    A start that DeleteRecords moved is forgotten by a crash before the checkpoint, as in Kafka.
    """
    starts = read_offsets(RealFileSystem(), str(broker.data / LOG_STARTS))
    return all(
        starts.get(TopicPartition(TOPIC, partition), 0) > 0
        or not (broker.data / f"{TOPIC}-{partition}" / f"{0:020}.log").exists()
        for partition in range(PARTITIONS)
    )


def delete_records(broker: BrokerProcess, before: Sequence[int]) -> None:
    rows = [DeleteRecordsPartition(index, offset) for index, offset in enumerate(before)]
    with WireClient(broker.address) as client:
        answer = client.ask("DeleteRecords", 2, DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, rows)], 30_000))
    assert all(row.error_code == ErrorCode.NONE for row in answer.topics[0].partitions), answer
