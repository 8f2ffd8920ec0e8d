"""Batches that are in flight when their time is over.

One timer, for the earliest deadline of what was sent since it rang last. Most batches are answered long before, and
nothing is done for them then: who is still in flight is looked for only when the timer rings, so about once in
delivery.timeout.ms however many batches go.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

from headrace.client.pending_batch import PendingBatch

_NEVER: Final = 1e18


class InFlightDeadlines:
    """For the loop's thread."""

    def __init__(
        self,
        timeout: float,
        unsettled: Callable[[], Iterable[PendingBatch]],
        out_of_time: Callable[[PendingBatch], object],
    ) -> None:
        """`out_of_time` is called with each batch that is in flight `timeout` seconds after it was begun."""
        self._timeout = timeout
        self._unsettled = unsettled
        self._out_of_time = out_of_time
        self._loop = asyncio.get_running_loop()
        self._next_at = _NEVER
        self._timer: asyncio.TimerHandle | None = None

    def sent(self, batch: PendingBatch) -> None:
        """It is in flight from now on."""
        deadline = batch.created_at + self._timeout
        if deadline < self._next_at:
            self.close()
            self._next_at = deadline
            self._timer = self._loop.call_later(max(deadline - time.monotonic(), 0), self._ring)

    def _ring(self) -> None:
        self._next_at = _NEVER
        now = time.monotonic()
        for batch in self._unsettled():
            if not batch.is_in_flight:
                continue  # the sender looks after what waits
            if now - batch.created_at < self._timeout:
                self.sent(batch)
            else:
                self._out_of_time(batch)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
