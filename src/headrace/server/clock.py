"""Time as the broker sees it: what time it is, and a call when some of it has passed.

Two clocks exist. `LoopClock` is the machine's, through the event loop. `MovableClock` stands still until a test moves
it, and then everything that was due happens, in order, at once: time-outs, retention and sessions without sleeping.
"""

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None:
        """The call does not happen; nothing changes if it has happened already."""


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970, as records carry them."""

    def steady_ms(self) -> int:
        """Milliseconds that have passed, as calls count them: it makes no difference when the time of day is set."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer: ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        """When what is done now is done, answers sent included, and before any request is read that comes later."""


class LoopClock:
    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_ms / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)


class MovableClock:
    """Stands still. Used by one thread only: the one of the loop whose calls it makes."""

    __slots__ = ("_calls", "_now_ms", "_numbers", "_set_by_ms")

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._set_by_ms = 0
        self._calls: list[tuple[float, int, _Call]] = []
        self._numbers = count()  # calls that are due at the same time happen in the order in which they were asked for

    def now_ms(self) -> int:
        return self._now_ms + self._set_by_ms

    def steady_ms(self) -> int:
        return self._now_ms

    def set(self, by_ms: int) -> None:
        """Somebody sets the time of day, forward or back; no time passes."""
        self._set_by_ms += by_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        call = _Call(callback)
        heapq.heappush(self._calls, (self._now_ms + delay_ms, next(self._numbers), call))
        return call

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Now: nobody can tell the difference by a clock that stands, and a test finds all done that it has led to."""
        callback()

    def move(self, delay_ms: int) -> None:
        """Let time pass. What a call asks for happens, too, if it is due before the end."""
        end = self._now_ms + delay_ms
        while self._calls and self._calls[0][0] <= end:
            due, _, call = heapq.heappop(self._calls)
            self._now_ms = max(self._now_ms, int(due))
            call.run()
        self._now_ms = end

    @property
    def next_ms(self) -> float | None:
        """When the next call is due. It may be one that is cancelled."""
        return self._calls[0][0] if self._calls else None

    def leap(self, to_ms: int) -> None:
        """Like `move`, but what a call asks for waits for the next leap: what repeats happens once, however far."""
        due = []
        while self._calls and self._calls[0][0] <= to_ms:
            due.append(heapq.heappop(self._calls))
        for due_ms, _, call in due:
            self._now_ms = max(self._now_ms, int(due_ms))
            call.run()
        self._now_ms = to_ms


class _Call:
    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def run(self) -> None:
        if self._callback is not None:
            self._callback()
