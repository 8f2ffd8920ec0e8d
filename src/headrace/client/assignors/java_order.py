"""The order in which Java's HashMap walks its keys.

The sticky assignors of Kafka's client let it decide who keeps one partition more. A group may have members of both
kinds, and any of them may be the leader, so ours decides the same.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from headrace.client.topic_partition import TopicPartition
from headrace.protocol.text_hash import java_hash

Key = TypeVar("Key")

_FIRST_SIZE: Final = 16
_BITS: Final = 0xFFFF_FFFF


def in_hash_order(keys: Iterable[str]) -> list[str]:
    return _in_order(list(keys), lambda text: java_hash(text) & _BITS)


def first_in_hash_order(partitions: Iterable[TopicPartition]) -> TopicPartition:
    return _in_order(list(partitions), _partition_hash)[0]


def _partition_hash(partition: TopicPartition) -> int:
    return (31 * (31 + partition.partition) + java_hash(partition.topic)) & _BITS


def _in_order(keys: list[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """By bucket; within one as they came. The table doubles when it is three quarters full."""
    size = _FIRST_SIZE
    while len(keys) > size * 3 // 4:
        size *= 2

    def bucket(key: Key) -> int:
        number = hash_of(key)
        return (number ^ number >> 16) & (size - 1)

    return sorted(keys, key=bucket)
