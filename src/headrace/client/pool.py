"""The connections of one client: one per broker and purpose, made when needed, made again after a pause when lost.

A purpose keeps requests apart that would wait for one another: a broker answers in order, so a heartbeat behind a long
fetch would come too late. Kafka's client, too, talks to a coordinator over a connection of its own.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, TypeAlias

from headrace.client.backoff import Backoff, reconnect_backoff
from headrace.client.config import Settings
from headrace.client.connecting import open_connection
from headrace.client.connection import Connection
from headrace.client.errors import ClosedError, KafkaError
from headrace.client.metadata import Node
from headrace.protocol.frame import ReceiveBuffer

NEVER: Final = -1  # of connections.max.idle.ms


# Host, port and what for: a bootstrap address and the broker that lives there are one place.
_Place: TypeAlias = tuple[str, int, str]


class _State:
    """What is known of one place."""

    __slots__ = ("connecting", "connection", "failures", "not_before")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.connecting: asyncio.Task[Connection] | None = None
        self.failures = 0  # in a row
        self.not_before = 0.0  # on the loop's clock: the end of the pause after a failure


class ConnectionPool:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._backoff: Backoff = reconnect_backoff(settings)
        self._setup = Backoff(
            settings.number("socket.connection.setup.timeout.ms"),
            settings.number("socket.connection.setup.timeout.max.ms"),
        )
        self._receive_buffer = ReceiveBuffer()
        self._states: dict[_Place, _State] = {}
        self._is_closed = False

    def ready(self, node: Node, purpose: str = "") -> Connection | None:
        """The open connection that may be sent to now: not lost, not throttled by the broker."""
        state = self._states.get((node.host, node.port, purpose))
        connection = None if state is None else state.connection
        if connection is None or connection.throttled_until > self._loop.time():
            return None
        return connection

    def pause_left(self, node: Node, purpose: str = "") -> float:
        """Seconds until the broker may be tried again; 0 if it may be now."""
        state = self._states.get((node.host, node.port, purpose))
        return 0.0 if state is None else max(0.0, state.not_before - self._loop.time())

    async def get(self, node: Node, purpose: str = "") -> Connection:
        """The connection, made if there is none, after the pause that an earlier failure asks for.

        One attempt: raises what `open_connection` raises. Callers at the same time share it.
        """
        state = self._states.setdefault((node.host, node.port, purpose), _State())
        if state.connection is not None:
            return state.connection
        if self._is_closed:
            raise ClosedError
        if state.connecting is None:
            state.connecting = self._loop.create_task(self._connect(node, state))
            state.connecting.add_done_callback(_look_at)  # the caller may have been cancelled meanwhile
        return await asyncio.shield(state.connecting)

    async def reach(self, node: Node, purpose: str = "") -> Connection:
        """The connection, ready to be sent to. Raises like `get`."""
        connection = await self.get(node, purpose)
        if (pause := connection.throttled_until - self._loop.time()) > 0:
            await asyncio.sleep(pause)  # KIP-219: the broker would let the request wait anyway
        return connection

    async def _connect(self, node: Node, state: _State) -> Connection:
        settings = self._settings
        try:
            if (pause := state.not_before - self._loop.time()) > 0:
                await asyncio.sleep(pause)
            connection = await open_connection(
                node.address,
                client_id=settings.text("client.id"),
                setup_timeout=self._setup.seconds(state.failures + 1),
                request_timeout=settings.seconds("request.timeout.ms"),
                send_buffer_bytes=settings.number("send.buffer.bytes"),
                receive_buffer_bytes=settings.number("receive.buffer.bytes"),
                receive_buffer=self._receive_buffer,
                on_close=lambda connection: self._lost(state, connection),
            )
        except KafkaError:
            self._failed(state)
            raise
        finally:
            state.connecting = None
        state.connection = connection
        state.failures = 0
        return connection

    def _failed(self, state: _State) -> None:
        state.failures += 1
        state.not_before = self._loop.time() + self._backoff.seconds(state.failures)

    def _lost(self, state: _State, connection: Connection) -> None:
        if state.connection is connection:
            state.connection = None
            self._failed(state)

    def open_connections(self) -> Iterable[Connection]:
        return [state.connection for state in self._states.values() if state.connection is not None]

    def close_idle(self) -> None:
        """Close what was not used for connections.max.idle.ms, and forget places that are neither used nor paused."""
        limit_ms = self._settings.number("connections.max.idle.ms")
        now = self._loop.time()
        for place, state in list(self._states.items()):
            connection = state.connection
            is_idle = connection is not None and not connection.in_flight and limit_ms != NEVER
            if connection is not None and is_idle and now - connection.last_used > limit_ms / 1000:
                state.connection = None  # not a failure: no pause follows
                connection.close()
            if state.connection is None and state.connecting is None and state.not_before < now:
                del self._states[place]

    async def close(self) -> None:
        self._is_closed = True
        attempts = [state.connecting for state in self._states.values() if state.connecting is not None]
        for attempt in attempts:
            attempt.cancel()
        for connection in self.open_connections():
            connection.close(ClosedError())
        await asyncio.gather(*attempts, return_exceptions=True)
        self._states.clear()


def _look_at(attempt: "asyncio.Task[Connection]") -> None:
    if not attempt.cancelled():
        attempt.exception()
