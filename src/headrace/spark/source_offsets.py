"""Positions in many partitions: their JSON, which is that of Spark's own Kafka source, and the ranges between them.

Everything here computes and asks nobody.

A position is offsets, and the ids of the topics that they are of: `{"orders": {"0": 23}, "orders@<id>": {}}`. No topic
can have the name of the second entry, and without partitions it says nothing to those who only look for offsets, as
Spark's own source and the sink do. So it stands where offsets are kept, and is as old as they are: a topic that was
deleted and made anew is told apart however long the query has rested.

Where the ids of two positions differ, the old offsets mean nothing, and the range between the two begins where the log
of the new topic begins. A position of Spark's own source has no ids; there an end below its start tells the same. So
whoever reads a checkpoint later sees the same ranges as whoever wrote it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from headrace.client.topic_partition import TopicPartition
from headrace.protocol.types import ZERO_UUID, uuid_from_text, uuid_to_text

Offsets: TypeAlias = dict[TopicPartition, int]
OffsetsJson: TypeAlias = dict[str, dict[str, int]]

_ID_MARK: Final = "@"  # names of topics have none


class Position(NamedTuple):
    """How far a query is; a topic may be without an id, or have ZERO_UUID, which a broker without ids says."""

    offsets: Offsets
    topic_ids: Mapping[str, bytes]

    def id_of(self, topic: str) -> bytes:
        return self.topic_ids.get(topic, ZERO_UUID)


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


def to_json(
    offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, bytes] = MappingProxyType({})
) -> OffsetsJson:
    """`{"orders": {"0": 23, "1": 345}, "orders@<id>": {}}`, in the order of names and numbers."""
    found: OffsetsJson = {}
    for partition in sorted(offsets):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    known = [topic for topic in found if topic_ids.get(topic, ZERO_UUID) != ZERO_UUID]
    return found | {f"{topic}{_ID_MARK}{uuid_to_text(topic_ids[topic])}": {} for topic in known}


def from_json(found: Any) -> Position:
    """Raises ValueError if that is not what a checkpoint of this source, or of Spark's, holds."""
    try:
        offsets = {
            TopicPartition(topic, int(number)): _offset(offset)
            for topic, partitions in found.items()
            for number, offset in partitions.items()
        }
        named = [name.partition(_ID_MARK) for name, partitions in found.items() if _ID_MARK in name and not partitions]
        return Position(offsets, {topic: uuid_from_text(text) for topic, _, text in named})
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f'{found!r} is no position of this source, which is written as {{"topic": {{"0": 23}}}}. '
            "Is the checkpoint that of another source?"
        ) from error


def is_anew(partition: TopicPartition, start: Position, *, end: int, topic_id: bytes) -> bool:
    """Whether what comes after `start` begins where the log begins: the partition is new, or its topic was made anew.

    `end` and `topic_id` are those of a later position.
    """
    offset = start.offsets.get(partition)
    if offset is None:
        return True
    id_then = start.id_of(partition.topic)
    if ZERO_UUID in (id_then, topic_id):
        return end < offset
    return id_then != topic_id


def ranges(start: Position, end: Position, begins: Offsets) -> list[OffsetRange]:
    """What lies between two positions; `begins` has the first offsets of partitions that are new, or made anew."""
    found = []
    for partition in sorted(end.offsets):
        last = end.offsets[partition]
        first = min(begins[partition], last) if partition in begins else start.offsets[partition]
        if first < last:
            found.append(OffsetRange(partition, first, last))
    return found


def beginners(start: Position, end: Position) -> list[TopicPartition]:
    """The partitions whose range has to begin at the first offset that there is."""
    return [
        partition
        for partition, last in end.offsets.items()
        if is_anew(partition, start, end=last, topic_id=end.id_of(partition.topic))
    ]


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value
