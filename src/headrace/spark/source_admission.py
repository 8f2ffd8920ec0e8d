"""Admission control: how far a micro-batch goes, with the rules of Spark's own Kafka source. Pure; time is an argument.

A limit on the number of offsets is shared out in proportion to what waits in each partition, so that all of them come
to their end together; rounded down, but a partition in which something waits is never left out.
"""

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

from headrace.client.topic_partition import TopicPartition
from headrace.spark.source_offsets import Limits, OffsetRange, Offsets


class Waiting(NamedTuple):
    """Enough offsets, or enough time since the last micro-batch, whichever comes first."""

    min_offsets: int
    max_delay_ms: int


def waits(
    start: Mapping[TopicPartition, int], limits: Mapping[TopicPartition, Limits], made_anew: Collection[str] = ()
) -> list[OffsetRange]:
    """What waits to be read, of every partition that there is.

    Of a topic that was made anew all that it holds waits, but to an end below the old position, as `source_offsets`
    says; the rest waits for the micro-batch after that.
    """
    found = []
    for partition, (earliest, latest) in limits.items():
        position = start.get(partition, earliest)
        if partition.topic in made_anew and position > 0:
            found.append(OffsetRange(partition, earliest, min(latest, position - 1)))
        elif latest < position:
            found.append(OffsetRange(partition, earliest, latest))
        else:
            found.append(OffsetRange(partition, max(position, earliest), latest))
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
