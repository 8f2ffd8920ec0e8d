"""What classic consumers tell one another through JoinGroup and SyncGroup, as bytes and in words."""

from collections.abc import Iterable, Mapping
from struct import pack

from headrace.coordinator.consumer_protocol import read_assignment
from headrace.protocol.errors import DecodeError
from headrace.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_consumer_protocol_assignment,
    encode_consumer_protocol_subscription,
)


def place_of(text: str) -> tuple[str, int]:
    """`t-0` is partition 0 of t."""
    topic, _, index = text.rpartition("-")
    return topic, int(index)


def by_topic(places: Iterable[tuple[str, int]]) -> Mapping[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(index)
    return topics


def subscription_bytes(topics: Iterable[str], owned: Iterable[str] | None = None) -> bytes:
    """In the oldest version, or in the first that tells what the member has."""
    version = 0 if owned is None else 1
    rows = [TopicPartition(topic, indexes) for topic, indexes in by_topic(map(place_of, owned or ())).items()]
    message = ConsumerProtocolSubscription(list(topics), owned_partitions=rows)
    return pack(">h", version) + b"".join(encode_consumer_protocol_subscription[version](message))


def assignment_bytes(places: Iterable[str]) -> bytes:
    rows = [TopicPartition(topic, indexes) for topic, indexes in by_topic(map(place_of, places)).items()]
    return pack(">h", 0) + b"".join(encode_consumer_protocol_assignment[0](ConsumerProtocolAssignment(rows)))


def assignment_text(data: bytes) -> str:
    if not data:
        return "nothing"
    try:
        rows = read_assignment(data).assigned_partitions
    except DecodeError:
        return data.decode(errors="backslashreplace")
    return " ".join(f"{row.topic}-{index}" for row in rows for index in row.partitions) or "nothing"
