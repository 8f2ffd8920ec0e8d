"""When a sender looks again by itself: one timer, which other threads may count upon.

A batch that begins has to be noticed when it has lingered. To tell the loop so takes two system calls and a change of
threads, for each batch of a producer that sends little at a time. So a timer that is set stays set, also when what it
was set for has gone meanwhile, and whoever begins a batch before it rings leaves it to the ring to find it.

That nothing is missed rests on the order: a batch is put into its queue, and then it is asked when the timer rings; the
timer is said to ring no more, and then the queues are looked at. One of the two sees the other.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

FOREVER: Final = 1e18


class LookTimer:
    """For the loop's thread, but for `rings_by`."""

    __slots__ = ("_at", "_look", "_loop", "_timer")

    def __init__(self, look: Callable[[], object]) -> None:
        self._look = look
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._at = FOREVER  # when it rings, on the monotonic clock

    def rings_by(self, at: float) -> bool:
        """Whether it rings until then. From any thread."""
        return self._at <= at

    def set(self, at: float) -> None:
        """Look at this time, or earlier."""
        if at < self._at:
            self.stop()
            self._at = at
            self._timer = self._loop.call_later(max(at - time.monotonic(), 0), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._at = FOREVER
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._at = FOREVER
