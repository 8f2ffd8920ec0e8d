"""A real process on a real disk that is full: what tests/faults/test_disk_full.py shows, as the kernel does it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch
from tests.support.broker_process import BrokerProcess
from tests.support.retrying_producer import read_back
from tests.support.small_disk import (
    fill_up,
    lift_file_size_limit,
    limit_file_size,
    make_room,
    on_tmpfs,
    why_no_tmpfs,
)
from tests.support.waiting import wait_until
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.slow

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
TOPICS = {"plain": "", "synced": "1"}


class Story:
    """What two topics were promised, and what they hold."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.client = WireClient(broker.address)
        self.kept: dict[str, list[bytes]] = {name: [] for name in TOPICS}
        for name, flush_messages in TOPICS.items():
            assert self.create(name, flush_messages) is ErrorCode.NONE

    def create(self, name: str, flush_messages: str = "") -> ErrorCode:
        configs = [CreatableTopicConfig("flush.messages", flush_messages)] if flush_messages else []
        request = CreateTopicsRequest([CreatableTopic(name, 1, 1, [], configs)])
        return ErrorCode(self.client.ask("CreateTopics", 5, request).topics[0].error_code)

    def produce(self, topic: str, size_bytes: int) -> ErrorCode:
        value = b"%d " % len(self.kept[topic]) + bytes(size_bytes)
        batch = bytes(build_batch([NewRecord(1_700_000_000_000, None, value)]))
        rows = [TopicProduceData(topic, bytes(16), [PartitionProduceData(0, batch)])]
        answer = self.client.ask("Produce", 9, ProduceRequest(None, -1, 30_000, rows))
        (row,) = answer.responses[0].partition_responses
        if row.error_code == ErrorCode.NONE:
            assert row.base_offset == len(self.kept[topic])
            self.kept[topic].append(value)
        return ErrorCode(row.error_code)

    def produce_until_refused(self, topic: str, size_bytes: int) -> None:
        while (code := self.produce(topic, size_bytes)) is ErrorCode.NONE:
            pass
        assert code is STORAGE_ERROR

    def create_until_refused(self) -> list[str]:
        """The last page of the metadata has room for some more. Their names."""
        created: list[str] = []
        while (code := self.create(f"more-{len(created)}")) is ErrorCode.NONE:
            created.append(f"more-{len(created)}")
        assert code is STORAGE_ERROR
        self.kept |= {name: [] for name in created}
        return created

    def check(self) -> None:
        """All that was acknowledged can be read, and nothing else."""
        for name, values in self.kept.items():
            if values:
                assert [entry.value for entry in read_back(self.client, name, 0)[1]] == values

    def reconnect(self) -> None:
        self.client.close()
        self.client = WireClient(self.broker.address)


@contextmanager
def told(broker: BrokerProcess) -> Iterator[Story]:
    story = Story(broker)
    try:
        yield story
    finally:
        story.client.close()


def check_said(broker: BrokerProcess, reason: str) -> None:
    said = [line for line in broker.log_text().splitlines() if "writes are refused" in line]
    assert len(said) == 1, said
    assert reason in said[0]
    assert "writes succeed again" in broker.log_text()
    broker.check_log()


def test_files_that_may_not_grow_refuse_writes_until_they_may(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, told(broker) as story:
        limit_file_size(broker, 300_000)
        for topic in TOPICS:
            story.produce_until_refused(topic, 20_000)
            assert story.produce(topic, 20_000) is STORAGE_ERROR
        story.check()
        lift_file_size_limit(broker)
        for topic in TOPICS:
            assert story.produce(topic, 20_000) is ErrorCode.NONE
        story.check()
        check_said(broker, "File too large")
        assert broker.stop() == 0
        broker.start()
        story.reconnect()
        story.check()


@pytest.fixture
def on_small_disk(tmp_path: Path) -> Iterator[BrokerProcess]:
    if reason := why_no_tmpfs():
        pytest.skip(f"no tmpfs of one's own on this machine: {reason}")
    with BrokerProcess(tmp_path, before=on_tmpfs(tmp_path / "data", 8 << 20)) as broker:
        yield broker


def test_a_full_disk_refuses_writes_and_changes_until_there_is_room(on_small_disk: BrokerProcess) -> None:
    broker = on_small_disk
    with told(broker) as story:
        for topic in TOPICS:
            assert story.produce(topic, 100_000) is ErrorCode.NONE
        fill_up(broker)
        for topic in TOPICS:
            for size in (100_000, 100):
                story.produce_until_refused(topic, size)
        created = story.create_until_refused()
        story.check()
        make_room(broker)
        for topic in TOPICS:
            assert story.produce(topic, 100_000) is ErrorCode.NONE
        assert story.create("taken") is ErrorCode.NONE
        for topic in created:  # their logs had no room, and now they have
            wait_until(lambda topic=topic: story.produce(topic, 100) is ErrorCode.NONE)  # type: ignore[misc]
        story.check()
    check_said(broker, "No space left on device")


def test_producers_may_fill_the_disk_themselves(on_small_disk: BrokerProcess) -> None:
    with told(on_small_disk) as story:
        for topic in TOPICS:
            story.produce_until_refused(topic, 200_000)
        story.check()
    assert on_small_disk.is_running
    on_small_disk.check_log()


def test_a_stop_on_a_full_disk_ends_and_says_so(on_small_disk: BrokerProcess) -> None:
    broker = on_small_disk
    with told(broker) as story:
        assert story.produce("plain", 100_000) is ErrorCode.NONE
        fill_up(broker)
        story.produce_until_refused("plain", 100)
    assert broker.stop() == 1
    assert "the stop was not clean" in broker.log_text()
    broker.check_log()


def test_a_topic_can_be_deleted_on_a_full_disk(on_small_disk: BrokerProcess) -> None:
    broker = on_small_disk
    with told(broker) as story:
        assert story.create("gone") is ErrorCode.NONE
        fill_up(broker)
        for size in (100_000, 100):
            story.produce_until_refused("plain", size)
        story.create_until_refused()
        answer = story.client.ask("DeleteTopics", 5, DeleteTopicsRequest(topic_names=["gone"]))
        assert [row.error_code for row in answer.responses] == [ErrorCode.NONE]
        story.check()
        make_room(broker)
        assert story.create("gone") is ErrorCode.NONE
