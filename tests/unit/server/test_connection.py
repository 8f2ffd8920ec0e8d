"""One connection over a real socket pair: order, coalescing, limits, closing."""

import asyncio
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from headrace.log.fs import RealFileSystem
from headrace.log.slices import LogSlice
from headrace.protocol.errors import ProtocolError
from headrace.protocol.frame import ReceiveBuffer
from headrace.server.connection import MAX_UNSENT_BYTES, Connection, Reply
from headrace.server.later import Later
from headrace.server.read_ahead import DiskReaders, ReadAhead
from headrace.server.sending import Outbox
from tests.support.broken_off import say_and_break_off, tcp_pair
from tests.support.connection_pair import Pair, echo, framed, run


def test_requests_of_one_read_are_answered_in_order() -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, echo)
        await pair.send(framed(b"one") + framed(b"two") + framed(b"three")[:5])
        assert await pair.receive(6) == b"onetwo"
        await pair.send(framed(b"three")[5:])
        assert await pair.receive(5) == b"three"
        pair.end()

    run(story)


@pytest.mark.parametrize(
    ("refused", "reason"),
    [(struct.pack(">i", 1001) + b"x", "a frame of 1001 bytes"), (framed(b"nonsense") + framed(b"d"), "at byte 3")],
)
@pytest.mark.parametrize("max_in_flight", [1, 2, 100])
def test_requests_before_one_that_is_refused_are_answered_and_then_it_is_closed(
    max_in_flight: int, refused: bytes, reason: str
) -> None:
    promised: list[Later[Reply]] = []

    def serve(_: Connection, buffer: bytearray, __: memoryview, start: int, end: int) -> Reply | Later[Reply]:
        body = bytes(buffer[start:end])
        if body.startswith(b"wait"):
            promised.append(Later())
            return promised[-1]
        if body == b"nonsense":
            raise ProtocolError("at byte 3")
        return [body]

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, serve, max_in_flight=max_in_flight)
        await pair.send(framed(b"a") + framed(b"wait1") + framed(b"b") + framed(b"wait2") + framed(b"c") + refused)
        assert await pair.receive(1) == b"a"
        for number, answer in enumerate((b"1b", b"2c")):
            await pair.until(lambda number=number: len(promised) > number)  # type: ignore[misc]
            assert not pair.closed
            promised[number].resolve([answer[:1]])
            assert await pair.receive(2) == answer
        assert await pair.receive(1) == b""
        assert pair.closed == [pair.connection]
        assert reason in str(pair.connection.close_reason)
        pair.client.close()

    run(story)


def test_a_later_reply_holds_back_the_ones_behind_it() -> None:
    promised: dict[bytes, Later[Reply]] = {}

    def serve(_: Connection, buffer: bytearray, __: memoryview, start: int, end: int) -> Reply | Later[Reply]:
        body = bytes(buffer[start:end])
        if body.startswith(b"wait"):
            return promised.setdefault(body, Later())
        return [body]

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, serve)
        await pair.send(framed(b"a") + framed(b"wait1") + framed(b"b") + framed(b"wait2") + framed(b"c"))
        assert await pair.receive(1) == b"a"
        await pair.until(lambda: len(promised) == 2)
        promised[b"wait2"].resolve([b"second."])
        promised[b"wait1"].resolve([b"first."])
        assert await pair.receive(15) == b"first.bsecond.c"
        pair.end()

    run(story)


def test_later_replies_of_one_turn_leave_in_one_write() -> None:
    promised: list[Later[Reply]] = []

    def serve(*_: object) -> Later[Reply]:
        promised.append(Later())
        return promised[-1]

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, serve, kind=socket.SOCK_SEQPACKET)  # which keeps writes apart
        await pair.send(framed(b"x") * 6)
        await pair.until(lambda: len(promised) == 6)
        for number, later in enumerate(promised[:5]):
            later.resolve([b"%d" % number])
        assert await loop.sock_recv(pair.client, 100) == b"01234"  # though the last one still waits
        promised[5].resolve([b"5"])
        assert await loop.sock_recv(pair.client, 100) == b"5"
        pair.end()

    run(story)


def test_no_more_requests_are_served_than_may_be_in_flight() -> None:
    promised: list[Later[Reply]] = []

    def serve(*_: object) -> Later[Reply]:
        promised.append(Later())
        return promised[-1]

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, serve, max_in_flight=2)
        await pair.send(framed(b"x") * 5)
        await pair.until(lambda: len(promised) == 2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(promised) == 2
        for index in range(5):
            await pair.until(lambda: len(promised) > index)  # noqa: B023
            promised[index].resolve([b"%d" % index])
        assert await pair.receive(5) == b"01234"
        pair.end()

    run(story)


def test_a_client_that_never_reads_fills_its_socket_and_not_our_memory() -> None:
    served = 0

    def serve(*_: object) -> Reply:
        nonlocal served
        served += 1
        return [bytes(100_000)]

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, serve)
        await pair.send(framed(b"x") * 10_000)
        for _ in range(100):
            await asyncio.sleep(0)
        assert served * 100_000 < 4 * MAX_UNSENT_BYTES
        before = served
        assert len(await pair.receive(before * 100_000)) == before * 100_000
        await pair.until(lambda: served > before)
        pair.end()

    run(story)


def test_large_and_small_slices_of_a_file_arrive_between_other_parts(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    content = bytes(range(256)) * 2000
    path.write_bytes(content)
    file = RealFileSystem().open(str(path))

    def serve(*_: object) -> Reply:
        return [b"<", LogSlice(file, 10, 400_000), b"|", LogSlice(file, 5, 100), b">"]

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, serve)
        await pair.send(framed(b"x") * 2)
        expected = b"<" + content[10:400_010] + b"|" + content[5:105] + b">"
        assert await pair.receive(2 * len(expected)) == expected * 2
        pair.end()

    run(story)


