"""ListOffsets: words and timestamps, isolation, epochs, and what is refused."""

from typing import Any

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.protocol.messages.metadata_records import PartitionChangeRecord
from headrace.server.offset_lookup import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from tests.support.log_batches import a_batch
from tests.support.one_node import NOW_MS, OneNode

CONSUMER = -1


def ask(
    node: OneNode, *timestamps: int, version: int = 11, topic: str = "t", leader_epoch: int = -1, **fields: Any
) -> list[Any]:
    """The answers for partitions 0, 1, ... of a consumer."""
    rows = [ListOffsetsPartition(index, leader_epoch, timestamp) for index, timestamp in enumerate(timestamps)]
    request = ListOffsetsRequest(CONSUMER, topics=[ListOffsetsTopic(topic, rows)])._replace(**fields)
    (found,) = node.ask("ListOffsets", version, request).topics
    return list(found.partitions)


def found(row: Any) -> tuple[int, int, int]:
    """Timestamp, offset and leader epoch."""
    assert row.error_code == 0, ErrorCode(row.error_code)
    return row.timestamp, row.offset, row.leader_epoch


def code(row: Any) -> ErrorCode:
    return ErrorCode(row.error_code)


@pytest.fixture
def node() -> OneNode:
    """Partition 0 has offsets 0, 1 (epoch 0) and 2, 3 (epoch 1), dated 10, 30, 20, 25 after NOW_MS; 1 is empty."""
    node = OneNode()
    topic_id = node.create_topic("t", partitions=2)
    partition = node.partition("t")
    partition.append(a_batch(b"a", b"b", timestamps=[NOW_MS + 10, NOW_MS + 30]), acks=1, now_ms=NOW_MS)
    node.controller.write(PartitionChangeRecord(0, topic_id, leader=1))
    partition.append(a_batch(b"c", b"d", timestamps=[NOW_MS + 20, NOW_MS + 25]), acks=1, now_ms=NOW_MS)
    return node


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_is_served(node: OneNode, version: int) -> None:
    assert [row.offset for row in ask(node, LATEST, EARLIEST, version=version)] == [4, 0]


def test_the_ends_of_a_log(node: OneNode) -> None:
    assert found(ask(node, LATEST)[0]) == (-1, 4, 1)
    assert found(ask(node, EARLIEST)[0]) == (-1, 0, 0)
    assert found(ask(node, EARLIEST_LOCAL)[0]) == (-1, 0, 0)
    node.partition("t").advance_log_start(3)
    assert found(ask(node, EARLIEST)[0]) == (-1, 3, 1)


def test_an_empty_partition(node: OneNode) -> None:
    assert found(ask(node, LATEST, LATEST)[1]) == (-1, 0, 0)
    assert found(ask(node, LATEST, NOW_MS)[1]) == (-1, -1, -1)
    assert found(ask(node, LATEST, MAX_TIMESTAMP)[1]) == (-1, -1, -1)


@pytest.mark.parametrize(
    ("after_ms", "expected"),
    [(0, (10, 0, 0)), (10, (10, 0, 0)), (11, (30, 1, 0)), (30, (30, 1, 0))],
)
def test_the_first_record_at_or_after_a_time(node: OneNode, after_ms: int, expected: tuple[int, int, int]) -> None:
    timestamp, offset, epoch = expected
    assert found(ask(node, NOW_MS + after_ms)[0]) == (NOW_MS + timestamp, offset, epoch)


def test_a_time_after_all_records(node: OneNode) -> None:
    assert found(ask(node, NOW_MS + 31)[0]) == (-1, -1, -1)


def test_the_record_with_the_largest_timestamp(node: OneNode) -> None:
    assert found(ask(node, MAX_TIMESTAMP)[0]) == (NOW_MS + 30, 1, 0)


def test_what_only_remote_storage_has(node: OneNode) -> None:
    assert found(ask(node, LATEST_TIERED)[0]) == (-1, -1, -1)
    assert found(ask(node, EARLIEST_PENDING_UPLOAD)[0]) == (-1, -1, -1)


def test_words_that_a_version_does_not_have(node: OneNode) -> None:
    for word, version in ((MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (EARLIEST_PENDING_UPLOAD, 10)):
        assert code(ask(node, word, version=version)[0]) is ErrorCode.UNSUPPORTED_VERSION
    assert code(ask(node, -7)[0]) is ErrorCode.UNSUPPORTED_VERSION


def test_readers_of_committed_data_end_before_an_open_transaction(node: OneNode) -> None:
    batch = a_batch(b"e", producer=7, transactional=True, timestamps=[NOW_MS + 50])
    node.partition("t").append(batch, acks=1, now_ms=NOW_MS)
    assert ask(node, LATEST)[0].offset == 5
    assert ask(node, LATEST, isolation_level=1)[0].offset == 4
    assert ask(node, NOW_MS + 40)[0].offset == 4
    assert found(ask(node, NOW_MS + 40, isolation_level=1)[0]) == (-1, -1, -1)


def test_with_syncs_before_acknowledgements_the_end_is_what_is_synced(node: OneNode) -> None:
    node.create_topic("safe", flush_messages="1")
    node.partition("safe").append(a_batch(b"a"), acks=1, now_ms=NOW_MS)
    assert ask(node, LATEST, topic="safe")[0].offset == 0
    assert found(ask(node, NOW_MS, topic="safe")[0]) == (-1, -1, -1)
    node.worker.step()
    assert ask(node, LATEST, topic="safe")[0].offset == 1


def test_what_is_refused(node: OneNode) -> None:
    assert code(ask(node, LATEST, topic="nope")[0]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(ask(node, LATEST, leader_epoch=0)[0]) is ErrorCode.FENCED_LEADER_EPOCH
    assert code(ask(node, LATEST, leader_epoch=2)[0]) is ErrorCode.UNKNOWN_LEADER_EPOCH
    twice = ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, LATEST), ListOffsetsPartition(0, -1, EARLIEST)])
    assert [code(row) for row in ask(node, topics=[twice])] == [ErrorCode.INVALID_REQUEST] * 2
