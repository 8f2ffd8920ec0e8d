"""Listening sockets: bind, accept, and know who is connected.

Connections beyond the limits are closed at once, before anything is read: clients must not use up the descriptors that
the log needs. Those that come too fast from one address are held for a moment and then closed, so that a client that
tries again at once is slowed down. If all together come too fast (`max.connection.creation.rate`), the one that is too
much is held, and the others wait at the door of that listener. Accepting stops at nothing else: an error of one accept
is an error of one client.
"""

import asyncio
import contextlib
import errno
import logging
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from headrace.cluster.listeners import Endpoint, Listener
from headrace.protocol.frame import ReceiveBuffer
from headrace.server.clock import Clock, LoopClock
from headrace.server.connection import Connection, Serve
from headrace.server.idle_connections import IdleConnections
from headrace.server.quotas_entities import plain_address
from headrace.server.quotas_rates import DEFAULT_WINDOWS, Rate, Windows
from headrace.server.read_ahead import DiskReaders, ReadAhead
from headrace.server.seldom import Seldom
from headrace.server.sending import Outbox

_ACCEPTS_PER_TURN: Final = 64  # so that a storm of connections leaves room for requests
_SPARES: Final = 8  # buffers of 1 MB: as many large requests may be on their way without a new one for each
_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_SECONDS: Final = 0.1  # without descriptors: time for connections to end
UNLIMITED: Final = 2**31 - 1
WIDE_BACKLOG: Final = 1024  # so that a thousand clients that come at once are not told to try again
SYSTEM_DEFAULT: Final = -1  # of the size of a socket's buffer
# What is sent should still be in the CPU's caches when a client on the same machine reads it, and the system lets a
# buffer grow beyond them; on a network it is more than Kafka has by default.
SEND_BUFFER_BYTES: Final = 256 * 1024

log = logging.getLogger(__name__)


class ConnectionLimits(NamedTuple):
    """Kafka's configs by their names; what one client can occupy."""

    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    socket_request_max_bytes: int
    max_in_flight: int  # replies that one connection may wait for at a time
    max_connection_creation_rate: int = UNLIMITED
    connections_max_idle_ms: int = -1
    socket_listen_backlog_size: int = WIDE_BACKLOG
    socket_receive_buffer_bytes: int = SYSTEM_DEFAULT
    socket_send_buffer_bytes: int = SEND_BUFFER_BYTES

    def of_address(self, address: str) -> int:
        return self.max_connections_per_ip_overrides.get(address, self.max_connections_per_ip)


