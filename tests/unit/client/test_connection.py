"""One connection: pipelining, versions, time-outs, and peers that break the protocol."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from headrace.client.config import Address
from headrace.client.connecting import open_connection
from headrace.client.connection import Connection
from headrace.client.errors import (
    BrokerRefusedError,
    ConnectionLostError,
    PeerProtocolError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from headrace.client.versions import BrokerVersions
from headrace.protocol.messages.api_versions import ApiVersionsResponse
from headrace.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from headrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.support.broken_off import say_and_break_off, tcp_pair
from tests.support.scripted_peer import ALL_VERSIONS, Asked, ScriptedPeer, reply, versions_response

METADATA = MetadataRequest([])


def connect(address: Address, *, request_timeout: float = 30.0) -> Awaitable[Connection]:
    return open_connection(address, client_id="test", setup_timeout=10.0, request_timeout=request_timeout)


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await story()

    asyncio.run(bounded())


async def answer_metadata(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(reply(asked, MetadataResponse(cluster_id=f"answer {asked.correlation_id}")))


async def say_nothing(asked: Asked, writer: asyncio.StreamWriter) -> None:
    pass


def test_a_real_broker_is_asked_for_its_versions_and_answers(bootstrap: str) -> None:
    async def story() -> None:
        host, port = bootstrap.split(":")
        connection = await connect(Address(host, int(port)))
        response: MetadataResponse = await connection.send(METADATA)
        assert [(broker.host, broker.port) for broker in response.brokers] == [(host, int(port))]
        assert connection.versions.features["metadata.version"] >= 7
        assert connection.versions.range_of(3) == (0, 13)
        connection.close()

    run(story)


def test_many_requests_are_in_flight_at_once_and_each_gets_its_own_answer() -> None:
    async def story() -> None:
        held: list[Asked] = []

        async def answer_in_hundreds(asked: Asked, writer: asyncio.StreamWriter) -> None:
            held.append(asked)
            if len(held) == 100:
                for each in held:
                    await answer_metadata(each, writer)
                held.clear()

        async with ScriptedPeer(answer_in_hundreds) as peer:
            connection = await connect(peer.address)
            futures = [connection.send(METADATA) for _ in range(300)]
            assert connection.in_flight == 300
            responses: list[MetadataResponse] = await asyncio.gather(*futures)
            asked = [each.correlation_id for each in peer.asked if each.api_key == 3]
            assert [response.cluster_id for response in responses] == [f"answer {number}" for number in asked]
            assert connection.in_flight == 0
            connection.close()

    run(story)


def test_one_turn_of_the_loop_is_one_write() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # one read sees one write
        ours.setblocking(False)
        theirs.setblocking(False)
        connection = Connection(loop, ours, Address("pair", 1), client_id="test", request_timeout=30)
        connection.versions = BrokerVersions(versions_response())
        futures = [connection.send(METADATA) for _ in range(100)]
        received = await loop.sock_recv(theirs, 1 << 20)
        frame_bytes = 4 + int.from_bytes(received[:4], "big")
        assert len(received) == 100 * frame_bytes
        connection.close()
        theirs.close()
        for future in futures:
            with pytest.raises(ConnectionLostError):
                await future

    run(story)


def test_what_is_urgent_does_not_wait_for_the_turn_to_end_and_takes_with_it_what_waits() -> None:
    async def story() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        theirs.setblocking(False)
        connection = Connection(
            asyncio.get_running_loop(), ours, Address("pair", 1), client_id="test", request_timeout=30
        )
        connection.versions = BrokerVersions(versions_response())
        futures = [connection.send(METADATA)]
        with pytest.raises(BlockingIOError):
            theirs.recv(1 << 20)
        futures.append(connection.send(METADATA, is_urgent=True))
        received = theirs.recv(1 << 20)
        assert len(received) == 2 * (4 + int.from_bytes(received[:4], "big"))
        theirs.close()
        futures.append(connection.send(METADATA, is_urgent=True))  # nobody takes it
        for future in futures:
            with pytest.raises(ConnectionLostError):
                await future

    run(story)


def test_large_records_go_out_and_come_in_whole() -> None:
    """Larger than any socket buffer, in both directions, with small parts around them."""

    async def story() -> None:
        records = bytes(range(256)) * (5 * 4096)  # 5 MiB

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            if asked.api_key == 0:
                assert [bytes(row.records) for row in asked.request.topic_data[0].partition_data] == [records] * 3
                writer.write(reply(asked, ProduceResponse()))
            else:
                rows = [PartitionData(partition_index=number, records=records) for number in range(3)]
                response = FetchResponse(responses=[FetchableTopicResponse(topic_id=bytes(16), partitions=rows)])
                writer.write(reply(asked, response))

        async with ScriptedPeer(answer, ranges={**ALL_VERSIONS, 0: (3, 12)}) as peer:
            connection = await connect(peer.address)
            rows = [PartitionProduceData(number, memoryview(records)) for number in range(3)]
            produce = ProduceRequest(None, -1, 1000, [TopicProduceData(name="t", partition_data=rows)])
            assert isinstance(await connection.send(produce), ProduceResponse)
            fetched: FetchResponse = await connection.send(_fetch())
            assert [bytes(row.records) for row in fetched.responses[0].partitions] == [records] * 3
            connection.close()

    run(story)


def _fetch() -> FetchRequest:
    return FetchRequest(topics=[FetchTopic(topic_id=bytes(16), partitions=[FetchPartition(0)])])


def test_the_records_of_a_small_answer_outlive_the_next_one() -> None:
    async def story() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            rows = [PartitionData(records=f"records of {asked.correlation_id:09}".encode())]
            response = FetchResponse(responses=[FetchableTopicResponse(topic_id=bytes(16), partitions=rows)])
            writer.write(reply(asked, response))

        async with ScriptedPeer(answer) as peer:
            connection = await connect(peer.address)
            responses: list[FetchResponse] = [await connection.send(_fetch()) for _ in range(5)]
            seen = [bytes(response.responses[0].partitions[0].records).decode() for response in responses]
            assert seen == [f"records of {each.correlation_id:09}" for each in peer.asked if each.api_key == 1]
            connection.close()

    run(story)


def test_a_broker_that_does_not_know_our_api_versions_is_asked_again_in_one_it_knows() -> None:
    """KIP-511: the refusal comes in version 0, whatever was asked."""

    async def story() -> None:
        async def old(asked: Asked, writer: asyncio.StreamWriter) -> None:
            if asked.api_key == 18 and asked.version > 2:
                writer.write(reply(asked, versions_response({18: (0, 2)}, error_code=35), version=0))
            elif asked.api_key == 18:
                writer.write(reply(asked, versions_response({3: (0, 5), 18: (0, 2)})))
            else:
                await answer_metadata(asked, writer)

        async with ScriptedPeer(old, ranges=None) as peer:
            connection = await connect(peer.address)
            await connection.send(METADATA, min_version=4)
            assert [(each.api_key, each.version) for each in peer.asked] == [(18, 4), (18, 2), (3, 5)]
            connection.close()

    run(story)


def test_the_version_is_the_highest_that_both_speak_within_the_callers_range() -> None:
    async def story() -> None:
        async with ScriptedPeer(answer_metadata, ranges={3: (5, 11)}) as peer:
            connection = await connect(peer.address)
            await connection.send(METADATA)
            await connection.send(METADATA, max_version=7)
            assert [each.version for each in peer.asked if each.api_key == 3] == [11, 7]
            with pytest.raises(UnsupportedVersionError, match="serves Metadata in versions 5-11, 12-13 are needed"):
                connection.send(METADATA, min_version=12)
            with pytest.raises(UnsupportedVersionError, match="does not serve Fetch"):
                connection.send(_fetch())
            connection.close()

    run(story)


def test_a_request_that_is_not_answered_in_time_ends_the_connection_and_all_that_wait() -> None:
    async def story() -> None:
        closed: list[Connection] = []
        async with ScriptedPeer(say_nothing) as peer:
            connection = await open_connection(
                peer.address, client_id="test", setup_timeout=10, request_timeout=30, on_close=closed.append
            )
            patient = connection.send(METADATA)
            hasty = connection.send(METADATA, timeout=0.05)
            with pytest.raises(RequestTimedOutError, match=r"did not answer Metadata within 0\.\d s"):
                await hasty
            with pytest.raises(RequestTimedOutError):
                await patient
            assert connection.is_closed
            assert closed == [connection]
            with pytest.raises(RequestTimedOutError):
                await connection.send(METADATA)

    run(story)


def test_an_answer_in_time_leaves_no_deadline_behind() -> None:
    async def story() -> None:
        async with ScriptedPeer(answer_metadata) as peer:
            connection = await connect(peer.address)
            await connection.send(METADATA, timeout=0.05)
            late = connection.send(METADATA, timeout=30)
            await late
            await asyncio.sleep(0.1)  # beyond the first deadline: it must have no effect
            assert not connection.is_closed
            connection.close()

    run(story)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        pytest.param(
            lambda asked: reply(asked, MetadataResponse(), correlation_id=77), "request 77 instead of", id="another id"
        ),
        pytest.param(lambda asked: b"\x00\x00\x00\x02ab", "2 are left", id="too short for a header"),
        pytest.param(lambda asked: b"\xff\xff\xff\xff", "a frame of -1 bytes", id="negative size"),
        pytest.param(lambda asked: b"HTTP/1.1 400 Bad Request\r\n\r\n", "a frame of", id="HTTP"),
        pytest.param(lambda asked: reply(asked, MetadataResponse())[:-1] + b"\x7f", "Kafka's protocol", id="bad body"),
        pytest.param(lambda asked: reply(asked, MetadataResponse()) * 2, "to no request", id="two answers"),
    ],
)
def test_a_peer_that_breaks_the_protocol_loses_the_connection(fault: Callable[[Asked], bytes], message: str) -> None:
    async def story() -> None:
        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(fault(asked))

        async with ScriptedPeer(answer) as peer:
            connection = await connect(peer.address)
            future = connection.send(METADATA)
            if message != "to no request":
                with pytest.raises(PeerProtocolError, match=message) as caught:
                    await future
                assert not caught.value.retriable
            else:
                await future
                while not connection.is_closed:
                    await asyncio.sleep(0)
            assert message in str(connection.close_error)

    run(story)


def test_a_connection_that_the_broker_closes_fails_what_waits() -> None:
    async def story() -> None:
        async def hang_up(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.close()

        async with ScriptedPeer(hang_up) as peer:
            connection = await connect(peer.address)
            with pytest.raises(ConnectionLostError, match="lost") as caught:
                await connection.send(METADATA)
            assert caught.value.retriable

    run(story)


def test_a_cancelled_request_does_not_disturb_those_behind_it() -> None:
    async def story() -> None:
        release = asyncio.Event()

        async def wait_then_answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            await answer_metadata(asked, writer)

        async with ScriptedPeer(wait_then_answer) as peer:
            connection = await connect(peer.address)
            first, second = connection.send(METADATA), connection.send(METADATA)
            first.cancel()
            release.set()
            response: MetadataResponse = await second
            assert response.cluster_id == f"answer {peer.asked[-1].correlation_id}"
            connection.close()

    run(story)


def test_what_wants_no_reply_is_gone_when_its_future_is_done() -> None:
    """More than the socket takes at once: closing right after `send_without_reply` loses it, and says so."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        connection = Connection(loop, ours, Address("pair", 1), client_id="test", request_timeout=30)
        connection.versions = BrokerVersions(versions_response(ALL_VERSIONS))
        records = bytes(4 << 20)
        produce = ProduceRequest(
            None, 0, 1000, [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, records)])]
        )
        sent = connection.send_without_reply(produce, max_version=9)
        assert connection.in_flight == 1
        received = bytearray()
        while not sent.done():
            received += await loop.sock_recv(theirs, 1 << 20)
        assert connection.in_flight == 0
        lost = connection.send_without_reply(produce, max_version=9)
        connection.close()
        while chunk := await loop.sock_recv(theirs, 1 << 20):
            received += chunk
        assert len(received) == 4 + int.from_bytes(received[:4], "big") > len(records)
        for future in (lost, connection.send_without_reply(produce, max_version=9)):
            with pytest.raises(ConnectionLostError):
                await future
        theirs.close()

    run(story)


