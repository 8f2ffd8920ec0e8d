"""Large pieces of log files leave through a thread of their own, and the loop goes on meanwhile.

Theory. `sendfile` of a megabyte keeps the kernel busy for 100 us, and for milliseconds if the file has to be read from
the disk. The interpreter is free for so long, so a second core can do it. A connection lends its socket to the thread
together with a piece of a file, and gets it back with how much of that was sent.

The thread calls `sendfile` and nothing else. It touches no state of the broker: it has a socket, a file, and numbers.
The socket does not block, so a client that does not read gets one call, and its socket back.

As long as it is lent, the loop neither writes to a socket nor closes it: the descriptor could be another's in the next
moment. It may shut it down, which ends the call. What is lent is bounded by the connections, which lend one piece each.
"""

import asyncio
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, NamedTuple, TypeAlias

from headrace.log.fs import File
from headrace.log.slices import LogSlice

# Below this, waking the thread and being woken by it costs more than it saves.
BULK_FROM_BYTES: Final = 256 * 1024

# How much was sent, and what ended it before all was: BlockingIOError if the socket takes no more now.
TakeBack: TypeAlias = Callable[[int, OSError | None], None]


class _Piece(NamedTuple):
    sock: socket.socket
    file: File  # open as long as this is
    position: int
    size_bytes: int
    take_back: TakeBack


class BulkSender:
    """The thread begins with the first piece: most brokers in tests never have one."""

    __slots__ = ("_is_told", "_last", "_loop", "_outcomes", "_pieces", "_thread")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pieces: SimpleQueue[_Piece | None] = SimpleQueue()
        self._outcomes: deque[tuple[TakeBack, int, OSError | None]] = deque()
        self._is_told = False  # the loop will call `_deliver`
        self._thread: threading.Thread | None = None
        self._last = -1  # the descriptor of the socket that had something large to send last

    def is_worth_it(self, sock: socket.socket) -> bool:
        """Something large is to be sent: may the thread do it? Not if one client alone wants such things.

        Then the loop would wait for the thread, and both for being woken up by the other.
        """
        last, self._last = self._last, sock.fileno()
        return last not in (-1, self._last)

    def send(self, sock: socket.socket, records: LogSlice, max_bytes: int, take_back: TakeBack) -> None:
        """Send so much of the slice, if the socket takes it, and call `take_back` on the loop; never before this ends.

        Until then the socket is lent.
        """
        assert records.file is not None, "nothing to send"
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="headrace-bulk-sender", daemon=True)
            self._thread.start()
        self._pieces.put(_Piece(sock, records.file, records.position, min(records.size_bytes, max_bytes), take_back))

    def close(self) -> None:
        """Everything that is lent is given back when this returns. From the loop's thread."""
        if self._thread is not None:
            self._pieces.put(None)
            self._thread.join()
            self._thread = None
            self._deliver()

    # In the thread

    def _work(self) -> None:
        while (piece := self._pieces.get()) is not None:
            self._outcomes.append((piece.take_back, *_send(piece)))
            if not self._is_told:
                self._is_told = True
                self._loop.call_soon_threadsafe(self._deliver)

    # On the loop

    def _deliver(self) -> None:
        self._is_told = False
        while self._outcomes:
            take_back, sent, error = self._outcomes.popleft()
            take_back(sent, error)


def _send(piece: _Piece) -> tuple[int, OSError | None]:
    sent = 0
    try:
        to, file = piece.sock.fileno(), piece.file.fileno()
        while sent < piece.size_bytes:
            size = os.sendfile(to, file, piece.position + sent, piece.size_bytes - sent)
            if not size:
                raise OSError("the log file ends before the slice does")
            sent += size
    except OSError as error:
        return sent, error
    return sent, None