class Listeners:
    """All listening sockets of a broker, and the connections that came through them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        serve: Serve,
        limits: ConnectionLimits,
        *,
        clock: Clock | None = None,
        throttle_ms: Callable[[str], int] = lambda _: 0,
        windows: Windows = DEFAULT_WINDOWS,
        idle_clock: Clock | None = None,
    ) -> None:
        """`throttle_ms(address)` says how long somebody who connects must wait before he is sent away; 0: he may.

        `idle_clock` is the one by which clients live, whatever a test does to the broker's own.
        """
        self._loop = loop
        self._serve = serve
        self.limits = limits  # those on connections may change, and hold from then on
        self._clock = clock or LoopClock(loop)
        self._throttle_ms = throttle_ms
        self._held: set[socket.socket] = set()  # to be closed soon
        self._receive_buffer = ReceiveBuffer(spares=_SPARES)
        self._outbox = Outbox(loop)
        self._disk_readers = DiskReaders(loop)
        self._names: dict[socket.socket, str] = {}  # of the listeners, by their sockets
        self._addresses: Counter[str] = Counter()
        self.connections: set[Connection] = set()
        self._windows = windows
        self._creations = Rate(windows)
        self._refusals = Seldom(log)  # clients cause them as often as they like
        self._shortages = Seldom(log)
        self._idle = IdleConnections(self.connections, idle_clock or LoopClock(loop), limits.connections_max_idle_ms)

    def bind(self, listener: Listener) -> Endpoint:
        """Bind a listener without accepting yet. Its address, with the port that the system chose for port 0."""
        sock = bound_socket(listener)
        _set_buffer(sock, socket.SO_RCVBUF, self.limits.socket_receive_buffer_bytes)  # those who connect inherit it
        self._names[sock] = listener.name
        return Endpoint(*sock.getsockname()[:2])

    def start(self) -> None:
        """Accept connections from now on."""
        for sock in self._names:
            sock.listen(self.limits.socket_listen_backlog_size)
            self._loop.add_reader(sock.fileno(), self._accept, sock)
        self._idle.start()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    raise
                self._shortages.error(f"cannot accept connections: {error}; trying again and again")
                self._loop.remove_reader(listening.fileno())
                self._loop.call_later(_PAUSE_SECONDS, self._resume, listening)
                return
            host = plain_address(address[0])
            throttle_ms = self._creation_throttle_ms()
            if throttle_ms:
                self._hold(listening, sock, host, throttle_ms)
                return
            self._welcome(sock, host, self._names[listening])

    def _creation_throttle_ms(self) -> int:
        """Somebody has connected, and all together come too fast: how long to wait."""
        per_second = self.limits.max_connection_creation_rate
        if per_second >= UNLIMITED:
            return 0
        now_ms = self._clock.now_ms()
        self._creations.record(1, now_ms=now_ms)
        longest_ms = self._windows.size_ms
        return min(self._creations.throttle_ms(per_second, now_ms=now_ms), longest_ms) if per_second else longest_ms

    def _hold(self, listening: socket.socket, sock: socket.socket, address: str, throttle_ms: int) -> None:
        """Let him in when the time is over; until then nobody else comes in through this listener."""
        self._loop.remove_reader(listening.fileno())
        self._held.add(sock)

        def let_in() -> None:
            if listening in self._names:
                self._held.discard(sock)
                self._welcome(sock, address, self._names[listening])
                self._resume(listening)
            else:  # accepting has stopped meanwhile
                self._send_away(sock)

        self._clock.call_later(throttle_ms, let_in)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._names:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _welcome(self, sock: socket.socket, address: str, listener: str) -> None:
        is_crowded = len(self.connections) + len(self._held) >= self.limits.max_connections
        if is_crowded or self._addresses[address] >= self.limits.of_address(address):
            opened, from_there = self._counts(address)
            self._refusals.error(f"connection from {address} refused: {opened} are open, {from_there} from there")
            sock.close()
            return
        throttle_ms = self._throttle_ms(address)
        if throttle_ms:
            self._held.add(sock)
            self._clock.call_later(throttle_ms, lambda: self._send_away(sock))
            return
        sock.setblocking(False)
        with contextlib.suppress(OSError):  # it may be closed already; the first read will tell
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _set_buffer(sock, socket.SO_SNDBUF, self.limits.socket_send_buffer_bytes)
        try:
            connection = Connection(
                self._loop,
                sock,
                self._receive_buffer,
                self._outbox,
                self._serve,
                read_ahead=ReadAhead(self._disk_readers),
                listener=listener,
                max_frame_bytes=self.limits.socket_request_max_bytes,
                max_in_flight=self.limits.max_in_flight,
                on_close=self._forget,
            )
        except OSError:  # reset before it was welcome
            sock.close()
            return
        connection.peer = (address, connection.peer[1])
        self.connections.add(connection)
        self._addresses[address] += 1

    def _send_away(self, sock: socket.socket) -> None:
        self._held.discard(sock)
        sock.close()

    def _counts(self, address: str) -> tuple[int, int]:
        return len(self.connections), self._addresses[address]

    def _forget(self, connection: Connection) -> None:
        self.connections.discard(connection)
        address = connection.peer[0]
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]
        log.debug("connection from %s closed: %s", address, connection.close_reason)

    def stop_accepting(self) -> None:
        for sock in self._names:
            self._loop.remove_reader(sock.fileno())
            with contextlib.suppress(OSError):  # it may not have listened yet
                sock.shutdown(socket.SHUT_RDWR)  # a forked process would go on listening
            sock.close()
        self._names.clear()

    def close(self) -> None:
        self.stop_accepting()
        self._idle.stop()
        for connection in list(self.connections):
            connection.close("the broker stops")
        self._disk_readers.close()
        for sock in list(self._held):
            self._send_away(sock)


def _set_buffer(sock: socket.socket, option: int, size_bytes: int) -> None:
    if size_bytes != SYSTEM_DEFAULT:
        sock.setsockopt(socket.SOL_SOCKET, option, size_bytes)


def bound_socket(listener: Listener) -> socket.socket:
    """Raises OSError that says what to do."""
    family = socket.AF_INET6 if ":" in listener.host or not listener.host else socket.AF_INET
    if family == socket.AF_INET6 and not socket.has_dualstack_ipv6() and not listener.host:
        family = socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not listener.host else 1)
        sock.setblocking(False)
        sock.bind((listener.host, listener.port))
    except OSError as error:
        sock.close()
        raise OSError(
            error.errno, f"cannot listen on {listener}: {error.strerror}. Use another address with --listen."
        ) from error
    return sock
