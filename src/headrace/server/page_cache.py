"""How much of what was appended stays in the kernel's page cache.

Theory. An append ends in the page cache, and consumers that keep up read it from there. Left alone, the cache grows
with the log until memory is full: at the expense of everything else on the machine, and, where memory comes from a
hypervisor page by page, at a quarter of the speed. So the broker keeps what is newest, `KEPT_BYTES` of all its logs
together, and gives back what is older: whoever reads that, reads from the disk.

`look_at` is called for each partition now and then. It notes how far an active segment has grown since, in one row for
all logs. What falls out at the front of the row is written to the disk and dropped, by the worker. Segments that were
rolled need none of this: they are made durable and dropped as a whole.
"""

from collections import deque
from typing import Final, NamedTuple

from headrace.log.chores import WriteOut
from headrace.log.segment import Segment
from headrace.server.partition import Partition
from headrace.server.partitions import Partitions
from headrace.server.worker import Worker

KEPT_BYTES: Final = 512 << 20  # consumers may be behind by so much, and memory hardly notices
GROWTH_BYTES: Final = 16 << 20  # what is worth an entry in the row; as much may stay unnoticed in each log


class _Growth(NamedTuple):
    partition: Partition
    segment: Segment
    size_bytes: int
    end: int  # where it ended


class PageCache:
    __slots__ = ("_bytes", "_growths", "_kept_bytes", "_partitions", "_worker")

    def __init__(self, partitions: Partitions, worker: Worker, kept_bytes: int = KEPT_BYTES) -> None:
        self._partitions = partitions
        self._worker = worker
        self._kept_bytes = kept_bytes
        self._growths: deque[_Growth] = deque()  # the oldest first
        self._bytes = 0  # of all growths

    def look_at(self, partition: Partition) -> None:
        """Note how far its log has grown, and give back what is too much by now."""
        segment = partition.log.active
        size_bytes = segment.size - segment.seen_bytes
        if size_bytes >= GROWTH_BYTES:
            segment.seen_bytes = segment.size
            self._growths.append(_Growth(partition, segment, size_bytes, segment.size))
            self._bytes += size_bytes
        while self._bytes > self._kept_bytes and self._worker.has_room:
            self._give_back(self._growths.popleft())

    def _give_back(self, growth: _Growth) -> None:
        self._bytes -= growth.size_bytes
        log = growth.partition.log
        # Not of a segment that was rolled meanwhile, and not of a topic that was deleted.
        if self._partitions.has(growth.partition) and log.active is growth.segment and log.failure is None:
            self._worker.submit(WriteOut(log, growth.segment.file, growth.end - growth.size_bytes, growth.end))
