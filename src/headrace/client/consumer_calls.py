"""What users may write for topics and offsets, in the one form that the core takes."""

import re
from collections.abc import Iterable, Mapping

from headrace.client.commits import OffsetAndMetadata
from headrace.client.subscriptions import BrokerPattern
from headrace.client.topic_partition import TopicPartition


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
    """A number is an offset without anything else; None stays None."""
    if offsets is None:
        return None
    return {
        TopicPartition(*partition): OffsetAndMetadata(place) if isinstance(place, int) else place
        for partition, place in offsets.items()
    }
