"""Clients that do not behave: their own connection suffers, others notice nothing, and memory stays bounded."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import pack
from typing import Final

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch
from tests.support.broker_process import BrokerProcess
from tests.support.round_trip import check_round_trip
from tests.support.waiting import wait_until
from tests.support.wire_client import TIMEOUT_SECONDS, Closed, WireClient, encode_request

pytestmark = pytest.mark.slow

MAX_FRAME_BYTES: Final = 4 << 20
MB: Final = 1 << 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, configs={"socket.request.max.bytes": str(MAX_FRAME_BYTES)}) as broker:
        yield broker
        check_round_trip(broker.address, "afterwards")
        broker.check_log()


def check_served(broker: BrokerProcess) -> None:
    with WireClient(broker.address) as client:
        assert client.ask("ApiVersions", 3, ApiVersionsRequest("x", "1")).error_code == ErrorCode.NONE


def fill(broker: BrokerProcess, topic: str, *, batches: int, batch_bytes: int) -> None:
    with WireClient(broker.address) as client:
        client.ask("CreateTopics", 5, CreateTopicsRequest([CreatableTopic(topic, 1, 1, [], [])]))
        batch = bytes(build_batch([NewRecord(1_700_000_000_000, None, bytes(batch_bytes))]))
        data = [TopicProduceData(topic, bytes(16), [PartitionProduceData(0, batch)])]
        for _ in range(batches):
            (row,) = client.ask("Produce", 9, ProduceRequest(None, -1, 30_000, data)).responses[0].partition_responses
            assert row.error_code == ErrorCode.NONE


def a_fetch(topic: str, *, offset: int = 0, max_bytes: int = 50 * MB, max_wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, topics=[FetchTopic(topic, partitions=[partition])]
    )


@pytest.mark.parametrize("size", [MAX_FRAME_BYTES + 1, 2**31 - 1, -1, -(2**31)])
def test_a_frame_above_the_limit_is_refused_before_its_body_arrives(broker: BrokerProcess, size: int) -> None:
    with WireClient(broker.address) as client:
        client.send_bytes(pack(">i", size))  # and nothing more
        with pytest.raises(Closed):
            client.receive_frame()


def test_what_was_whole_before_a_frame_above_the_limit_does_not_keep_it_open(broker: BrokerProcess) -> None:
    request = encode_request("ApiVersions", 3, ApiVersionsRequest("x", "1"), 1)
    with WireClient(broker.address) as client:
        client.send_bytes(request * 3 + pack(">i", MAX_FRAME_BYTES + 1))
        assert len(client.receive_until_closed()) <= 3


def test_a_frame_of_exactly_the_limit_is_served(broker: BrokerProcess) -> None:
    request = encode_request("Metadata", 9, MetadataRequest(topics=None), 1)
    content = request[4:-1] + b"\x01\x00"  # one unknown tag that fills the frame
    padding = MAX_FRAME_BYTES - len(content) - 4
    length = bytes([padding & 0x7F | 0x80, padding >> 7 & 0x7F | 0x80, padding >> 14 & 0x7F | 0x80, padding >> 21])
    content += length + bytes(padding)
    assert len(content) == MAX_FRAME_BYTES
    with WireClient(broker.address) as client:
        client.send_bytes(pack(">i", len(content)) + content)
        assert client.receive("Metadata", 9, 1).brokers


def test_frames_that_are_announced_and_never_sent_cost_nothing_much(broker: BrokerProcess) -> None:
    before = broker.memory_bytes()
    clients = [WireClient(broker.address) for _ in range(200)]
    try:
        for client in clients:
            client.send_bytes(pack(">i", MAX_FRAME_BYTES) + bytes(10))
        check_served(broker)
        assert broker.memory_bytes() - before < 20 * MB  # of 800 MB that were announced
    finally:
        for client in clients:
            client.close()


def test_half_a_frame_and_silence_keep_nobody_waiting(broker: BrokerProcess) -> None:
    request = encode_request("Metadata", 9, MetadataRequest(topics=None), 1)
    with WireClient(broker.address) as silent:
        silent.send_bytes(request[: len(request) // 2])
        check_served(broker)
        silent.send_bytes(request[len(request) // 2 :])
        assert silent.receive("Metadata", 9, 1).brokers


def test_connections_that_break_off_leave_nothing_behind(broker: BrokerProcess) -> None:
    request = encode_request("Fetch", 11, a_fetch("nothing", max_wait_ms=600_000), 1)
    check_served(broker)
    before = broker.count_descriptors()
    for end in range(1, len(request), 3):
        client = WireClient(broker.address)
        client.send_bytes(request[:end])
        # Closed with a reset, not with a farewell.
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))
        client.close()
    wait_until(lambda: broker.count_descriptors() <= before)


def test_a_client_that_asks_for_much_and_never_reads_fills_only_its_own_socket(broker: BrokerProcess) -> None:
    fill(broker, "large", batches=60, batch_bytes=MB - 1000)
    before = broker.memory_bytes()
    clients = [WireClient(broker.address, receive_buffer_bytes=4096) for _ in range(20)]
    try:
        for client in clients:
            for number in range(20):
                client.send("Fetch", 11, a_fetch("large", offset=number))
        check_served(broker)
        assert broker.memory_bytes() - before < 40 * MB  # of 20 * 20 * 50 MB
    finally:
        for client in clients:
            client.close()


def test_clients_that_send_without_end_and_never_read_are_stopped(broker: BrokerProcess) -> None:
    topics = [CreatableTopic(f"a-topic-with-a-long-name-{number:03}", 20, 1, [], []) for number in range(20)]
    request = encode_request("Metadata", 9, MetadataRequest(topics=None), 1)
    with WireClient(broker.address) as client:
        client.ask("CreateTopics", 5, CreateTopicsRequest(topics))
        client.send_bytes(request)
        answer_bytes = len(client.receive_frame())
    before = broker.memory_bytes()
    clients = [WireClient(broker.address, receive_buffer_bytes=4096) for _ in range(8)]
    try:
        sent = [_send_until_full(client, request, lambda: check_served(broker)) for client in clients]
        assert sum(sent) // len(request) * answer_bytes > 8 << 30
        assert broker.memory_bytes() - before < 50 * MB
        # One of them reads at last: it gets its answers, more than were ready.
        for _ in range(1000):
            assert clients[0].receive("Metadata", 9, 1).brokers
    finally:
        for client in clients:
            client.close()


def _send_until_full(client: WireClient, request: bytes, look: Callable[[], None]) -> int:
    """Send requests until the socket has been full for a while, in which others were served. The bytes that it took."""
    client.sock.setblocking(False)
    sent = stalls = 0
    while stalls < 10:
        try:
            sent += client.sock.send(request[sent % len(request) :])
            stalls = 0
        except BlockingIOError:
            stalls += 1
            look()
    client.sock.settimeout(TIMEOUT_SECONDS)
    return sent


def test_a_client_with_many_waiting_fetches_is_muted_until_one_is_answered(broker: BrokerProcess) -> None:
    fill(broker, "t", batches=1, batch_bytes=10)
    with WireClient(broker.address) as waiting, WireClient(broker.address) as other:
        for _ in range(500):
            waiting.send("Fetch", 11, a_fetch("t", offset=1, max_wait_ms=600_000))
        check_served(broker)
        batch = bytes(build_batch([NewRecord(1_700_000_000_000, None, b"news")]))
        data = [TopicProduceData("t", bytes(16), [PartitionProduceData(0, batch)])]
        other.ask("Produce", 9, ProduceRequest(None, -1, 30_000, data))
        for number in range(1, 501):
            answer = waiting.receive("Fetch", 11, number)
            assert answer.responses[0].partitions[0].high_watermark == 2


def test_connections_beyond_the_limit_are_closed_and_the_others_stay(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, configs={"max.connections": "10"}) as broker:
        clients = [WireClient(broker.address) for _ in range(10)]
        try:
            for client in clients:
                client.ask("ApiVersions", 3, ApiVersionsRequest("x", "1"))
            with WireClient(broker.address) as late, pytest.raises(Closed):
                late.receive_frame()
            for client in clients:
                client.ask("ApiVersions", 3, ApiVersionsRequest("x", "1"))
        finally:
            for client in clients:
                client.close()

        def is_served() -> bool:
            try:
                check_served(broker)
            except Closed:
                return False
            return True

        wait_until(is_served)
        broker.check_log()
