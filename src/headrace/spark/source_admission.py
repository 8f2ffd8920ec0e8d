"""Admission control: how far a micro-batch goes, with the rules of Spark's own Kafka source. Pure; time is an argument.

A limit on the number of offsets is shared out in proportion to what waits in each partition, so that all of them come
to their end together; rounded down, but a partition in which something waits is never left out.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from headrace.client.topic_partition import TopicPartition
from headrace.protocol.types import ZERO_UUID
from headrace.spark.source_offsets import Limits, OffsetRange, Offsets, Position, is_anew


class Waiting(NamedTuple):
    """Enough offsets, or enough time since the last micro-batch, whichever comes first."""

    min_offsets: int
    max_delay_ms: int


def waits(
    start: Position, limits: Mapping[TopicPartition, Limits], topic_ids: Mapping[str, bytes]
) -> list[OffsetRange]:
    """What waits to be read, of every partition that there is; `topic_ids` are those of now.

    Of a topic that was made anew all that it holds waits. A log that was cut has nothing new until it grows again.
    """
    found = []
    for partition, (earliest, latest) in limits.items():
        if is_anew(partition, start, end=latest, topic_id=topic_ids.get(partition.topic, ZERO_UUID)):
            found.append(OffsetRange(partition, earliest, latest))
        else:
            found.append(OffsetRange(partition, min(max(start.offsets[partition], earliest), latest), latest))
    return found


def is_too_little(waiting: list[OffsetRange], rule: Waiting, *, since_last_ms: float) -> bool:
    """Whether the micro-batch is better put off."""
    if since_last_ms >= rule.max_delay_ms:
        return False
    return sum(each.size for each in waiting) < rule.min_offsets


def rate_limit(waiting: list[OffsetRange], max_offsets: int | None) -> Offsets:
    """How far each partition is read: `max_offsets` of them all, at most, apart from those rounded up to one."""
    total = sum(max(each.size, 0) for each in waiting)
    if max_offsets is None or total < 1:
        return {each.partition: each.end for each in waiting}
    return {each.partition: each.start + _share(each.size, total, max_offsets) for each in waiting}


def _share(size: int, total: int, limit: int) -> int:
    if size <= 0:
        return size
    share = limit * (size / total)
    return min(size, math.ceil(share) if share < 1 else math.floor(share))
