"""Where records wait to be sent: a queue of batches for each partition, within a limit of memory.

`append` is called by users' threads for every record, so it is short: one lock, one row in the open batch. It tells
whether the sender has something to look at, which is when a batch begins (its time to linger runs) or is full.
Everything else here is called by the sender.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from headrace.client.delivery import Delivery
from headrace.client.pending_batch import DeliveryCallback, PendingBatch
from headrace.protocol.batch import HEADER_SIZE
from headrace.protocol.record_encoding import Headers

Place = tuple[str, int]
NO_ROOM: Final = None
_new: Final = tuple.__new__  # half the time of Delivery(...)


class Accumulator:
    def __init__(
        self,
        *,
        batch_bytes: int,
        memory_bytes: int,
        pack: Callable[[PendingBatch], object],
        wake: Callable[[], object],
    ) -> None:
        """`wake` is called, from any thread, when the sender has something to look at.

        `pack` is called with each batch that is full, by the thread that filled it: its records are in the processor's
        cache there, and the client's thread has enough to do.
        """
        self.batch_bytes = min(batch_bytes, memory_bytes)
        self._memory_bytes = memory_bytes
        self._pack = pack
        self._wake = wake
        self._lock = threading.Lock()
        self._queues: dict[Place, deque[PendingBatch]] = {}
        self._open: dict[Place, PendingBatch] = {}
        self._begun = 0
        self._used_bytes = 0  # by whole batches: those that are open count as full
        self._unsettled = 0  # batches, wherever they are
        self._waiting_for_room: list[Callable[[], object]] = []

    # For users' threads

    def append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None,
        size: int,
        callback: DeliveryCallback | None = None,
    ) -> Delivery | None:
        """Take the record, which needs `size` bytes at most. None: there is no room for it now."""
        with self._lock:
            batch = earlier = self._open.get((topic, partition))
            if batch is None or batch.size_bytes + size > self.batch_bytes:
                batch = self._begin((topic, partition), size)
                if batch is None:
                    return NO_ROOM
            rows = batch.rows
            delivery = _new(Delivery, (batch, len(rows)))
            if callback is not None:
                batch.add_callback(len(rows), callback)
            rows.append((key, value, timestamp, headers))
            batch.size_bytes += size
        if batch is not earlier:
            if earlier is not None:
                self._pack(earlier)
            self._wake()
        return delivery

    def _begin(self, place: Place, size: int) -> PendingBatch | None:
        """A batch that has room for a record of `size` bytes; None if all of them together would take too much."""
        reserved_bytes = max(self.batch_bytes, HEADER_SIZE + size)
        # What is larger than all memory goes alone.
        if self._used_bytes and self._used_bytes + reserved_bytes > self._memory_bytes:
            return None
        earlier = self._open.get(place)
        if earlier is not None:
            earlier.close()
        self._begun += 1
        batch = self._open[place] = PendingBatch(*place, time.monotonic(), (self._begun,))
        batch.size_bytes = HEADER_SIZE
        queue = self._queues.get(place)
        if queue is None:
            queue = self._queues[place] = deque()
        queue.append(batch)
        self._reserve(batch, reserved_bytes)
        return batch

    def _reserve(self, batch: PendingBatch, size_bytes: int) -> None:
        self._unsettled += 1
        self._used_bytes += size_bytes
        batch.reserved_bytes = size_bytes

    def put(self, batch: PendingBatch) -> bool:
        """Take a batch that is complete. False: there is no room for it now."""
        with self._lock:
            if self._used_bytes and self._used_bytes + batch.size_bytes > self._memory_bytes:
                return False
            earlier = self._open.pop(batch.place, None)
            if earlier is not None:
                earlier.close()
            self._begun += 1
            batch.order = (self._begun,)
            self._queues.setdefault(batch.place, deque()).append(batch)
            self._reserve(batch, batch.size_bytes)
        self._wake()
        return True

    def when_room(self, callback: Callable[[], object]) -> None:
        """Call it once, on the client's thread, when there is room again."""
        with self._lock:
            self._waiting_for_room.append(callback)

    def queue_length(self, topic: str, partition: int) -> int:
        """Batches that wait for this partition."""
        queue = self._queues.get((topic, partition))
        return 0 if queue is None else len(queue)

    # For the sender

    @property
    def has_waiting(self) -> bool:
        """Is anybody blocked because there is no room?"""
        return bool(self._waiting_for_room)

    @property
    def unsettled(self) -> int:
        """Batches whose fate is not known yet."""
        return self._unsettled

    def places(self) -> list[Place]:
        """Where something waits to be sent."""
        with self._lock:
            return [place for place, queue in self._queues.items() if queue]

    def first(self, place: Place) -> PendingBatch | None:
        """The batch that is sent next to this partition, and stays there."""
        queue = self._queues.get(place)
        return queue[0] if queue else None

    def is_full(self, place: Place) -> bool:
        """Does the first batch take no more?"""
        queue = self._queues[place]
        return len(queue) > 1 or queue[0].is_closed or queue[0].size_bytes >= self.batch_bytes

    def take(self, place: Place) -> PendingBatch:
        """The first batch, closed."""
        with self._lock:
            batch = self._queues[place].popleft()
            if self._open.get(place) is batch:
                del self._open[place]
                batch.close()
        return batch

    def put_back(self, batch: PendingBatch) -> None:
        """To be sent again, in the order in which batches were begun."""
        with self._lock:
            self._insert(batch)

    def _insert(self, batch: PendingBatch) -> None:
        queue = self._queues[batch.place]
        queue.insert(sum(1 for waiting in queue if waiting.order < batch.order), batch)

    def put_parts(self, parts: Iterable[PendingBatch]) -> None:
        """Of a batch that was taken."""
        with self._lock:
            for part in parts:
                self._insert(part)
                self._reserve(part, part.size_bytes)

    def settled(self, batch: PendingBatch) -> None:
        """Its memory is free again."""
        with self._lock:
            self._unsettled -= 1
            self._used_bytes -= batch.reserved_bytes
            waiting, self._waiting_for_room = self._waiting_for_room, []
        for callback in waiting:
            callback()

    def take_all(self) -> Iterator[PendingBatch]:
        """Everything that was not sent, for an end without sending."""
        for place in self.places():
            while self.first(place) is not None:
                yield self.take(place)
