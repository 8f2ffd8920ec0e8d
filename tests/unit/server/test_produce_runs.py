"""Produce requests that come in one read are answered, and written, as if each had come alone."""

import asyncio
import errno
import socket
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.memory_fs import Fault
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.frame import ReceiveBuffer
from headrace.protocol.messages.metadata_records import ClientQuotaRecord, EntityData, PartitionChangeRecord
from headrace.server.connection import MAX_TOGETHER, MAX_UNSENT_BYTES, Connection
from headrace.server.read_ahead import DiskReaders, ReadAhead
from headrace.server.sending import Outbox
from tests.support.log_batches import a_batch
from tests.support.produce_client import PRODUCER, both, compare, fetch, five, of_producer, produce, spoil


@pytest.mark.parametrize("version", [9, 10, 11, 12, 13])
def test_requests_that_come_together_are_written_together(version: int) -> None:
    together, alone = both()
    first = [produce(a_batch(b"first"), version=version)]
    assert together.say(first) == alone.say(first)
    frames = five(version=version)
    assert compare(frames, together=together, alone=alone)
    assert together.writes_for(frames) == 1
    assert alone.say(frames)
    assert together.known() == alone.known()


def test_requests_of_an_idempotent_producer_are_written_together() -> None:
    together, alone = both()
    compare([of_producer(0)], together=together, alone=alone)
    compare([of_producer(sequence, number=sequence) for sequence in range(1, 6)], together=together, alone=alone)
    frames = [of_producer(sequence) for sequence in range(6, 11)]
    assert together.writes_for(frames) == 1
    alone.say_one_by_one(frames)
    assert together.known() == alone.known()


def test_batches_may_have_different_sizes() -> None:
    together, alone = both()
    sizes = (1, 20, 56, 57, 58, 59, 60, 61, 62, 100, 5_000, 16_300, 16_310, 16_320, 16_384, 1)
    frames = [produce(a_batch(bytes(size))) for size in sizes]
    compare(frames, together=together, alone=alone)
    assert together.writes_for(frames) == 1
    alone.say_one_by_one(frames)
    assert together.known() == alone.known()


def test_more_than_go_together_go_in_several_runs() -> None:
    together, alone = both()
    frames = [produce(a_batch(), number=number) for number in range(MAX_TOGETHER + 5)]
    assert together.writes_for(frames) == 2
    alone.say_one_by_one(frames)
    assert together.known() == alone.known()


def test_each_partition_has_its_own_run() -> None:
    together, _ = both()
    assert together.writes_for([*five(), *five(partition=1), *five(partition=2)]) == 3


@pytest.mark.parametrize("value", [b"value 2", b"of another size"])
def test_a_request_with_any_other_byte_is_answered_as_if_it_had_come_alone(value: bytes) -> None:
    frames = five()
    frames[2] = produce(a_batch(value), number=2)
    for place in range(len(frames[2])):
        together, alone = both()
        compare([*frames[:2], spoil(frames[2], place, 0x81), *frames[3:]], together=together, alone=alone)
        assert together.known() == alone.known(), place


# Any mixture

batches = st.one_of(
    st.lists(st.binary(max_size=80), min_size=1, max_size=3).map(lambda values: a_batch(*values)),
    st.builds(
        lambda sequence, producer: a_batch(b"p", producer=producer, sequence=sequence),
        st.integers(0, 8),
        st.sampled_from([PRODUCER, 8]),
    ),
    st.sampled_from(
        [
            None,
            b"",
            b"short",
            bytes(61),
            bytes(a_batch(b"a") + a_batch(b"b")),
            bytes(a_batch(b"damaged")[:-1]) + b"!",
            bytes(a_batch(b"a", transactional=True, producer=7)),
            bytes(a_batch(b"large" * 200)),
            bytes(a_batch(b"late", timestamps=[1_900_000_000_000])),
        ]
    ),
)
produced = st.builds(produce, batches, partition=st.sampled_from([0, 0, 0, 1, 9]), acks=st.sampled_from([-1, -1, 1, 0]))
runs = st.builds(lambda batch, count: [produce(batch)] * count, batches, st.integers(2, 7))
in_sequence = st.builds(
    lambda first, count: [of_producer(first + index) for index in range(count)], st.integers(0, 3), st.integers(2, 7)
)


