"""A full disk: writes are refused, reads go on, the log says so once, and with room everything goes on by itself."""

import errno
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.server.reserve import FILE_NAME, PIECE_BYTES, PIECES
from tests.support.disk_broker import DATA, NOW_MS, DiskBroker, errors, running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def broker(fs: MemoryFileSystem) -> Iterator[DiskBroker]:
    with running(fs) as broker:
        yield broker


TOPICS: list[dict[str, Any]] = [
    {},
    {"flush_messages": "1"},
    {"segment_ms": "1"},
    {"cleanup_policy": "compact"},
    {"compression_type": "lz4"},
]


@pytest.mark.parametrize("configs", TOPICS, ids=str)
@pytest.mark.parametrize("leave_bytes", [0, 1, 40, 70])
def test_writes_are_refused_reads_go_on_and_with_room_writes_succeed_again(
    broker: DiskBroker, configs: dict[str, Any], leave_bytes: int
) -> None:
    assert broker.create_topic("t", **configs) is ErrorCode.NONE
    before = [b"value %d" % number for number in range(5)]
    assert [broker.code("t", value) for value in before] == [ErrorCode.NONE] * 5
    broker.fill(leave_bytes=leave_bytes)
    for _ in range(3):
        row = broker.produce("t", b"too much" * 10)
        assert row.error_code == STORAGE_ERROR
        assert row.base_offset == -1
        assert broker.values("t") == before
    broker.make_room()
    row = broker.produce("t", b"after")
    assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 5)
    assert broker.values("t") == [*before, b"after"]


def test_the_broker_says_so_once_and_says_when_it_is_over(broker: DiskBroker, caplog: pytest.LogCaptureFixture) -> None:
    broker.create_topic("t", partitions=3)
    broker.fill()
    with caplog.at_level("INFO"):
        for _ in range(5):
            for index in range(3):
                assert broker.code("t", b"too much" * 10, index=index) is STORAGE_ERROR
        (said,) = errors(caplog.records)
        assert "No space left on device" in said
        assert "Make room" in said
        broker.make_room()
        for index in range(3):
            assert broker.code("t", index=index) is ErrorCode.NONE
    assert len(errors(caplog.records)) == 1
    assert [record.getMessage() for record in caplog.records][-1].endswith("writes succeed again")


