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
STEP_BYTES: Final = 16 * 1024  # of memory, by which a batch grows: many partitions may have an open one


class PartitionQueue:
    """Batches that wait for one partition, in order; the last one may take more records."""

    __slots__ = ("open", "place", "waiting")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.waiting: deque[PendingBatch] = deque()
        self.open: PendingBatch | None = None

    def close(self) -> None:
        """What comes next begins a new batch."""
        if self.open is not None:
            self.open.close()
            self.open = None


class Accumulator:
    def __init__(
        self,
        *,
        batch_bytes: int,
        memory_bytes: int,
        pack: Callable[[PendingBatch], object],
        wake: Callable[[], object],
        begun: Callable[[], object],
    ) -> None:
        """`wake` is called, from any thread, when the sender has something to look at.

        `begun`, from any thread, too, when a batch begins where none was open: that it has lingered must be noticed.

        `pack` is called with each batch that is full, by the thread that filled it: its records are in the processor's
        cache there, and the client's thread has enough to do.
        """
        self.batch_bytes = min(batch_bytes, memory_bytes)
        self._memory_bytes = memory_bytes
        self._pack = pack
        self._wake = wake
        self._begun = begun
        self._lock = threading.Lock()
        self._queues: dict[Place, PartitionQueue] = {}
        self._count = 0  # of batches so far
        self._used_bytes = 0  # by whole batches, and by steps of those that are open
        self._unsettled: set[PendingBatch] = set()  # wherever they are
        self._waiting_for_room: list[Callable[[], object]] = []

    # For users' threads

    def queue(self, place: Place) -> PartitionQueue:
        """Of this partition, for `append`: it stays the same."""
        with self._lock:
            queue = self._queues.get(place)
            if queue is None:
                queue = self._queues[place] = PartitionQueue(place)
            return queue

    def append(
        self,
        queue: PartitionQueue,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None,
        size: int,
        callback: DeliveryCallback | None,
    ) -> Delivery | None:
        """Take the record, which needs `size` bytes at most. None: there is no room for it now."""
        delivery = Delivery()
        lock = self._lock
        lock.acquire()  # `with` would take twice the time of the lock itself, for every record
        try:
            batch = earlier = queue.open
            if batch is None or batch.size_bytes + size > batch.reserved_bytes:
                batch = self._find_room(queue, size)
                if batch is None:
                    return NO_ROOM
            rows = batch.rows
            delivery.batch = batch
            delivery.place = len(rows)
            if callback is not None:
                batch.add_callback(len(rows), callback)
            rows.append((key, value, timestamp, headers))
            batch.size_bytes += size
        finally:
            lock.release()
        if batch is not earlier:
            if earlier is not None:
                self._pack(earlier)
                self._wake()
            else:
                self._begun()
        return delivery

    def _find_room(self, queue: PartitionQueue, size: int) -> PendingBatch | None:
        """A batch that has room for a record of `size` bytes; None if all of them together would take too much."""
        batch = queue.open
        if batch is not None and batch.size_bytes + size <= self.batch_bytes:
            more_bytes = batch.reserved_bytes + STEP_BYTES + size
            return batch if self._reserve(batch, min(more_bytes, self.batch_bytes)) else None
        batch = PendingBatch(*queue.place, time.monotonic())
        if not self._reserve(batch, max(min(self.batch_bytes, STEP_BYTES), HEADER_SIZE + size)):
            return None
        batch.size_bytes = HEADER_SIZE
        queue.close()
        self._enqueue(queue, batch)
        queue.open = batch
        return batch

    def _reserve(self, batch: PendingBatch, size_bytes: int) -> bool:
        """All in all so much memory for this batch, if there is; what is larger than all of it goes alone."""
        used_bytes = self._used_bytes - batch.reserved_bytes
        if used_bytes and used_bytes + size_bytes > self._memory_bytes:
            return False
        self._used_bytes = used_bytes + size_bytes
        batch.reserved_bytes = size_bytes
        return True

    def _enqueue(self, queue: PartitionQueue, batch: PendingBatch) -> None:
        self._count += 1
        batch.order = (self._count,)
        self._unsettled.add(batch)
        queue.waiting.append(batch)

    def put(self, batch: PendingBatch) -> bool:
        """Take a batch that is complete. False: there is no room for it now."""
        queue = self.queue(batch.place)
        with self._lock:
            if not self._reserve(batch, batch.size_bytes):
                return False
            queue.close()
            self._enqueue(queue, batch)
        self._wake()
        return True

    def when_room(self, callback: Callable[[], object]) -> None:
        """Call it once, on the client's thread, when there is more room; now, if nothing is left that takes any."""
        with self._lock:
            if self._unsettled:
                self._waiting_for_room.append(callback)
                return
        callback()

    def queue_length(self, topic: str, partition: int) -> int:
        """Batches that wait for this partition."""
        queue = self._queues.get((topic, partition))
        return 0 if queue is None else len(queue.waiting)

    # For the sender

    @property
    def has_waiting(self) -> bool:
        """Is anybody blocked because there is no room?"""
        return bool(self._waiting_for_room)

    @property
    def is_settled(self) -> bool:
        """Is the fate of all batches known?"""
        return not self._unsettled

    def unsettled(self) -> list[PendingBatch]:
        """Batches whose fate is not known yet."""
        with self._lock:
            return list(self._unsettled)

    def waiting(self) -> list[PartitionQueue]:
        """Queues in which something waits to be sent."""
        with self._lock:
            return [queue for queue in self._queues.values() if queue.waiting]

    def is_full(self, queue: PartitionQueue) -> bool:
        """Does the first batch take no more?"""
        waiting = queue.waiting
        return len(waiting) > 1 or waiting[0].is_closed or waiting[0].size_bytes >= self.batch_bytes

    def take(self, queue: PartitionQueue) -> PendingBatch:
        """The first batch, closed."""
        with self._lock:
            batch = queue.waiting.popleft()
            if queue.open is batch:
                queue.close()
        return batch

    def put_back(self, batch: PendingBatch) -> None:
        """To be sent again, in the order in which batches were begun."""
        with self._lock:
            self._insert(batch)

    def _insert(self, batch: PendingBatch) -> None:
        waiting = self._queues[batch.place].waiting
        waiting.insert(sum(1 for each in waiting if each.order < batch.order), batch)

    def put_parts(self, parts: Iterable[PendingBatch]) -> None:
        """Of a batch that was taken."""
        with self._lock:
            for part in parts:
                self._insert(part)
                self._unsettled.add(part)
                self._used_bytes += part.size_bytes
                part.reserved_bytes = part.size_bytes

    def settled(self, batch: PendingBatch) -> None:
        """Its memory is free again."""
        with self._lock:
            self._unsettled.discard(batch)
            self._used_bytes -= batch.reserved_bytes
            waiting, self._waiting_for_room = self._waiting_for_room, []
        for callback in waiting:
            callback()

    def take_all(self) -> Iterator[PendingBatch]:
        """Everything that was not sent, for an end without sending."""
        for queue in self.waiting():
            while queue.waiting:
                yield self.take(queue)
