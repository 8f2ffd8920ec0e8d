"""Topics for a measurement, made and removed through the protocol, the same for both brokers."""

import time
from typing import Final

from benchmarks.beside_kafka.nodes import Node
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.support.wire_client import WireClient

_TIMEOUT_MS: Final = 300_000  # ten thousand partitions take Apache Kafka a while on a busy disk
_CREATE_VERSION: Final = 7
_DELETE_VERSION: Final = 6
_LIST_OFFSETS_VERSION: Final = 7
_LATEST: Final = -1
_GONE_SECONDS: Final = 60.0
# Deleted files go at once, and not in the middle of the next measurement.
_CONFIGS: Final = {"file.delete.delay.ms": "0"}


class TopicError(Exception):
    """A broker did not do what it was asked for, or not in time."""


def create_topic(node: Node, name: str, partitions: int, configs: dict[str, str] | None = None) -> str:
    """Its id in hex; every partition answers when this returns."""
    settings = [CreatableTopicConfig(key, value) for key, value in (_CONFIGS | (configs or {})).items()]
    topic = CreatableTopic(name, partitions, replication_factor=1, configs=settings)
    with WireClient(("127.0.0.1", node.port)) as client:
        (made,) = client.ask("CreateTopics", _CREATE_VERSION, CreateTopicsRequest([topic], _TIMEOUT_MS)).topics
    if made.error_code:
        raise TopicError(f"{node.name} did not create {name}: {ErrorCode(made.error_code).name} {made.error_message}")
    await_partitions(node, name, partitions)
    return str(made.topic_id.hex())


def await_partitions(node: Node, name: str, partitions: int) -> None:
    """Every log of the topic is open when this returns."""
    deadline = time.monotonic() + _TIMEOUT_MS / 1000
    while -1 in end_offsets(node, name, partitions):
        if time.monotonic() > deadline:
            raise TopicError(f"{node.name} does not lead all partitions of {name} after {_TIMEOUT_MS / 1000:.0f} s")
        time.sleep(0.05)


def end_offsets(node: Node, name: str, partitions: int) -> list[int]:
    """The end of each partition; -1 where the broker does not know it."""
    rows = [ListOffsetsPartition(index, timestamp=_LATEST) for index in range(partitions)]
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(name, rows)])
    with WireClient(("127.0.0.1", node.port)) as client:
        (topic,) = client.ask("ListOffsets", _LIST_OFFSETS_VERSION, request).topics
    return [row.offset if not row.error_code else -1 for row in topic.partitions]


def delete_topic(node: Node, name: str) -> None:
    """Its files are gone when this returns."""
    request = DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=_TIMEOUT_MS)
    with WireClient(("127.0.0.1", node.port)) as client:
        (deleted,) = client.ask("DeleteTopics", _DELETE_VERSION, request).responses
    if deleted.error_code:
        raise TopicError(f"{node.name} did not delete {name}: {ErrorCode(deleted.error_code).name}")
    deadline = time.monotonic() + _GONE_SECONDS
    while any(node.data.glob(f"{name}-*")):
        if time.monotonic() > deadline:
            raise TopicError(f"{node.name} deleted {name}, and its files are still there after {_GONE_SECONDS:.0f} s")
        time.sleep(0.05)
