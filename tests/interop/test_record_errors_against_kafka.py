"""Which records of a batch are refused: Apache Kafka and Headrace name the same ones, with the same code."""

import time
from typing import Any

import pytest

from headrace.protocol.compression import Codec
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.records import NewRecord, build_batch
from tests.support.both_brokers import unique
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.kafka

HOUR_MS = 3_600_000
SETTLED_SECONDS = 120.0  # so long the machine may be busy; what needs it is broken
NOT_YET = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
# By topic: its configs, and keys and ages of the records of a batch. A negative age is in the future.
CASES: dict[str, tuple[dict[str, str], list[tuple[bytes | None, int | None]]]] = {
    "keys": ({"cleanup.policy": "compact"}, [(b"k", 0), (None, 0), (None, 0)]),
    "future": ({}, [(b"k", 0), (b"k", -2 * HOUR_MS), (b"k", 0), (None, -3 * HOUR_MS)]),
    "past": ({"message.timestamp.before.max.ms": str(HOUR_MS)}, [(b"k", 0), (b"k", 2 * HOUR_MS), (b"k", -2 * HOUR_MS)]),
    "mixed": (
        {"cleanup.policy": "compact", "message.timestamp.before.max.ms": str(HOUR_MS)},
        [(None, 0), (b"k", 2 * HOUR_MS), (None, 2 * HOUR_MS), (b"k", 0)],
    ),
    "without time": ({"message.timestamp.before.max.ms": str(HOUR_MS)}, [(b"k", None)]),
    "append time": ({"message.timestamp.type": "LogAppendTime"}, [(b"k", -9 * HOUR_MS), (None, 9 * HOUR_MS)]),
}


def observe(address: str) -> dict[tuple[str, str, int], tuple[str, list[int]]]:
    """By case, codec and version: the code, and the places of the records that are blamed."""
    host, _, port = address.rpartition(":")
    seen = {}
    with WireClient((host, int(port))) as client:
        for case, (configs, records) in CASES.items():
            topic = unique("record-errors")
            rows = [CreatableTopicConfig(*config) for config in configs.items()]
            created = client.ask("CreateTopics", 7, CreateTopicsRequest([CreatableTopic(topic, 1, 1, configs=rows)]))
            assert created.topics[0].error_code == 0
            for codec in (Codec.NONE, Codec.LZ4):
                now_ms = time.time_ns() // 1_000_000
                batch = bytes(
                    build_batch(
                        [NewRecord(-1 if age is None else now_ms - age, key, b"v") for key, age in records], codec=codec
                    )
                )
                for version in (7, 8, 12):
                    row = produce(client, version, topic, batch)
                    places = [each.batch_index for each in row.record_errors]
                    assert all(each.batch_index_error_message for each in row.record_errors)
                    seen[case, codec.name, version] = (ErrorCode(row.error_code).name, places)
    return seen


def produce(client: WireClient, version: int, topic: str, batch: bytes) -> Any:
    """The answer of the leader, as soon as there is one."""
    rows = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
    deadline = time.monotonic() + SETTLED_SECONDS
    while True:
        response = client.ask("Produce", version, ProduceRequest(None, 1, 30_000, rows))
        row = response.responses[0].partition_responses[0]
        if row.error_code not in NOT_YET or time.monotonic() > deadline:
            return row


def test_both_blame_the_same_records(kafka_bootstrap: str, headrace_bootstrap: str) -> None:
    ours = observe(headrace_bootstrap)
    assert ours == observe(kafka_bootstrap)
    assert ours["mixed", "LZ4", 12] == ("INVALID_TIMESTAMP", [0, 1, 2])
