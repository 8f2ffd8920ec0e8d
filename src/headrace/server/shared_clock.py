"""The clock that a test moves, for the brokers in its process: `headrace.testing.MovableClock`.

Each broker has a `MovableClock` of its own on the thread of its loop, and this one moves them together. Time passes in
strides, from one call that is due to the next. A stride ends when all that it led to is done, also in the worker
threads: syncs, deletions, compaction. So whoever moves the clock finds everything as it would be at that time.

A week has a million calls, most of them routine of every second. A long way is therefore gone in at most about
`STRIDES` strides, and what repeats more often happens once in each of them. Whatever happens but once happens at its
own time.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

from headrace.server.clock import MovableClock
from headrace.server.later import Later

STRIDES: Final = 250
SETTLE_SECONDS: Final = 60.0  # for the work of one stride: a compaction, at worst

Idle = Callable[[], Later[None]]  # on the loop: resolved when nothing is under way that the broker has begun


class SharedClock:
    """Stands still until `advance` is called, from any thread but those of its brokers."""

    def __init__(self, now_ms: int | None = None) -> None:
        """It starts at `now_ms`, milliseconds since 1970, or at the present: clients stamp records by their own."""
        self._now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        self._lock = threading.Lock()
        self._brokers: dict[MovableClock, _Broker] = {}

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._now_ms

    def advance(self, seconds: float) -> None:
        """Let time pass. All that became due has happened when this returns."""
        if seconds < 0:
            raise ValueError(f"advance({seconds}): time does not go back")
        with self._lock:
            end_ms = self._now_ms + round(seconds * 1000)
            stride_ms = max(1, (end_ms - self._now_ms) // STRIDES)
            due_ms = self._leap(self._now_ms)
            while due_ms is not None and due_ms <= end_ms:
                due_ms = self._leap(min(end_ms, max(int(due_ms), self._now_ms + stride_ms)))
            self._leap(end_ms)

    def _leap(self, to_ms: int) -> float | None:
        """All brokers go there. When the next call of one of them is due."""
        self._now_ms = to_ms
        due = [broker.leap(to_ms) for broker in self._brokers.values()]
        return min((each for each in due if each is not None), default=None)

    def join(self, loop: asyncio.AbstractEventLoop, idle: Idle) -> MovableClock:
        """The clock of one broker, from before its start."""
        with self._lock:
            clock = MovableClock(self._now_ms)
            self._brokers[clock] = _Broker(loop, clock, idle)
            return clock

    def leave(self, clock: MovableClock) -> None:
        """That broker has stopped."""
        with self._lock:
            del self._brokers[clock]

    def __repr__(self) -> str:
        return f"<MovableClock at {self._now_ms} ms>"


class _Broker:
    def __init__(self, loop: asyncio.AbstractEventLoop, clock: MovableClock, idle: Idle) -> None:
        self._loop = loop
        self._clock = clock
        self._idle = idle

    def leap(self, to_ms: int) -> float | None:
        """Go there, and wait for what that leads to. When the next call is due."""
        return asyncio.run_coroutine_threadsafe(self._leap_and_settle(to_ms), self._loop).result(SETTLE_SECONDS)

    async def _leap_and_settle(self, to_ms: int) -> float | None:
        self._clock.leap(to_ms)
        settled: asyncio.Future[None] = self._loop.create_future()
        self._idle().then(settled.set_result)
        await settled
        return self._clock.next_ms
