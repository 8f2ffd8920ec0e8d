"""The name of a partition, what users may write for one, and many of them topic by topic."""

from collections.abc import Iterable
from operator import index
from typing import NamedTuple, SupportsIndex

from headrace.client.several import refuse_one


class TopicPartition(NamedTuple):
    """`TopicPartition("orders", 3)`; as a text it is `orders-3`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def as_partition(partition: TopicPartition | tuple[str, int]) -> TopicPartition:
    """A pair will do. Raises TypeError."""
    if isinstance(partition, tuple) and len(partition) == 2:
        topic, number = partition
        if isinstance(topic, str) and isinstance(number, SupportsIndex):
            return TopicPartition(topic, index(number))
    raise TypeError(f"{partition!r} is not a partition: write TopicPartition(topic, number)")


def as_partitions(partitions: Iterable[TopicPartition | tuple[str, int]]) -> list[TopicPartition]:
    """Raises TypeError."""
    refuse_one(partitions, TopicPartition, "partitions")
    return [as_partition(each) for each in partitions]


def by_topic(partitions: Iterable[TopicPartition | tuple[str, int]]) -> dict[str, list[int]]:
    """Topic -> the numbers of its partitions, both in the order in which they came."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics
