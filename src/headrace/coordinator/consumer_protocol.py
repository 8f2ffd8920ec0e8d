"""What classic consumers put into JoinGroup and SyncGroup for one another, read and written by the coordinator.

Newer clients may append fields: a version that is not known is read as the newest that is, and what follows is ignored.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

from headrace.cluster.image import Image
from headrace.coordinator.assignors.spec import Assignment
from headrace.protocol.errors import DecodeError, TrailingBytesError
from headrace.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_consumer_protocol_assignment,
    decode_consumer_protocol_subscription,
    encode_consumer_protocol_assignment,
)
from headrace.protocol.types import Decoder

_NEWEST: Final = max(decode_consumer_protocol_subscription)
_VERSION: Final = Struct(">h")


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Raises DecodeError."""
    subscription: ConsumerProtocolSubscription = _read(decode_consumer_protocol_subscription, data)
    return subscription


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Raises DecodeError."""
    assignment: ConsumerProtocolAssignment = _read(decode_consumer_protocol_assignment, data)
    return assignment


def write_assignment(assignment: Assignment, image: Image, version: int) -> bytes:
    """What a member with a subscription of this version can read; topics that are gone are left out."""
    rows = [
        TopicPartition(image.topics[topic_id].name, partitions)
        for topic_id, partitions in assignment.items()
        if topic_id in image.topics
    ]
    parts = encode_consumer_protocol_assignment[version](ConsumerProtocolAssignment(rows))
    return b"".join((_VERSION.pack(version), *parts))


def version_of(data: bytes) -> int:
    """Raises DecodeError."""
    if len(data) < _VERSION.size:
        raise DecodeError(f"{len(data)} bytes left, {_VERSION.size} are needed", field="version", position=0)
    version = int(_VERSION.unpack_from(data)[0])
    if version < 0:
        raise DecodeError(f"version {version}", field="version", position=0)
    return min(version, _NEWEST)


def _read(decoders: Mapping[int, Decoder[Any]], data: bytes) -> Any:
    decode, end = decoders[version_of(data)], len(data)
    try:
        return decode(data, memoryview(data), _VERSION.size, end)
    except TrailingBytesError as error:
        return decode(data, memoryview(data), _VERSION.size, error.position)
