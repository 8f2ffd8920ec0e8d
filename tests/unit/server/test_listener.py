"""Listening sockets, over real ones on loopback."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cluster.listeners import Endpoint, Listener
from headrace.log.fs import RealFileSystem
from headrace.server.clock import MovableClock
from headrace.server.connection import Connection, Reply
from headrace.server.later import Later
from headrace.server.listener import ConnectionLimits, Listeners
from headrace.server.settings import load_settings

LIMITS = ConnectionLimits(
    max_connections=3,
    max_connections_per_ip=1000,
    max_connections_per_ip_overrides={},
    socket_request_max_bytes=1000,
    max_in_flight=10,
)
PLAINTEXT = Listener("PLAINTEXT", "127.0.0.1", 0)


def echo(_: Connection, buffer: bytearray, __: memoryview, start: int, end: int) -> Reply:
    return [bytes(buffer[start:end])]


def connect(address: Endpoint) -> socket.socket:
    return socket.create_connection((address.host, address.port), timeout=120)


async def until(condition: Callable[[], bool]) -> None:
    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0)

    await asyncio.wait_for(poll(), 120)


async def ask(sock: socket.socket, data: bytes, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    sock.setblocking(False)
    await loop.sock_sendall(sock, data)
    return await asyncio.wait_for(loop.sock_recv(sock, size), 120)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", ""])
def test_clients_reach_a_listener_by_ipv4_ipv6_and_every_interface(host: str) -> None:
    async def story() -> None:
        listeners = Listeners(asyncio.get_running_loop(), echo, LIMITS)
        port = listeners.bind(PLAINTEXT._replace(host=host)).port
        listeners.start()
        for target in [host] if host else ["127.0.0.1", "::1"]:
            with connect(Endpoint(target, port)) as client:
                assert await ask(client, b"\0\0\0\x02hi", 2) == b"hi"
        listeners.close()

    asyncio.run(story())


def test_connections_above_the_limit_are_closed_and_the_others_notice_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        listeners = Listeners(asyncio.get_running_loop(), echo, LIMITS)
        address = listeners.bind(PLAINTEXT)
        listeners.start()
        clients = [connect(address) for _ in range(3)]
        await until(lambda: len(listeners.connections) == 3)
        for _ in range(5):
            with connect(address) as refused:
                assert await ask(refused, b"", 1) == b""
        assert caplog.text.count("connection from 127.0.0.1 refused: 3 are open, 3 from there") == 1
        assert [await ask(client, b"\0\0\0\x01x", 1) for client in clients] == [b"x"] * 3
        clients.pop().close()
        await until(lambda: len(listeners.connections) == 2)
        with connect(address) as welcome:
            assert await ask(welcome, b"\0\0\0\x01y", 1) == b"y"
        for client in clients:
            client.close()
        listeners.close()

    asyncio.run(story())


@pytest.mark.parametrize("host", ["127.0.0.1", ""])
def test_one_address_may_have_fewer_connections_than_all_together(host: str) -> None:
    async def story() -> None:
        limits = LIMITS._replace(max_connections_per_ip_overrides={"127.0.0.1": 1})
        listeners = Listeners(asyncio.get_running_loop(), echo, limits)
        address = Endpoint("127.0.0.1", listeners.bind(PLAINTEXT._replace(host=host)).port)
        listeners.start()
        with connect(address) as first:
            await until(lambda: len(listeners.connections) == 1)
            with connect(address) as second:
                assert await ask(second, b"", 1) == b""
            assert await ask(first, b"\0\0\0\x01x", 1) == b"x"
        listeners.close()

    asyncio.run(story())


def test_the_limit_of_an_address_holds_however_it_is_written() -> None:
    overrides = {"max.connections.per.ip.overrides": "[0:0:0:0:0:0:0:1]:5,::ffff:10.0.0.7:6"}
    limits = load_settings({"listeners": "PLAINTEXT://127.0.0.1:0"} | overrides).limits
    assert [limits.of_address(each) for each in ("::1", "10.0.0.7")] == [5, 6]


def test_an_ipv4_client_of_an_ipv6_socket_is_known_by_its_ipv4_address() -> None:
    async def story() -> None:
        listeners = Listeners(asyncio.get_running_loop(), echo, LIMITS)
        port = listeners.bind(PLAINTEXT._replace(host="")).port
        listeners.start()
        with connect(Endpoint("127.0.0.1", port)) as client:
            await until(lambda: len(listeners.connections) == 1)
            (connection,) = listeners.connections
            assert connection.peer == client.getsockname()
        listeners.close()

    asyncio.run(story())


def test_an_address_in_use_is_refused_with_what_to_do() -> None:
    async def story() -> None:
        listeners = Listeners(asyncio.get_running_loop(), echo, LIMITS)
        address = listeners.bind(PLAINTEXT)
        listeners.start()
        with pytest.raises(OSError, match=r"cannot listen on PLAINTEXT://127.0.0.1:\d+: .*Use another address"):
            listeners.bind(PLAINTEXT._replace(port=address.port))
        listeners.close()

    asyncio.run(story())


def test_closing_ends_every_connection() -> None:
    async def story() -> None:
        listeners = Listeners(asyncio.get_running_loop(), echo, LIMITS)
        address = listeners.bind(PLAINTEXT)
        listeners.start()
        with connect(address) as client:
            await until(lambda: len(listeners.connections) == 1)
            listeners.close()
            assert await ask(client, b"", 1) == b""
            assert not listeners.connections
        with pytest.raises(ConnectionRefusedError):
            connect(address)

    asyncio.run(story())


def test_who_connects_too_often_is_held_and_sent_away() -> None:
    clock = MovableClock(0)
    asked: list[str] = []

    def throttle_ms(address: str) -> int:
        asked.append(address)
        return 400 if len(asked) > 1 else 0

    async def story() -> None:
        loop = asyncio.get_running_loop()
        listeners = Listeners(loop, echo, LIMITS, clock=clock, throttle_ms=throttle_ms)
        address = listeners.bind(PLAINTEXT)
        listeners.start()
        with connect(address) as welcome, connect(address) as held, connect(address) as other:
            await until(lambda: len(asked) == 3)
            assert asked == ["127.0.0.1"] * 3
            assert await ask(welcome, b"\0\0\0\x01x", 1) == b"x"
            held.setblocking(False)
            await loop.sock_sendall(held, b"\0\0\0\x01x")
            clock.move(399)
            with pytest.raises(BlockingIOError):
                held.recv(1)
            clock.move(1)
            for client in (held, other):
                with contextlib.suppress(ConnectionResetError):  # it had sent what nobody read
                    assert await ask(client, b"", 1) == b""
        listeners.close()

    asyncio.run(story())


def test_those_who_are_held_count_as_connections_and_end_with_the_others() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        limits = LIMITS._replace(max_connections=2)
        listeners = Listeners(loop, echo, limits, clock=MovableClock(0), throttle_ms=lambda _: 1000)
        address = listeners.bind(PLAINTEXT)
        listeners.start()
        with connect(address) as first, connect(address) as second, connect(address) as refused:
            assert await ask(refused, b"", 1) == b""  # at once
            listeners.close()
            assert [await ask(client, b"", 1) for client in (first, second)] == [b"", b""]

    asyncio.run(story())


def test_a_connection_on_which_nothing_happens_is_closed_and_the_others_stay() -> None:
    clock = MovableClock(0)
    waits: list[Later[Reply]] = []

    def answer_all_but_w(
        _: Connection, buffer: bytearray, __: memoryview, start: int, end: int
    ) -> Reply | Later[Reply]:
        if buffer[start:end] == b"w":
            waits.append(Later())
            return waits[-1]
        return [bytes(buffer[start:end])]

    async def story() -> None:
        limits = LIMITS._replace(connections_max_idle_ms=1000)
        listeners = Listeners(asyncio.get_running_loop(), answer_all_but_w, limits, idle_clock=clock)
        address = listeners.bind(PLAINTEXT)
        listeners.start()
        with connect(address) as silent, connect(address) as active, connect(address) as waiting:
            assert await ask(silent, b"\0\0\0\x01x", 1) == b"x"
            waiting.sendall(b"\0\0\0\x01w")
            await until(lambda: bool(waits))
            for _ in range(4):
                assert len(listeners.connections) == 3
                assert await ask(active, b"\0\0\0\x01x", 1) == b"x"
                clock.move(250)
            clock.move(100)
            assert await ask(silent, b"", 1) == b""
            assert len(listeners.connections) == 2
            clock.move(800)
            waits[0].resolve([b"w"])
            assert await ask(waiting, b"", 1) == b"w"
            clock.move(1100)
            assert not listeners.connections
        listeners.close()

    asyncio.run(story())


@pytest.mark.parametrize("by_ms", [3_600_000, -3_600_000])
def test_setting_the_time_of_day_makes_no_connection_idle_and_keeps_none(by_ms: int) -> None:
    clock = MovableClock(0)

    async def story() -> None:
        limits = LIMITS._replace(connections_max_idle_ms=1000)
        listeners = Listeners(asyncio.get_running_loop(), echo, limits, idle_clock=clock)
        address = listeners.bind(PLAINTEXT)
        listeners.start()
        with connect(address) as client:
            assert await ask(client, b"\0\0\0\x01x", 1) == b"x"
            clock.move(500)
            clock.set(by_ms)
            clock.move(500)
            assert len(listeners.connections) == 1
            clock.move(100)
            assert not listeners.connections
        listeners.close()

    asyncio.run(story())


def test_without_a_limit_silence_is_no_reason_to_close() -> None:
    clock = MovableClock(0)

    async def story() -> None:
        listeners = Listeners(asyncio.get_running_loop(), echo, LIMITS, idle_clock=clock)
        address = listeners.bind(PLAINTEXT)
        listeners.start()
        with connect(address):
            await until(lambda: len(listeners.connections) == 1)
            clock.move(10**9)
            assert len(listeners.connections) == 1
        listeners.close()

    asyncio.run(story())


def test_connections_that_come_too_fast_wait_at_the_door_and_are_then_let_in() -> None:
    clock = MovableClock(10**6)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        # Ten windows' worth may come at once, as Kafka reckons; each one more has to wait for a second.
        limits = LIMITS._replace(max_connections=100, max_connection_creation_rate=1)
        listeners = Listeners(loop, echo, limits, clock=clock)
        address = listeners.bind(PLAINTEXT)
        listeners.start()
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(connect(address)) for _ in range(12)]
            await until(lambda: len(listeners.connections) == 10)
            assert await ask(clients[9], b"\0\0\0\x01x", 1) == b"x"
            for number in (10, 11):
                clients[number].setblocking(False)
                await loop.sock_sendall(clients[number], b"\0\0\0\x01x")
                clock.move(999)
                with pytest.raises(BlockingIOError):
                    clients[number].recv(1)
                assert len(listeners.connections) == number
                clock.move(1)
                assert await ask(clients[number], b"", 1) == b"x"
        listeners.close()

    asyncio.run(story())


def test_who_waits_at_the_door_is_sent_away_when_accepting_stops() -> None:
    clock = MovableClock(10**6)

    async def story() -> None:
        limits = LIMITS._replace(max_connection_creation_rate=0)
        listeners = Listeners(asyncio.get_running_loop(), echo, limits, clock=clock)
        address = listeners.bind(PLAINTEXT)
        listeners.start()
        with connect(address) as client:
            await until(lambda: clock.next_ms is not None)
            listeners.stop_accepting()
            clock.move(1000)
            assert await ask(client, b"", 1) == b""
            assert not listeners.connections
        listeners.close()

    asyncio.run(story())


def test_the_sizes_of_a_sockets_buffers_can_be_given() -> None:
    async def story() -> None:
        limits = LIMITS._replace(socket_receive_buffer_bytes=20_000, socket_send_buffer_bytes=30_000)
        listeners = Listeners(asyncio.get_running_loop(), echo, limits)
        address = listeners.bind(PLAINTEXT)
        listeners.start()
        with connect(address):
            await until(lambda: len(listeners.connections) == 1)
            (connection,) = listeners.connections
            sizes = [
                connection._sock.getsockopt(socket.SOL_SOCKET, name) for name in (socket.SO_RCVBUF, socket.SO_SNDBUF)
            ]
            assert sizes == [40_000, 60_000]  # Linux doubles them, for its own needs
        listeners.close()

    asyncio.run(story())


def test_threads_that_read_from_the_disk_end_with_the_listeners(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"records")

    async def story() -> None:
        listeners = Listeners(asyncio.get_running_loop(), echo, LIMITS)
        listeners._disk_readers.load(RealFileSystem().open(str(path)), 0, 7, lambda: None)
        assert any(thread.name == "headrace-disk-reader" for thread in threading.enumerate())
        listeners.close()
        assert not any(thread.name == "headrace-disk-reader" for thread in threading.enumerate())

    asyncio.run(story())