spoilt = st.builds(spoil, produced, st.integers(0, 200), st.sampled_from([1, 0x80]))
others = st.sampled_from([fetch(0, 5), fetch(1, 6), b"\0\0", produce(a_batch()) + b"\0"])
reads = st.lists(
    st.lists(
        st.one_of(
            produced.map(lambda frame: [frame]), runs, in_sequence, spoilt.map(lambda f: [f]), others.map(lambda f: [f])
        )
    ).map(lambda parts: [frame for part in parts for frame in part]),
    max_size=4,
)


@settings(max_examples=200, deadline=None)
@given(
    reads,
    st.sampled_from(
        [
            {},
            {"segment_bytes": "1024"},
            {"max_message_bytes": "300"},
            {"index_interval_bytes": "0"},
            {"message_timestamp_type": "LogAppendTime"},
            {"compression_type": "gzip"},
            {"flush_messages": "3"},
        ]
    ),
)
def test_any_mixture_is_answered_and_written_as_if_each_request_had_come_alone(
    said: list[list[bytes]], configs: dict[str, str]
) -> None:
    together, alone = both(**configs)
    for frames in said:
        compare(frames, together=together, alone=alone)
    assert together.known() == alone.known()


@settings(max_examples=100, deadline=None)
@given(reads, st.integers(0, 2000))
def test_a_full_disk_takes_what_it_takes_of_requests_that_come_alone(said: list[list[bytes]], free: int) -> None:
    clients = together, alone = both()
    for client in clients:
        client.fs.capacity_bytes = client.fs.used_bytes() + free
    for frames in said:
        compare(frames, together=together, alone=alone)
    for client in clients:
        client.fs.capacity_bytes = None
    assert together.known() == alone.known()


# When the disk fails


@pytest.mark.parametrize("written_bytes", [0, 1, 100, 300])
def test_requests_of_a_write_that_has_failed_are_served_one_by_one(written_bytes: int) -> None:
    together, alone = both()
    together.fs.faults = [Fault("append", errno.EIO, ".log", written_bytes=written_bytes)]
    compare(five(), together=together, alone=alone)
    assert together.known() == alone.known()


def test_a_disk_that_takes_nothing_refuses_each_request() -> None:
    together, alone = both()
    for client in (together, alone):
        client.fs.faults = [Fault("append", errno.ENOSPC, ".log", times=1000)]
    answers = compare(five(), together=together, alone=alone)
    assert answers.count(ErrorCode.KAFKA_STORAGE_ERROR.to_bytes(2, "big") + (-1).to_bytes(8, "big", signed=True)) == 5
    for client in (together, alone):
        client.fs.faults = []
    compare(five(), together=together, alone=alone)
    assert together.known() == alone.known()


def test_when_there_is_room_again_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    client, _ = both()
    client.fs.faults = [Fault("append", errno.ENOSPC, ".log", times=2)]
    with caplog.at_level("INFO"):
        client.say([produce(a_batch())])
        client.say([produce(a_batch())])
        assert "writes succeed again" not in caplog.text
        client.say(five())
    assert "writes succeed again" in caplog.text


def test_a_log_that_has_failed_refuses_each_request() -> None:
    together, alone = both()
    for client in (together, alone):
        client.fs.faults = [Fault("append", path_end=".log", written_bytes=30), Fault("truncate", path_end=".log")]
    compare(five(), together=together, alone=alone)
    assert [client.node.partition("t").log.log_end_offset for client in (together, alone)] == [2, 2]


# What is asked each time