def test_an_idempotent_producer_loses_and_doubles_nothing(broker: DiskBroker) -> None:
    broker.create_topic("t", flush_messages="1")
    producer_id = broker.client.ask("InitProducerId", 4, InitProducerIdRequest(None, 60_000)).producer_id

    def send(sequence: int) -> tuple[int, int]:
        row = broker.produce("t", b"%d" % sequence, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        return row.error_code, row.base_offset

    assert send(0) == (0, 0)
    broker.fill()
    assert send(1) == (STORAGE_ERROR, -1)
    assert send(2)[0] != ErrorCode.NONE  # it comes before its time
    broker.make_room()
    assert send(1) == (0, 1)
    assert send(1) == (0, 1)
    assert send(2) == (0, 2)
    assert broker.values("t") == [b"0", b"1", b"2"]


@pytest.mark.parametrize("path_end", [".index", ".timeindex", ".snapshot", ".log"])
def test_a_roll_that_has_no_room_refuses_writes_until_there_is_some(broker: DiskBroker, path_end: str) -> None:
    broker.create_topic("t", segment_ms="1000")
    assert broker.code("t", b"0") is ErrorCode.NONE
    broker.fs.faults = [Fault("open", errno.ENOSPC, path_end, times=3)]
    later_ms = NOW_MS + 5000
    assert [broker.code("t", b"1", timestamp=later_ms) for _ in range(3)] == [STORAGE_ERROR] * 3
    assert broker.values("t") == [b"0"]
    assert broker.code("t", b"1", timestamp=later_ms) is ErrorCode.NONE
    assert broker.values("t") == [b"0", b"1"]


def test_what_a_sync_needs_room_for_is_written_when_there_is_some(broker: DiskBroker) -> None:
    """The first sync of a log writes its leader epochs. Without room that is no failed sync: nothing is in doubt."""
    broker.create_topic("t", flush_messages="1")
    broker.fs.faults = [Fault("append", errno.ENOSPC, "leader-epoch-checkpoint.tmp", times=2)]
    assert [broker.code("t", b"%d" % number) for number in range(3)] == [STORAGE_ERROR, STORAGE_ERROR, ErrorCode.NONE]
    # The first two were written and not acknowledged: whether they count is not for their producer to know.
    assert broker.values("t") == [b"0", b"1", b"2"]


def test_compaction_waits_for_room(fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    with running(fs, log_cleaner_backoff_ms="10") as broker:
        fs.faults = [Fault("append", errno.ENOSPC, ".log.cleaned", times=5)]
        broker.create_topic("t", cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.01")
        for number in range(5):
            assert broker.code("t", b"%d" % number, timestamp=NOW_MS + number * 5000) is ErrorCode.NONE
        wait_until(lambda: len(broker.values("t")) <= 2)  # the newest sealed one, and the active segment
        assert fs.faults[0].times == 0
        assert broker.values("t")[-1] == b"4"
        (said,) = errors(caplog.records)
        assert "cannot be compacted" in said


class TestMetadata:
    """What changes the cluster is refused as a whole, and nothing of it has happened."""

    def code_of(self, broker: DiskBroker, api: str) -> ErrorCode:
        client = broker.client
        if api == "CreateTopics":
            return broker.create_topic("new")
        if api == "DeleteTopics":
            rows = client.ask("DeleteTopics", 5, DeleteTopicsRequest(topic_names=["t"])).responses
        elif api == "CreatePartitions":
            wanted = CreatePartitionsTopic("t", 3, None)
            rows = client.ask("CreatePartitions", 3, CreatePartitionsRequest([wanted])).results
        else:
            configs = [AlterableConfig("retention.ms", 0, "1000")]
            request = IncrementalAlterConfigsRequest([AlterConfigsResource(2, "t", configs)])
            rows = client.ask("IncrementalAlterConfigs", 1, request).responses
        return ErrorCode(rows[0].error_code)

    @pytest.mark.parametrize("leave_bytes", [0, 30])
    def test_topics_can_be_deleted_to_make_room(self, broker: DiskBroker, leave_bytes: int) -> None:
        names = [f"t{number}" for number in range(PIECES)]
        for name in names:
            broker.create_topic(name)
        reserve = f"{DATA}/{FILE_NAME}"
        wait_until(lambda: broker.fs.exists(reserve) and broker.fs.size_of(reserve) == PIECES * PIECE_BYTES)
        for left, name in enumerate(names):
            broker.fill(leave_bytes=leave_bytes)  # others take what the deletion before has left
            assert broker.create_topic("new") is STORAGE_ERROR
            rows = broker.client.ask("DeleteTopics", 5, DeleteTopicsRequest(topic_names=[name])).responses
            assert [row.error_code for row in rows] == [ErrorCode.NONE]
            topics = broker.client.ask("Metadata", 9, MetadataRequest(topics=None)).topics
            assert len(topics) == PIECES - left - 1
        broker.make_room()
        assert broker.create_topic("new") is ErrorCode.NONE

    def test_without_a_reserve_a_deletion_is_refused_and_can_be_tried_again(self, broker: DiskBroker) -> None:
        broker.create_topic("t")
        wait_until(lambda: broker.fs.exists(f"{DATA}/{FILE_NAME}"))
        broker.thread.call(lambda node: node.idle())
        broker.fs.remove(f"{DATA}/{FILE_NAME}")
        broker.fill()
        assert self.code_of(broker, "DeleteTopics") is STORAGE_ERROR
        broker.make_room()
        assert self.code_of(broker, "DeleteTopics") is ErrorCode.NONE

    @pytest.mark.parametrize("api", ["CreateTopics", "CreatePartitions", "IncrementalAlterConfigs"])
    @pytest.mark.parametrize("leave_bytes", [0, 30])
    def test_a_change_is_refused_and_can_be_tried_again(self, broker: DiskBroker, api: str, leave_bytes: int) -> None:
        broker.create_topic("t")
        before = broker.client.ask("Metadata", 9, MetadataRequest(topics=None))
        broker.fill(leave_bytes=leave_bytes)
        for _ in range(2):
            assert self.code_of(broker, api) is STORAGE_ERROR
            assert broker.client.ask("Metadata", 9, MetadataRequest(topics=None)) == before
        broker.make_room()
        assert self.code_of(broker, api) is ErrorCode.NONE

    def test_what_was_refused_is_not_there_after_a_restart(self, fs: MemoryFileSystem) -> None:
        with running(fs) as broker:
            broker.create_topic("before")
            broker.fill()
            assert broker.create_topic("refused") is STORAGE_ERROR
            broker.make_room()
            broker.create_topic("after")
            broker.stop()
        with running(fs) as broker:
            topics = broker.client.ask("Metadata", 9, MetadataRequest(topics=None)).topics
            assert sorted(topic.name for topic in topics) == ["after", "before"]

    def test_a_topic_that_is_not_created_by_itself_is_unknown(self, broker: DiskBroker) -> None:
        broker.fill()
        request = MetadataRequest([MetadataRequestTopic(bytes(16), "auto")], allow_auto_topic_creation=True)
        answer = broker.client.ask("Metadata", 9, request)
        assert [row.error_code for row in answer.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert len(answer.brokers) == 1
        broker.make_room()
        answer = broker.client.ask("Metadata", 9, request)
        assert [row.error_code for row in answer.topics] == [ErrorCode.NONE]

    def test_a_producer_that_gets_no_id_may_ask_again(self, broker: DiskBroker) -> None:
        broker.fill()
        request = InitProducerIdRequest(None, 60_000)
        assert broker.client.ask("InitProducerId", 4, request).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        broker.make_room()
        answer = broker.client.ask("InitProducerId", 4, request)
        assert (answer.error_code, answer.producer_id >= 0) == (ErrorCode.NONE, True)

    def test_a_snapshot_that_has_no_room_is_taken_later(
        self, fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture
    ) -> None:
        snapshots = f"{DATA}/__cluster_metadata-0"
        with running(fs, metadata_log_max_record_bytes_between_snapshots="100") as broker:
            fs.faults = [Fault("append", errno.ENOSPC, ".checkpoint.tmp", times=1)]
            for number in range(5):
                assert broker.create_topic(f"t{number}") is ErrorCode.NONE
            wait_until(lambda: bool(errors(caplog.records)))
            (said,) = errors(caplog.records)
            assert "snapshot" in said
            assert broker.create_topic("more") is ErrorCode.NONE
            assert not fs.faults[0].times
        fs.faults = []
        with running(fs, metadata_log_max_record_bytes_between_snapshots="100") as broker:
            broker.create_topic("again")
            wait_until(lambda: any(name.endswith(".checkpoint") for name in fs.list_dir(snapshots)))

    def test_a_topic_whose_log_has_no_room_is_there_when_there_is_some(self, broker: DiskBroker) -> None:
        broker.fs.faults = [Fault("open", errno.ENOSPC, "t-0/partition.metadata", times=1)]
        assert broker.create_topic("t") is ErrorCode.NONE
        assert broker.code("t") is STORAGE_ERROR
        wait_until(lambda: broker.code("t") is ErrorCode.NONE)


class TestStartAndStop:
    def test_a_start_without_room_says_what_is_missing(self, fs: MemoryFileSystem) -> None:
        with running(fs) as broker:
            broker.create_topic("t")
            broker.produce("t", b"kept")
            broker.stop()
        fs.capacity_bytes = fs.used_bytes()
        with pytest.raises(Exception, match="No space left on device"), running(fs):
            pass
        fs.capacity_bytes = None
        with running(fs) as broker:
            assert broker.values("t") == [b"kept"]

    def test_a_stop_without_room_ends_and_the_next_start_finds_everything(self, fs: MemoryFileSystem) -> None:
        with running(fs) as broker:
            broker.create_topic("t")
            broker.produce("t", b"kept")
            broker.fill()
            with pytest.raises(Exception, match="No space left on device"):
                broker.stop()
        fs.capacity_bytes = None
        with running(fs) as broker:
            assert broker.values("t") == [b"kept"]
            assert broker.code("t", b"more") is ErrorCode.NONE
