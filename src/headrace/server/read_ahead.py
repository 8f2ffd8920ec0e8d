"""Slices of log files that are not in memory are read by threads, before the loop sends them.

Theory. `sendfile` waits for the disk if it has to, and all clients would wait with it. Whoever reads what is older than
what `page_cache` keeps reads from the disk. So before a piece of a slice is sent, the kernel is asked whether it is in
memory. If not, a thread reads it, which brings it there, and the connection goes on afterwards.

A reader of old records wants those behind them next. So a window behind what he had to wait for is read ahead, and the
next one when he comes near to its end: then he seldom waits, and neither does the loop when it looks for the end of
his next slice. Windows grow as long as he goes on, since who wants a single record should not cost megabytes.

Threads only read, and touch no state of the broker. What they have read is in the page cache and nowhere else.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

from headrace.log.fs import File
from headrace.log.slices import LogSlice

MAX_THREADS: Final = 4  # so many readers of old records wait for the disk side by side
PIECE_BYTES: Final = 1 << 20  # of a slice: what consumers take of a partition by default
FIRST_WINDOW_BYTES: Final = 1 << 20
LAST_WINDOW_BYTES: Final = 4 << 20
MARGIN_BYTES: Final = 64 << 10  # behind each: whoever looks for the end of a slice looks at the batch behind it


class _Load(NamedTuple):
    file: File  # open as long as this is
    start: int
    end: int
    then: Callable[[], None]


class DiskReaders:
    """The threads, for all connections. They begin when they are needed: few brokers in tests read from a disk."""

    __slots__ = ("_is_closed", "_loads", "_loop", "_threads", "_under_way")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._loads: SimpleQueue[_Load | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._under_way = 0  # loads whose end the loop has not heard of
        self._is_closed = False

    def load(self, file: File, start: int, end: int, then: Callable[[], None]) -> None:
        """Read this part of the file into memory, and call `then` on the loop, whatever came of it."""
        if self._is_closed:
            return
        self._under_way += 1
        if len(self._threads) < min(self._under_way, MAX_THREADS):
            thread = threading.Thread(target=self._work, name="headrace-disk-reader", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._loads.put(_Load(file, start, end, then))

    def close(self) -> None:
        """Wait for what is being read just now; the rest is not read. From the loop's thread."""
        self._is_closed = True
        with contextlib.suppress(Empty):
            while True:
                self._loads.get_nowait()
        for _ in self._threads:
            self._loads.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _work(self) -> None:
        while (load := self._loads.get()) is not None:
            with contextlib.suppress(OSError):  # who sends it will hear of it
                load.file.load(load.start, load.end)
            self._loop.call_soon_threadsafe(self._ended, load.then)
            del load  # and with it the file: the next one may be long in coming

    def _ended(self, then: Callable[[], None]) -> None:
        self._under_way -= 1
        then()


class ReadAhead:
    """One connection's: how far the file that it reads was read ahead."""

    __slots__ = ("_loading_from", "_path", "_readers", "_then", "_until", "_window_bytes")

    def __init__(self, readers: DiskReaders) -> None:
        self._readers = readers
        self._path = ""  # of the file; the file itself must be free to go
        self._until = 0  # what is before it, and near, was read, or is being read
        self._loading_from: int | None = None  # what is behind it is being read
        self._then: Callable[[], None] | None = None  # who waits for that
        self._window_bytes = FIRST_WINDOW_BYTES

    def is_ready(self, records: LogSlice, then: Callable[[], None]) -> bool:
        """Can the next piece of them be sent without waiting for the disk? If not, `then` is called when it can."""
        file, start = records.file, records.position
        assert file is not None, "nothing to send"
        end = records.ready_until = start + min(records.size_bytes, PIECE_BYTES)
        goes_on = file.path == self._path and 0 <= self._until - start <= 2 * LAST_WINDOW_BYTES
        if goes_on and self._loading_from is not None and self._loading_from < end:
            self._then = then
            return False
        if not file.is_cached((start + end) >> 1):  # not at an end, where somebody may have looked at a header
            self._path = file.path
            self._window_bytes = self._next_window_bytes() if goes_on else FIRST_WINDOW_BYTES
            self._load(file, start, end)
            self._then = then
            return False
        if goes_on and self._until < end + self._window_bytes:
            self._window_bytes = self._next_window_bytes()
            self._load(file, self._until, self._until + self._window_bytes)
        return True

    def _next_window_bytes(self) -> int:
        return min(2 * self._window_bytes, LAST_WINDOW_BYTES)

    def _load(self, file: File, start: int, end: int) -> None:
        self._loading_from, self._until = start, end
        self._readers.load(file, start, end + MARGIN_BYTES, partial(self._loaded, file, end))

    def _loaded(self, file: File, end: int) -> None:
        if (self._path, self._until) != (file.path, end):
            return  # the reader has gone elsewhere
        self._loading_from = None
        then, self._then = self._then, None
        if then is not None:
            self._load(file, end, end + self._window_bytes)  # he will want that next
            then()