@pytest.mark.parametrize(
    ("name", "value", "writes"),
    [
        ("flush.messages", "1", 5),
        ("flush.messages", "100", 5),
        ("compression.type", "gzip", 5),
        ("cleanup.policy", "compact", 5),
        ("message.timestamp.type", "LogAppendTime", 5),
        ("retention.ms", "1", 1),
    ],
)
def test_what_the_topic_wants_is_asked_each_time(name: str, value: str, writes: int) -> None:
    together, _ = both()
    together.node.set_config("t", name, value)
    together.say_one_by_one(five())
    assert together.writes_for(five()) == writes


def test_how_many_replicas_are_in_sync_is_asked_each_time() -> None:
    together, alone = both(min_insync_replicas="2", replicas=(1, 2))
    for client in (together, alone):
        client.node.controller.write(PartitionChangeRecord(0, client.topic_id, isr=[1]))
    compare(five(), together=together, alone=alone)
    assert together.writes_for(five()) == 0
    assert together.writes_for(five(acks=1)) > 0


def test_answers_wait_for_those_of_earlier_requests() -> None:
    client, _ = both()
    waits = fetch(1, 77, offset=2, max_wait_ms=500)
    assert client.say([waits]) == b""
    assert client.say(five()) == b""
    client.node.clock.move(500)
    (answers,) = client.sock.sent
    assert answers[4:8] == (77).to_bytes(4, "big")
    assert client.node.partition("t").log.log_end_offset == 2 + 5


def test_a_client_that_never_reads_is_not_served_for_ever() -> None:
    client, _ = both()
    client.sock.is_full = True
    frames = [produce(a_batch())] * MAX_TOGETHER
    answer_bytes = 40  # at least
    for _ in range(MAX_UNSENT_BYTES // answer_bytes // MAX_TOGETHER):
        client.say(frames)
    assert client.loop.readable is None


def test_with_a_quota_each_request_is_counted() -> None:
    together, alone = both()
    for client in (together, alone):
        client.node.controller.write(ClientQuotaRecord([EntityData("client-id", "client")], "producer_byte_rate", 1e9))
    assert together.writes_for(five()) == 5


def test_what_goes_around_handlers_sees_each_request() -> None:
    together, _ = both()
    seen = together.node.watch_handlers()
    together.say(five())
    assert len(seen) == 5


def test_a_fetch_that_waits_hears_of_a_run_once() -> None:
    together, _ = both()
    heard: list[int] = []

    class Ear:
        def tell(self, size_bytes: int) -> None:
            heard.append(size_bytes)

    together.node.partition("t").watchers[cast("Any", Ear())] = None
    together.say(five())
    assert heard == [5 * len(a_batch(b"value 0"))]


def test_over_a_socket_answers_come_in_the_order_of_their_requests() -> None:
    client, _ = both()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        server, peer = socket.socketpair()
        server.setblocking(False)
        peer.setblocking(False)
        connection = Connection(
            loop,
            server,
            ReceiveBuffer(),
            Outbox(loop),
            client.node.dispatcher.serve,
            read_ahead=ReadAhead(DiskReaders(loop)),
            listener="PLAINTEXT",
            max_frame_bytes=1000,
            max_in_flight=10,
            on_close=lambda _: None,
        )
        for numbers in (range(1), range(1, 30)):
            frames = [produce(a_batch(), partition=int(number in (7, 8)), number=number) for number in numbers]
            await loop.sock_sendall(peer, b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))
            for number in numbers:
                head = await _receive(peer, 8)
                assert head[4:] == number.to_bytes(4, "big")
                await _receive(peer, int.from_bytes(head[:4], "big") - 4)
        connection.close("the test is over")
        peer.close()

    asyncio.run(story())
    assert [client.node.partition("t", index).log.high_watermark for index in range(2)] == [2 + 28, 2 + 2]


async def _receive(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(peer, size - len(data)), 120)
        assert more, "the connection was closed"
        data += more
    return data
