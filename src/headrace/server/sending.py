"""What one system call sends of a row of parts, and when small answers are sent.

Parts are bytes, and slices of log files. Bytes that stand side by side become one piece first, since a system call
costs more than copying a few kilobytes.

Small answers wait in the `Outbox` until all connections were served that the loop found readable at once. A client that
sleeps is woken by the first of them, which costs more than sending it; for the others it is awake. Who is served alone
waits for nothing, and nobody waits for a large request of somebody else.
"""

import asyncio
import os
import socket
from collections import deque
from typing import Any, Final, Protocol

from headrace.log.slices import LogSlice

SENDFILE_FROM_BYTES: Final = 64 * 1024
# One reply may be large; this much of it goes out before others get their turn. There is room for what consumers take
# of a partition by default, which is 1 MB, and for the reply around it.
MAX_SEND_BYTES: Final = (1024 + 128) * 1024
_MORE: Final = getattr(socket, "MSG_MORE", 0)


MAX_WAITING: Final = 16  # connections with answers in the outbox: the first must not wait for hundreds of others


class Sender(Protocol):
    """A connection, as far as the outbox knows it."""

    def send_waiting(self) -> None:
        """Send what has waited in the outbox. There may be nothing left of it."""


class Outbox:
    """The small answers of one turn of the loop."""

    __slots__ = ("_loop", "_senders")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._senders: list[Sender] = []

    def add(self, sender: Sender) -> None:
        senders = self._senders
        if not senders:
            self._loop.call_soon(self.send)
        senders.append(sender)
        if len(senders) >= MAX_WAITING:
            self.send()

    def send(self) -> None:
        senders, self._senders = self._senders, []
        for sender in senders:
            sender.send_waiting()


def send_some(sock: socket.socket, unsent: deque[Any]) -> int:
    """One system call's worth of what is unsent, which leaves the row. How much the socket took. Raises OSError."""
    first = unsent[0]
    if type(first) is LogSlice:
        sent = os.sendfile(sock.fileno(), first.fileno(), first.position, first.ready_until - first.position)
        if not sent:
            raise OSError("the log file ends before the slice does")
        if not first.drop(sent):
            unsent.popleft()
    else:
        data = _gather(unsent)
        sent = sock.send(data, _MORE if len(unsent) > 1 else 0)
        if sent == len(data):
            unsent.popleft()
        else:
            unsent[0] = data[sent:]
    return sent


def _gather(unsent: deque[Any]) -> bytes | memoryview:
    """The bytes at the front as one piece, which stays at the front until it is sent."""
    if len(unsent) == 1 or type(unsent[1]) is LogSlice:
        first: bytes | memoryview = unsent[0] if type(unsent[0]) is bytes else memoryview(unsent[0])
    else:
        pieces = []
        size = 0
        while unsent and type(unsent[0]) is not LogSlice and size < MAX_SEND_BYTES:
            size += len(unsent[0])
            pieces.append(unsent.popleft())
        first = b"".join(pieces)
        unsent.appendleft(first)
    # What a partial send leaves is sliced again and again: without copying when it is large.
    return memoryview(first) if type(first) is bytes and len(first) > SENDFILE_FROM_BYTES else first
