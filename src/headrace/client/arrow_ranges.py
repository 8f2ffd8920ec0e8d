"""Which part of a topic to read: from where to where, of each partition.

A bound is `"earliest"`, `"latest"`, an offset (negative: so many before the end), a datetime, or a dict of these by
partition, which does not bound those that it leaves out. What a group has committed is a bound, too:
`Group("billing")`.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import index
from typing import NamedTuple, SupportsIndex, TypeAlias

from headrace.client.admin import AsyncAdmin
from headrace.client.errors import UnknownTopicError
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode


class Group(NamedTuple):
    """The position of a group; where it has none, the beginning."""

    name: str


OneBound: TypeAlias = str | int | datetime
Bound: TypeAlias = OneBound | Group | Mapping[int, OneBound]


class Range(NamedTuple):
    """Offsets `start` to `end`, not including it, of one partition."""

    partition: int
    start: int
    end: int


async def resolve(
    admin: AsyncAdmin,
    topic: str,
    *,
    start: Bound,
    end: Bound,
    partitions: Iterable[int] | None,
    read_committed: bool,
) -> list[Range]:
    """The bounds as offsets, cut to what the topic holds now. Raises KafkaError."""
    described = await admin.describe_topic(topic)
    known = [partition.number for partition in described.partitions]
    wanted = known if partitions is None else list(partitions)
    named = {number for bound in (start, end) if isinstance(bound, Mapping) for number in bound}
    missing = sorted({*wanted, *named} - set(known))
    if missing:
        raise UnknownTopicError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{topic} has partitions 0 to {len(known) - 1}; there is no partition {missing[0]}.",
        )
    places = [TopicPartition(topic, number) for number in wanted]
    earliest = await admin.list_offsets(dict.fromkeys(places, "earliest"))
    latest = await admin.list_offsets(dict.fromkeys(places, "latest"), read_committed=read_committed)
    limits = {place: (earliest[place].offset, latest[place].offset) for place in places}
    starts = await _offsets(admin, start, limits, unnamed="earliest")
    ends = await _offsets(admin, end, limits, unnamed="latest")
    ranges = []
    for place in places:
        low, high = limits[place]
        first = min(max(starts[place], low), high)
        ranges.append(Range(place.partition, first, max(first, min(ends[place], high))))
    return ranges


async def _offsets(
    admin: AsyncAdmin, bound: Bound, limits: Mapping[TopicPartition, tuple[int, int]], *, unnamed: str
) -> dict[TopicPartition, int]:
    """`unnamed` is the bound of partitions that a dict leaves out."""
    if isinstance(bound, Group):
        committed = await admin.list_group_offsets(bound.name, list(limits))
        return {place: committed[place].offset if place in committed else low for place, (low, _) in limits.items()}
    bounds: dict[TopicPartition, OneBound] = {
        place: bound.get(place.partition, unnamed) if isinstance(bound, Mapping) else bound for place in limits
    }
    times = {place: each for place, each in bounds.items() if isinstance(each, datetime)}
    found = await admin.list_offsets(dict(times)) if times else {}
    offsets = {}
    for place, each in bounds.items():
        low, high = limits[place]
        if isinstance(each, datetime):
            offsets[place] = high if found[place].offset < 0 else found[place].offset
        else:
            offsets[place] = _offset(each, low, high)
    return offsets


def _offset(bound: str | int, low: int, high: int) -> int:
    if bound == "earliest":
        return low
    if bound == "latest":
        return high
    if not isinstance(bound, SupportsIndex):
        raise ValueError(f"{bound!r} is no place in a topic: earliest, latest, an offset, a datetime or Group(name)")
    offset = index(bound)
    return high + offset if offset < 0 else offset
