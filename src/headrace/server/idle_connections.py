"""Connections on which nothing happens are closed after a while, as `connections.max.idle.ms` says.

A connection costs a descriptor, and a client that was cut off without a word would keep its own for ever. Nothing
happens where neither side has moved a byte: a client that does not read its answers is idle, too. One that waits for
an answer, or is silenced by a quota, is not.

Requests must not pay for this with a look at the clock. So a connection only notes that something has happened, and
from time to time all are looked at: one is closed at its time or a little later, never before.
"""

from collections.abc import Collection
from typing import Final

from headrace.server.clock import Clock, Timer
from headrace.server.connection import ACTIVE, Connection

_LOOKS: Final = 20  # within the time that is allowed: a connection may outlive it by a tenth


class IdleConnections:
    """Looks at `connections`, which others fill. A negative limit is none."""

    def __init__(self, connections: Collection[Connection], clock: Clock, max_idle_ms: int) -> None:
        self._connections = connections
        self._clock = clock
        self._max_idle_ms = max_idle_ms
        self._timer: Timer | None = None

    def start(self) -> None:
        if self._max_idle_ms >= 0:
            self._timer = self._clock.call_later(max(1, self._max_idle_ms // _LOOKS), self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        now_ms = self._clock.steady_ms()  # setting the time of day closes no connection, and keeps none
        for connection in list(self._connections):
            if connection.silent_since_ms == ACTIVE or connection.is_waiting:
                connection.silent_since_ms = now_ms
            elif now_ms - connection.silent_since_ms >= self._max_idle_ms:
                connection.close(f"nothing has happened for {self._max_idle_ms} ms (connections.max.idle.ms)")
        self.start()
