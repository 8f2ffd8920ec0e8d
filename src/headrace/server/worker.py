"""The one thread that may wait for the disk: syncs, removals, compaction.

Theory. The loop hands out chores, which are data (`log.chores`); the thread runs them in order, and the loop hears of
each one's end. No broker state is touched in the thread. A long chore calls `pause` often: there, others that wait get
their turn, so that an acknowledgement that waits for a sync does not wait for a compaction.

`submit` never refuses, since what it is given must happen; what can grow without end asks `has_room` before. Closing
runs what is queued, ends a long chore at its next pause, and tells the loop about all of it before it returns.
Abandoning is for crashes that are made: what is queued never happens.
"""

import asyncio
import contextlib
import threading
import time
from collections import deque
from queue import Empty, SimpleQueue
from typing import Final

from headrace.log.chores import Chore
from headrace.server.later import Later

ROOM: Final = 100  # chores that may wait before background work holds back: some tens of milliseconds of syncs


class ClosingError(Exception):
    """Raised by `pause` in the thread: the broker stops, and a long chore must not hold it up."""


class Worker:
    __slots__ = ("_idle", "_is_closing", "_is_told", "_loop", "_outcomes", "_queue", "_thread", "_under_way")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: SimpleQueue[Chore | None] = SimpleQueue()
        self._outcomes: deque[tuple[Chore, BaseException | None]] = deque()
        self._is_told = False  # the loop will call `_deliver`
        self._is_closing = False
        self._under_way = 0  # chores whose end the loop has not heard of
        self._idle: list[Later[None]] = []
        self._thread = threading.Thread(target=self._work, name="headrace-worker", daemon=True)
        self._thread.start()

    @property
    def has_room(self) -> bool:
        return self._queue.qsize() < ROOM

    @property
    def is_closing(self) -> bool:
        return self._is_closing

    def submit(self, chore: Chore) -> None:
        """Run it in the thread; afterwards `done` or `failed` is called on the loop, in the order of their ends."""
        assert not self._is_closing, "a chore for a worker that is closed"
        self._under_way += 1
        self._queue.put(chore)

    def idle(self) -> Later[None]:
        """Resolved when all that was submitted has ended, and all that this led to; or never will, after closing."""
        later: Later[None] = Later()
        if self._under_way and not self._is_closing:
            self._idle.append(later)
        else:
            later.resolve(None)
        return later

    def close(self) -> None:
        """Run what is queued, and wait for it. From the loop's thread."""
        if not self._is_closing:
            self._is_closing = True
            self._queue.put(None)
        self._thread.join()
        self._deliver()
        self._tell_idle()  # of a chore that was ended by this nobody will hear

    def abandon(self) -> None:
        """End with the chore that runs now; nobody hears of it. From the loop's thread."""
        self._is_closing = True
        with contextlib.suppress(Empty):
            while True:
                self._queue.get_nowait()
        self._queue.put(None)
        self._thread.join()
        self._outcomes.clear()
        self._tell_idle()

    # In the thread

    def _work(self) -> None:
        while (chore := self._queue.get()) is not None:
            self._run(chore)

    def _run(self, chore: Chore) -> None:
        error: BaseException | None = None
        try:
            chore.run()
        except ClosingError:
            return
        except BaseException as caught:  # whatever it is, the loop must hear of it
            error = caught
        self._outcomes.append((chore, error))
        if not self._is_told:
            self._is_told = True
            self._loop.call_soon_threadsafe(self._deliver)

    def pause(self, seconds: float) -> None:
        """For a long chore: let `seconds` pass, and meanwhile run what has come. Raises ClosingError."""
        end = time.monotonic() + seconds
        while True:
            if self._is_closing:
                raise ClosingError
            left = end - time.monotonic()
            try:
                chore = self._queue.get(timeout=left) if left > 0 else self._queue.get_nowait()
            except Empty:
                if left <= 0:
                    time.sleep(0)  # the loop's thread may want the interpreter
                    return
                continue
            if chore is None:
                self._queue.put(None)
                raise ClosingError
            self._run(chore)

    # On the loop

    def _deliver(self) -> None:
        self._is_told = False
        while self._outcomes:
            chore, error = self._outcomes.popleft()
            self._under_way -= 1
            if error is None:
                chore.done()
            elif isinstance(error, OSError):
                chore.failed(error)
            else:
                raise error  # a bug, and no outcome of the disk: for the loop's exception handler
        if not self._under_way:
            self._tell_idle()

    def _tell_idle(self) -> None:
        idle, self._idle = self._idle, []
        for later in idle:
            later.resolve(None)
