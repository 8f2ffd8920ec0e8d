"""A disk that fails: what cannot be trusted any more takes no writes, all else goes on, and a restart recovers."""

import errno
from collections.abc import Iterator

import pytest

from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.server.start_error import StartError
from tests.support.disk_broker import DiskBroker, errors, running
from tests.support.retrying_producer import fetch
from tests.support.waiting import wait_until
from tests.support.wire_client import Closed, WireClient

pytestmark = pytest.mark.slow

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def broker(fs: MemoryFileSystem) -> Iterator[DiskBroker]:
    with running(fs) as broker:
        yield broker


def test_after_a_failed_sync_the_log_is_read_only_until_a_restart(
    fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    with running(fs) as broker:
        broker.create_topic("t", partitions=2, flush_messages="1")
        assert broker.code("t", b"kept") is ErrorCode.NONE
        fs.faults = [Fault("sync", errno.EIO, "t-0/00000000000000000000.log")]
        for _ in range(3):
            assert broker.code("t", b"refused") is STORAGE_ERROR
        assert broker.values("t") == [b"kept"]
        assert [broker.code("t", b"%d" % number, index=1) for number in range(3)] == [ErrorCode.NONE] * 3
        (said,) = errors(caplog.records)
        assert "takes no more writes: a sync failed" in said
        assert "restart the broker" in said
        broker.kill()
    with running(fs) as broker:
        values = broker.values("t")
        assert values[0] == b"kept"
        assert broker.code("t", b"more") is ErrorCode.NONE
        assert broker.values("t") == [*values, b"more"]


@pytest.mark.parametrize("written_bytes", [0, 1, 60])
def test_a_failed_write_is_refused_and_the_next_one_taken(broker: DiskBroker, written_bytes: int) -> None:
    broker.create_topic("t")
    assert broker.code("t", b"0") is ErrorCode.NONE
    broker.fs.faults = [Fault("append", errno.EIO, "t-0/00000000000000000000.log", written_bytes=written_bytes)]
    assert broker.code("t", b"1") is STORAGE_ERROR
    assert broker.code("t", b"2") is ErrorCode.NONE
    assert broker.values("t") == [b"0", b"2"]


def test_a_write_that_cannot_be_cut_off_ends_writing_until_a_restart(fs: MemoryFileSystem) -> None:
    with running(fs) as broker:
        broker.create_topic("t")
        broker.code("t", b"0")
        fs.faults = [
            Fault("append", errno.EIO, "t-0/00000000000000000000.log", written_bytes=30),
            Fault("truncate", errno.EIO, "t-0/00000000000000000000.log"),
        ]
        for _ in range(3):
            assert broker.code("t", b"torn") is STORAGE_ERROR
        assert broker.values("t") == [b"0"]
        broker.kill()
    with running(fs) as broker:
        assert broker.values("t") == [b"0"]
        assert broker.code("t", b"1") is ErrorCode.NONE


def test_a_read_that_fails_is_that_readers_error_and_nobody_elses(broker: DiskBroker) -> None:
    """The log may find out, or the connection, which reads small slices itself: an error, or the end of it."""
    broker.create_topic("t", partitions=2)
    for index in range(2):
        for number in range(3):
            broker.code("t", b"%d" % number, index=index)
    listener = broker.thread.ready().listeners[0]
    for skip in range(6):
        broker.fs.faults = [Fault("read", errno.EIO, "t-0/00000000000000000000.log", skip=skip)]
        with WireClient((listener.host, listener.port)) as client:
            try:
                row = fetch(client, "t", 0, 1)
            except Closed:
                pass
            else:
                assert row.error_code in (ErrorCode.NONE, STORAGE_ERROR)
        broker.fs.faults = []
        assert broker.values("t", 0) == broker.values("t", 1) == [b"0", b"1", b"2"]


def test_a_read_that_fails_while_a_fetch_waits_does_not_hurt_the_producer(broker: DiskBroker) -> None:
    broker.create_topic("t")
    listener = broker.thread.ready().listeners[0]
    with WireClient((listener.host, listener.port)) as waiting:
        partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(max_wait_ms=600_000, min_bytes=1, topics=[FetchTopic("t", partitions=[partition])])
        correlation_id = waiting.send("Fetch", 12, request)
        broker.client.ask("Metadata", 9, MetadataRequest(topics=None))  # the fetch is there by now, or soon
        broker.fs.faults = [Fault("read", errno.EIO, "t-0/00000000000000000000.log", times=100)]
        assert broker.code("t", b"0") is ErrorCode.NONE
        try:
            row = waiting.receive("Fetch", 12, correlation_id).responses[0].partitions[0]
        except Closed:
            pass
        else:
            assert row.error_code == STORAGE_ERROR
    broker.fs.faults = []
    assert broker.values("t") == [b"0"]


@pytest.mark.parametrize(
    "unreadable",
    [
        "leader-epoch-checkpoint",
        "00000000000000000001.snapshot",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
    ],
)
def test_without_a_descriptor_for_what_a_log_keeps_beside_it_requests_are_refused_and_nothing_is_doubled(
    fs: MemoryFileSystem, unreadable: str
) -> None:
    def code(broker: DiskBroker, sequence: int) -> ErrorCode:
        return broker.code("t", b"%d" % sequence, producer_id=7, producer_epoch=0, base_sequence=sequence)

    with running(fs) as broker:
        broker.create_topic("t")
        assert code(broker, 0) is ErrorCode.NONE
        broker.stop()
    with running(fs) as broker:
        fs.faults = [Fault("read", errno.EMFILE, f"t-0/{unreadable}", times=2)]
        assert code(broker, 1) is STORAGE_ERROR
        fetch(broker.client, "t", 0, 0)  # answered, whatever it says
        fs.faults = []
        wait_until(lambda: code(broker, 1) is ErrorCode.NONE)
        assert broker.values("t") == [b"0", b"1"]


def test_a_metadata_log_that_cannot_be_synced_stops_the_broker_and_it_starts_again(fs: MemoryFileSystem) -> None:
    with running(fs) as broker:
        broker.create_topic("t")
        broker.code("t", b"kept")
        fs.faults = [Fault("sync", errno.EIO, "__cluster_metadata-0/00000000000000000000.log")]
        broker.client.send("CreateTopics", 5, broker.creation_of("never-answered"))
        wait_until(lambda: broker.thread.failure is not None)
        assert "Input/output error" in str(broker.thread.failure)
    with running(fs) as broker:
        assert broker.values("t") == [b"kept"]


def test_a_broker_whose_metadata_cannot_be_synced_lets_its_clients_go(fs: MemoryFileSystem) -> None:
    """As Apache Kafka halts: what the cluster is, nobody can know any more. A restart finds what reached the disk."""
    with running(fs) as broker:
        assert broker.create_topic("before") is ErrorCode.NONE
        address = broker.client.sock.getpeername()
        with WireClient(address) as bystander:
            fs.faults = [Fault("sync", path_end="__cluster_metadata-0/00000000000000000000.log")]
            broker.client.send("CreateTopics", 5, broker.creation_of("after"))
            assert broker.client.receive_until_closed() == []
            assert bystander.receive_until_closed() == []
            assert isinstance(broker.thread.failure, OSError)
            with pytest.raises(ConnectionRefusedError):
                WireClient(address)
        with pytest.raises(StartError, match="the broker stops"):
            broker.thread.call(lambda node: node.idle())
        broker.stop()
    with running(fs) as broker:
        assert broker.create_topic("before") is ErrorCode.TOPIC_ALREADY_EXISTS