def test_a_peer_that_breaks_the_protocol_loses_its_connection() -> None:
    def serve(*_: object) -> Reply:
        raise ProtocolError("nonsense at byte 3")

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, serve)
        await pair.send(framed(b"x") * 2)
        assert await pair.receive(1) == b""
        assert pair.closed == [pair.connection]
        assert pair.connection.close_reason == "nonsense at byte 3"
        pair.end()

    run(story)


def test_a_bug_closes_the_connection_and_is_told() -> None:
    def serve(*_: object) -> Reply:
        raise ValueError("nobody thought of this")

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        told: list[object] = []
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
        pair = Pair(loop, serve)
        await pair.send(framed(b"x") * 2)
        assert await pair.receive(1) == b""
        assert [type(each) for each in told] == [ValueError]
        pair.end()

    run(story)


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize("size", [100, 100_000])
def test_records_that_cannot_be_read_close_the_connection_that_wanted_them(
    tmp_path: Path, size: int, is_later: bool
) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"shorter")
    file = RealFileSystem().open(str(path))
    laters: list[Later[Reply]] = []

    def serve(*_: object) -> Reply | Later[Reply]:
        reply = [b"<", LogSlice(file, 0, size), b">"]
        if not is_later:
            return reply
        laters.append(Later())
        return laters[-1]

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, serve)
        await pair.send(framed(b"x") * 2)
        if is_later:
            await pair.until(lambda: len(laters) == 2)
            laters[0].resolve([b"<", LogSlice(file, 0, size), b">"])  # whoever does it is not hurt
        await pair.until(lambda: pair.connection.is_closed)
        pair.end()

    run(story)


def test_a_frame_above_the_limit_closes_before_its_body_arrives() -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, echo)
        await pair.send(struct.pack(">i", 1001))
        assert await pair.receive(1) == b""
        assert "1001" in str(pair.connection.close_reason)
        pair.end()

    run(story)


def test_what_waits_for_a_reply_is_told_when_the_client_goes() -> None:
    gone: list[str] = []

    def serve(*_: object) -> Later[Reply]:
        later: Later[Reply] = Later()
        later.on_abandon(lambda: gone.append("gone"))
        return later

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, serve)
        await pair.send(framed(b"x"))
        await pair.until(lambda: bool(pair.connection._waiting))
        pair.client.close()
        await pair.until(lambda: gone == ["gone"])
        assert pair.connection.is_closed

    run(story)


def test_a_muted_connection_serves_nothing_until_every_mute_is_undone() -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, echo)
        pair.connection.mute()
        pair.connection.mute()
        await pair.send(framed(b"late"))
        pair.connection.unmute()
        for _ in range(10):
            await asyncio.sleep(0)
        with pytest.raises(BlockingIOError):
            pair.client.recv(1)
        pair.connection.unmute()
        assert await pair.receive(4) == b"late"
        pair.end()

    run(story)


def test_a_request_that_mutes_its_connection_holds_back_those_that_came_with_it() -> None:
    served: list[bytes] = []

    def serve(connection: Connection, buffer: bytearray, _: memoryview, start: int, end: int) -> Reply:
        served.append(bytes(buffer[start:end]))
        if served == [b"much"]:
            connection.mute()
        return [served[-1]]

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, serve)
        await pair.send(framed(b"much") + framed(b"more"))
        assert await pair.receive(4) == b"much"
        assert served == [b"much"]
        pair.connection.unmute()
        assert await pair.receive(4) == b"more"
        pair.end()

    run(story)


def test_a_connection_that_was_closed_while_muted_can_be_unmuted() -> None:
    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, echo)
        pair.connection.mute()
        pair.end()
        pair.connection.unmute()
        assert pair.connection.close_reason == "the test is over"

    run(story)


def test_hanging_up_sends_what_is_ready_first() -> None:
    def serve(connection: Connection, buffer: bytearray, _: memoryview, start: int, end: int) -> Reply | None:
        if buffer[start:end] != b"bye":
            return [bytes(buffer[start:end])]
        connection.hang_up("the test wants it")
        return None

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, serve)
        await pair.send(framed(b"one") + framed(b"two") + framed(b"bye") + framed(b"three"))
        assert await pair.receive(100) == b"onetwo"
        assert pair.closed == [pair.connection]
        assert pair.connection.close_reason == "the test wants it"
        pair.end()

    run(story)


def test_requests_whose_replies_leave_at_once_are_all_served_whatever_the_limit_of_unsent_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.server.connection.MAX_UNSENT_BYTES", 100)

    async def story(loop: asyncio.AbstractEventLoop) -> None:
        pair = Pair(loop, echo)
        requests = [bytes([number]) * 60 for number in range(30)]
        await pair.send(b"".join(map(framed, requests)))
        assert await pair.receive(30 * 60) == b"".join(requests)
        await pair.send(framed(b"more"))
        assert await pair.receive(4) == b"more"
        pair.end()

    run(story)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_client_that_breaks_off_behind_half_a_request_is_noticed(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """uvloop tells of a reset once, and then what came before it is read."""
    near, far = tcp_pair()

    async def story() -> None:
        closed: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        Connection(
            asyncio.get_running_loop(),
            near,
            ReceiveBuffer(),
            Outbox(asyncio.get_running_loop()),
            echo,
            read_ahead=ReadAhead(DiskReaders(asyncio.get_running_loop())),
            listener="PLAINTEXT",
            max_frame_bytes=1000,
            max_in_flight=100,
            on_close=closed.set_result,
        )
        say_and_break_off(far, near, framed(b"half")[:5])
        assert "reset" in ((await asyncio.wait_for(closed, 120)).close_reason or "")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(story())
