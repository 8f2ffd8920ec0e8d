"""Which partition a record goes to.

With a key: the one that the key's hash says, as in every Kafka client, so that records of a key stay in order. Without
one: the same partition for a batch's worth of bytes, then another (KIP-794), so that batches get full. Partitions whose
queue is shorter are chosen more often, since their brokers are faster; those without a leader are left out.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from headrace.client.chance import random
from headrace.client.murmur2 import partition_of

# (topic, key, value, partitions) -> partition
Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, Sequence[int]], int]
_KEPT_KEYS: Final = 10_000  # whose partitions are remembered: hashing in Python costs more than a look-up


class KeyPartitioner:
    """Partitions of keys in one topic, with a memory for those that come often."""

    __slots__ = ("_count", "_known")

    def __init__(self, count: int) -> None:
        self._count = count
        self._known: dict[bytes, int] = {}

    def partition(self, key: bytes) -> int:
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _KEPT_KEYS:
                self._known.clear()
            known = self._known[key] = partition_of(key, self._count)
        return known


class StickyPartition:
    """The partition that records without a key of one topic go to for now."""

    __slots__ = ("_batch_bytes", "left_bytes", "partition")

    def __init__(self, batch_bytes: int) -> None:
        self._batch_bytes = batch_bytes
        self.left_bytes = 0
        self.partition = -1

    def stay_in(self, available: Sequence[int]) -> None:
        """Only these have a leader now."""
        if self.partition not in available:
            self.left_bytes = 0

    def next(self, size_bytes: int, available: Sequence[int], queue_length: Callable[[int], int] | None) -> int:
        """For a record of this size. `queue_length` tells what waits for a partition; None: all are equal."""
        if self.left_bytes < size_bytes or self.partition not in available:
            self.partition = choose(available, queue_length)
            self.left_bytes = self._batch_bytes
        self.left_bytes -= size_bytes
        return self.partition


def choose(available: Sequence[int], queue_length: Callable[[int], int] | None) -> int:
    """One of them by chance, those with a short queue more often."""
    if len(available) == 1:
        return available[0]
    if queue_length is None:
        return available[int(random() * len(available))]
    lengths = [queue_length(partition) for partition in available]
    longest = max(lengths) + 1
    ticket = random() * sum(longest - length for length in lengths)
    for partition, length in zip(available, lengths, strict=True):
        ticket -= longest - length
        if ticket < 0:
            return partition
    return available[-1]


class RoundRobin:
    """One partition after the other, whatever the key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(self, topic: str, _key: bytes | None, _value: bytes | None, partitions: Sequence[int]) -> int:
        turn = self._next.get(topic, 0)
        self._next[topic] = turn + 1
        return partitions[turn % len(partitions)]


def named(partitioner: Any) -> Partitioner | None:
    """What `partitioner.class` says; None is Kafka's own way. Raises ValueError."""
    if partitioner is None or partitioner in (
        "default",
        "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
    ):
        return None
    if partitioner in ("round_robin", "org.apache.kafka.clients.producer.RoundRobinPartitioner"):
        return RoundRobin()
    if callable(partitioner):
        made: Partitioner = partitioner() if isinstance(partitioner, type) else partitioner
        return made
    raise ValueError(
        f"partitioner.class must be round_robin or a function (topic, key, value, partitions) -> partition, "
        f"not {partitioner!r}"
    )
