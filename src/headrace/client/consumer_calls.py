"""What users may write for topics and offsets, in the one form that the core takes."""

import re
from collections.abc import Iterable, Mapping
from operator import index
from typing import Final

from headrace.client.commits import OffsetAndMetadata
from headrace.client.subscriptions import BrokerPattern
from headrace.client.topic_partition import TopicPartition

_MAX_OFFSET: Final = 0x7FFF_FFFF_FFFF_FFFF


def as_topics(
    topics: str | Iterable[str] | re.Pattern[str] | BrokerPattern,
) -> list[str] | re.Pattern[str] | BrokerPattern:
    """One name is a list of one."""
    if isinstance(topics, re.Pattern | BrokerPattern):
        return topics
    return [topics] if isinstance(topics, str) else list(topics)


def as_offsets(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None,
) -> dict[TopicPartition, OffsetAndMetadata] | None:
    """A number is an offset without anything else; None stays None. Raises TypeError, ValueError."""
    if offsets is None:
        return None
    return {TopicPartition(*partition): _as_offset(partition, place) for partition, place in offsets.items()}


def _as_offset(partition: TopicPartition, place: OffsetAndMetadata | int) -> OffsetAndMetadata:
    made = place if isinstance(place, OffsetAndMetadata) else OffsetAndMetadata(index(place))
    if not 0 <= made.offset <= _MAX_OFFSET:
        raise ValueError(f"the offset {made.offset} of {partition} cannot be committed: no record has it")
    return made
