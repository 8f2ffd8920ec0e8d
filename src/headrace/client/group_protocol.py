"""What members of a classic group tell one another through the coordinator, which does not look inside.

A member introduces itself by a subscription, and gets an assignment. Both begin with a version; a reader takes from a
later one what it knows, so every member can read what every other one writes.
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Any, Final

from headrace.client.assignors.spec import Member
from headrace.client.topic_partition import TopicPartition, by_topic
from headrace.protocol.errors import ProtocolError
from headrace.protocol.messages import consumer_protocol
from headrace.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

PROTOCOL_TYPE: Final = "consumer"
VERSION: Final = 3  # of both; the highest that Kafka's client knows
_VERSION: Final = Struct(">h")


def write_subscription(
    topics: Iterable[str],
    *,
    owned: Iterable[TopicPartition] = (),
    generation: int = -1,
    rack: str | None = None,
    user_data: bytes | None = None,
) -> bytes:
    message = ConsumerProtocolSubscription(sorted(topics), user_data, _rows(owned), generation, rack or None)
    return _write(consumer_protocol.encode_consumer_protocol_subscription, message)


def read_subscription(member_id: str, instance_id: str | None, data: bytes) -> Member:
    """Raises ProtocolError."""
    found: ConsumerProtocolSubscription = _read(consumer_protocol.decode_consumer_protocol_subscription, data)
    return Member(
        id=member_id,
        topics=tuple(dict.fromkeys(found.topics)),
        owned=_partitions(found.owned_partitions),
        generation=max(-1, found.generation_id),
        instance_id=instance_id,
        rack=found.rack_id or None,
        user_data=None if found.user_data is None else bytes(found.user_data),
    )


def write_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    message = ConsumerProtocolAssignment(_rows(partitions), user_data)
    return _write(consumer_protocol.encode_consumer_protocol_assignment, message)


def read_assignment(data: bytes) -> list[TopicPartition]:
    """An empty text is an empty assignment. Raises ProtocolError."""
    if not data:
        return []
    found: ConsumerProtocolAssignment = _read(consumer_protocol.decode_consumer_protocol_assignment, data)
    return _partitions(found.assigned_partitions)


def _write(encoders: Mapping[int, Any], message: Any) -> bytes:
    return b"".join([_VERSION.pack(VERSION), *encoders[VERSION](message)])


def _read(decoders: Mapping[int, Any], data: bytes) -> Any:
    if len(data) < _VERSION.size:
        raise ProtocolError(f"{len(data)} bytes where a version should stand")
    version = min(_VERSION.unpack_from(data)[0], VERSION)
    if version < 0:
        raise ProtocolError(f"version {version} of what members tell one another")
    return decoders[version](data, memoryview(data), _VERSION.size, len(data))


def _rows(partitions: Iterable[TopicPartition]) -> list[consumer_protocol.TopicPartition]:
    topics = by_topic(partitions)
    return [consumer_protocol.TopicPartition(topic, sorted(topics[topic])) for topic in sorted(topics)]


def _partitions(rows: Sequence[consumer_protocol.TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(row.topic, number) for row in rows for number in row.partitions]