def test_a_throttled_connection_says_until_when() -> None:
    async def story() -> None:
        async def throttle(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, MetadataResponse(throttle_time_ms=60_000)))

        async with ScriptedPeer(throttle) as peer:
            connection = await connect(peer.address)
            before = asyncio.get_running_loop().time()
            await connection.send(METADATA)
            assert connection.throttled_until >= before + 60
            connection.close()

    run(story)


def test_nobody_listening_is_said_as_such() -> None:
    async def story() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can
            address = Address("127.0.0.1", taken.getsockname()[1])
            with pytest.raises(BrokerRefusedError, match=f"Nobody listens at 127.0.0.1:{address.port}"):
                await connect(address)

    run(story)


def test_a_name_that_does_not_exist_is_said_as_such() -> None:
    async def story() -> None:
        with pytest.raises(ConnectionLostError, match=r"host 'no-such-host.invalid' .* is not known"):
            await connect(Address("no-such-host.invalid", 9092))

    run(story)


def test_a_listener_that_hangs_up_at_once_gets_a_hint() -> None:
    async def story() -> None:
        async def hang_up(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.close()

        async with ScriptedPeer(hang_up, ranges=None) as peer:
            with pytest.raises(ConnectionLostError, match="plain-text Kafka listener"):
                await connect(peer.address)

    run(story)


def test_an_error_of_api_versions_is_raised() -> None:
    async def story() -> None:
        async def refuse(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(reply(asked, ApiVersionsResponse(error_code=58)))

        async with ScriptedPeer(refuse, ranges=None) as peer:
            with pytest.raises(Exception, match="SASL_AUTHENTICATION_FAILED"):
                await connect(peer.address)

    run(story)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_broker_that_breaks_off_behind_half_an_answer_is_noticed(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """uvloop tells of a reset once, and then what came before it is read."""
    near, far = tcp_pair()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        connection = Connection(loop, near, Address("127.0.0.1", 1), client_id="test", request_timeout=3600.0)
        answer = connection.send_encoded(3, 9, [b""], is_urgent=True)
        say_and_break_off(far, near, b"\0\0\0\x10half")
        with pytest.raises(ConnectionLostError, match="reset"):
            await asyncio.wait_for(answer, 120)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(story())
