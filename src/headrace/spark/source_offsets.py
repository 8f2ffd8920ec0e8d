"""Offsets of many partitions: their JSON, which is that of Spark's own Kafka source, and the ranges between them.

Everything here computes and asks nobody.

An end below its start is no mistake: it is how a position in a topic that was made anew is written down. The old
offsets mean nothing then, and the range begins at the beginning of the new topic. So whoever reads a checkpoint later
sees the same ranges as whoever wrote it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from headrace.client.topic_partition import TopicPartition

Offsets: TypeAlias = dict[TopicPartition, int]
OffsetsJson: TypeAlias = dict[str, dict[str, int]]


class Limits(NamedTuple):
    """What a partition holds: from `earliest` to `latest`, not including it."""

    earliest: int
    latest: int


class OffsetRange(NamedTuple):
    """Offsets `start` to `end`, not including it."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """`{"orders": {"0": 23, "1": 345}}`, in the order of names and numbers."""
    found: OffsetsJson = {}
    for partition in sorted(offsets):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return found


def from_json(found: Any) -> Offsets:
    """Raises ValueError if that is not what a checkpoint of this source, or of Spark's, holds."""
    try:
        return {
            TopicPartition(topic, int(number)): _offset(offset)
            for topic, partitions in found.items()
            for number, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f'{found!r} is no position of this source, which is written as {{"topic": {{"0": 23}}}}. '
            "Is the checkpoint that of another source?"
        ) from error


def ranges(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], begins: Offsets
) -> list[OffsetRange]:
    """What lies between two positions; `begins` has the first offsets of partitions that are new, or made anew."""
    found = []
    for partition in sorted(end):
        last = end[partition]
        first = start.get(partition)
        if first is None or last < first:
            first = min(begins[partition], last)
        if first < last:
            found.append(OffsetRange(partition, first, last))
    return found


def beginners(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    """The partitions whose range has to begin at the first offset that there is."""
    return [partition for partition, last in end.items() if partition not in start or last < start[partition]]


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value
