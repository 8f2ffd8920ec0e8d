"""What the cluster holds of a subscription now: its partitions, the ids of its topics, where each begins and ends."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.client.admin import AsyncAdmin
from headrace.client.errors import KafkaError, PartialError, UnknownTopicError
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.types import uuid_from_text
from headrace.spark.source_offsets import Limits
from headrace.spark.source_options import Assigned, Subscription, TopicPattern, Topics


class Seen(NamedTuple):
    """`missing` are topics and partitions that were named and are not there."""

    limits: Mapping[TopicPartition, Limits]
    topic_ids: Mapping[str, bytes]
    missing: tuple[str, ...]


class _Layout(NamedTuple):
    """Topics with their ids and the numbers of their partitions."""

    topic_ids: dict[str, bytes]
    partitions: list[TopicPartition]


async def look(admin: AsyncAdmin, subscription: Subscription, *, read_committed: bool) -> Seen:
    """Raises KafkaError. With `read_committed`, a partition ends where open transactions begin."""
    layout = await _layout(admin, subscription)
    wanted = layout.partitions
    missing: tuple[str, ...] = ()
    match subscription:
        case Topics(names):
            missing = tuple(name for name in names if name not in layout.topic_ids)
        case Assigned(partitions):
            wanted = [each for each in partitions if each in set(layout.partitions)]
            missing = tuple(str(each) for each in partitions if each not in set(layout.partitions))
    limits, lost = await _limits(admin, wanted, read_committed=read_committed)
    return Seen(limits, layout.topic_ids, (*missing, *map(str, lost)))


def require(seen: Seen) -> Seen:
    """What a query that begins needs: everything that was named. Raises UnknownTopicError."""
    if seen.missing:
        raise UnknownTopicError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"There is no {', '.join(seen.missing)}. Create it before the query starts.",
        )
    return seen


async def _layout(admin: AsyncAdmin, subscription: Subscription) -> _Layout:
    match subscription:
        case TopicPattern(pattern):
            matches = re.compile(pattern).fullmatch
            listed = [each for each in await admin.list_topics() if matches(each.name)]
            return _Layout(
                {each.name: uuid_from_text(each.id) for each in listed},
                [TopicPartition(each.name, number) for each in listed for number in range(each.partitions)],
            )
        case Topics(names):
            topics: Iterable[str] = names
        case Assigned(partitions):
            topics = dict.fromkeys(each.topic for each in partitions)
    try:
        described = await admin.describe_topics(topics)
    except UnknownTopicError:
        return _Layout({}, [])
    except PartialError as error:
        _only_unknown(error)
        described = error.results
    return _Layout(
        {each.name: uuid_from_text(each.id) for each in described.values()},
        [TopicPartition(each.name, part.number) for each in described.values() for part in each.partitions],
    )


async def _limits(
    admin: AsyncAdmin, wanted: Iterable[TopicPartition], *, read_committed: bool
) -> tuple[dict[TopicPartition, Limits], list[TopicPartition]]:
    """And the partitions that went away since they were listed."""
    partitions = sorted(wanted)
    try:
        first, last = await asyncio.gather(
            admin.list_offsets(dict.fromkeys(partitions, "earliest")),
            admin.list_offsets(dict.fromkeys(partitions, "latest"), read_committed=read_committed),
        )
    except UnknownTopicError:
        return {}, partitions
    except PartialError as error:
        _only_unknown(error)
        kept, lost = await _limits(admin, error.results, read_committed=read_committed)
        return kept, [*error.errors, *lost]
    return {each: Limits(first[each].offset, last[each].offset) for each in partitions}, []


def _only_unknown(error: PartialError) -> None:
    """Other errors than that something is not there are raised."""
    other: list[KafkaError] = [each for each in error.errors.values() if not isinstance(each, UnknownTopicError)]
    if other:
        raise other[0]
