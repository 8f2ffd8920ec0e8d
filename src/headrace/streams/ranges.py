"""Places in topics as offsets: what people say (a time, an offset, the beginning), cut to what the logs hold."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.client.topic_partition import TopicPartition
from headrace.streams.errors import PlanError

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True)
class Target:
    """A place in each partition: the offset for those that are named, else `offset`, else the first record that is not
    older than `time_ms`, else the end of the log that is meant, its beginning or its end."""

    time_ms: int | None = None
    offsets: Offsets | None = None
    offset: int | None = None


@dataclass(frozen=True)
class Place:
    """Of one partition: the offset, where the log ends, and a remark if the offset is not what was asked for."""

    partition: TopicPartition
    offset: int
    end: int
    note: str = ""


Bound = datetime | int | Mapping[tuple[str, int], int] | None


def target_of(bound: Bound) -> Target:
    """What a program says. Raises PlanError for a time without a zone."""
    match bound:
        case None:
            return Target()
        case datetime():
            if bound.tzinfo is None:
                raise PlanError(f"{bound!r} has no time zone: give a datetime with one")
            return Target(time_ms=int(bound.timestamp() * 1000))
        case int():
            return Target(offset=bound)
    return Target(offsets={TopicPartition(*place): offset for place, offset in bound.items()})


async def places(
    admin: "AsyncAdmin", target: Target, partitions: Iterable[TopicPartition], *, at_end: bool = False
) -> dict[TopicPartition, Place]:
    """`at_end`: a target that says nothing means the end. Raises KafkaError, and PlanError for other partitions."""
    every = sorted(set(partitions))
    unknown = sorted((target.offsets or {}).keys() - set(every))
    if unknown:
        raise PlanError(f"the app reads no stream of {unknown[0]}: it reads {', '.join(map(str, every)) or 'none'}")
    firsts = await admin.list_offsets(dict.fromkeys(every, "earliest"))
    ends = await admin.list_offsets(dict.fromkeys(every, "latest"), read_committed=True)
    time_ms = target.time_ms
    found = {} if time_ms is None else await admin.list_offsets(dict.fromkeys(every, time_ms))
    made = {}
    for each in every:
        first, end = firsts[each].offset, ends[each].offset
        by_time = found[each].offset if each in found else None
        made[each] = place_in(each, target, first, end, by_time, at_end=at_end)
    return made


def place_in(
    partition: TopicPartition, target: Target, first: int, end: int, found: int | None, *, at_end: bool = False
) -> Place:
    """`found` is what the broker says about the target's time: -1 if no record is so late."""
    offset = target.offset if target.offsets is None else target.offsets.get(partition, target.offset)
    if offset is None and found is not None:
        if found < 0:
            return Place(partition, end, end, "no record is so late")
        return Place(partition, min(found, end), end)
    if offset is None:
        return Place(partition, end if at_end else first, end)
    if offset > end:
        return Place(partition, end, end, f"the log ends before {offset}")
    if offset < first:
        return Place(partition, first, end, f"the log begins after {offset}")
    return Place(partition, offset, end)
