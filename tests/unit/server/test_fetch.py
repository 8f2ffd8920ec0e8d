"""Fetch: how much is read, how far, when it waits and what wakes it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.log.append import Origin
from headrace.log.cutting import truncate_segment
from headrace.log.fs import RealFileSystem
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, NodeEndpoint
from headrace.protocol.messages.metadata_records import PartitionChangeRecord
from headrace.protocol.records import build_end_transaction_marker, iter_batches, read_records
from headrace.protocol.types import ZERO_UUID
from tests.support.log_batches import a_batch
from tests.support.one_node import NOW_MS, Answer, OneNode

COMMITTED = 1


def request(
    *offsets: tuple[int, int],
    topic: str | bytes = "t",
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    partition_max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    **fields: Any,
) -> FetchRequest:
    """(partition, offset) of each."""
    name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
    rows = [
        FetchPartition(
            index,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_fetched_epoch,
            partition_max_bytes=partition_max_bytes,
        )
        for index, offset in offsets
    ]
    topics = [FetchTopic(name, topic_id, rows)]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=topics)._replace(**fields)


def append(node: OneNode, *values: bytes, index: int = 0, topic: str = "t", **how: Any) -> None:
    node.partition(topic, index).append(a_batch(*values, **how), acks=1, now_ms=NOW_MS)


def rows_of(response: Any) -> list[Any]:
    return [row for topic in response.responses for row in topic.partitions]


def values_of(row: Any) -> list[bytes | None]:
    data = bytes(row.records)
    return [
        record.value
        for position, header in iter_batches(data)
        for record in read_records(data[position : position + header.size_bytes])
    ]


def fetch(node: OneNode, *offsets: tuple[int, int], version: int = 12, **how: Any) -> list[Any]:
    return rows_of(node.ask("Fetch", version, request(*offsets, **how)))


def code(row: Any) -> ErrorCode:
    return ErrorCode(row.error_code)


@pytest.fixture
def node() -> OneNode:
    node = OneNode()
    node.create_topic("t", partitions=3)
    return node


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_is_served(node: OneNode, version: int) -> None:
    append(node, b"a", b"b")
    topic = node.controller.image.topic_ids["t"] if version >= 13 else "t"
    (row,) = fetch(node, (0, 1), version=version, topic=topic)
    assert values_of(row) == [b"a", b"b"]  # whole batches: the consumer skips what it has
    assert (row.high_watermark, row.last_stable_offset) == (2, 2)


def test_records_come_from_real_files_too(tmp_path: Path) -> None:
    node = OneNode(RealFileSystem(), str(tmp_path))
    node.create_topic("t")
    append(node, b"a")
    append(node, b"b" * 100_000)
    (row,) = fetch(node, (0, 0))
    assert values_of(row) == [b"a", b"b" * 100_000]


def test_unknown_topics_and_partitions(node: OneNode) -> None:
    assert code(fetch(node, (9, 0))[0]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(fetch(node, (0, 0), topic="nope")[0]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(fetch(node, (0, 0), topic=b"?" * 16, version=13)[0]) is ErrorCode.UNKNOWN_TOPIC_ID


def test_offsets_outside_the_log(node: OneNode) -> None:
    append(node, b"a")
    for offset in (-1, 2):
        (row,) = fetch(node, (0, offset))
        assert (code(row), row.high_watermark, bytes(row.records)) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, b"")
    assert code(fetch(node, (0, 1), max_wait_ms=0)[0]) is ErrorCode.NONE


def test_a_consumer_that_knows_another_leader_is_told(node: OneNode) -> None:
    topic_id = node.controller.image.topic_ids["t"]
    node.controller.write(PartitionChangeRecord(0, topic_id, leader=1))  # another epoch of the same leader
    assert code(fetch(node, (0, 0), leader_epoch=0)[0]) is ErrorCode.FENCED_LEADER_EPOCH
    assert code(fetch(node, (0, 0), leader_epoch=2)[0]) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert code(fetch(node, (0, 0), leader_epoch=1, max_wait_ms=0)[0]) is ErrorCode.NONE


def test_who_leads_instead_is_said_from_version_16_on() -> None:
    node = OneNode(other_brokers=[2])
    topic_id = node.create_topic("far", replicas=[1, 2], leader=2)
    response = node.ask("Fetch", 16, request((0, 0), topic=topic_id))
    (row,) = rows_of(response)
    assert code(row) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert row.current_leader.leader_id == 2
    assert list(response.node_endpoints) == [NodeEndpoint(2, "host2", 9092)]


def test_a_replica_that_the_partition_does_not_have_gets_nothing(node: OneNode) -> None:
    append(node, b"a")
    assert code(fetch(node, (0, 0), replica_id=5)[0]) is ErrorCode.NOT_LEADER_OR_FOLLOWER


class TestLimits:
    BATCH = len(a_batch(b"x" * 1000))

    @pytest.fixture
    def node(self, node: OneNode) -> OneNode:
        for index in range(3):
            for _ in range(4):
                append(node, b"x" * 1000, index=index)
        return node

    def sizes(self, rows: Sequence[Any]) -> list[int]:
        return [len(row.records) // self.BATCH for row in rows]

    def test_each_partition_gives_at_most_what_was_asked_of_it(self, node: OneNode) -> None:
        rows = fetch(node, (0, 0), (1, 0), partition_max_bytes=2 * self.BATCH + 1)
        assert self.sizes(rows) == [2, 2]

    def test_all_together_give_at_most_what_was_asked(self, node: OneNode) -> None:
        assert self.sizes(fetch(node, (0, 0), (1, 0), (2, 0), max_bytes=5 * self.BATCH)) == [4, 1, 0]

    def test_the_first_batch_is_sent_whatever_its_size(self, node: OneNode) -> None:
        assert self.sizes(fetch(node, (0, 0), (1, 0), max_bytes=10)) == [1, 0]
        assert self.sizes(fetch(node, (0, 0), (1, 0), partition_max_bytes=10)) == [1, 0]

    def test_an_empty_partition_does_not_use_up_the_first_batch(self, node: OneNode) -> None:
        assert self.sizes(fetch(node, (0, 4), (1, 0), max_bytes=10)) == [0, 1]

    def test_the_broker_has_a_limit_of_its_own(self, node: OneNode) -> None:
        node.fetch_sessions.max_response_bytes = self.BATCH
        assert self.sizes(fetch(node, (0, 0), (1, 0))) == [1, 0]

    def test_a_consumer_behind_does_not_wait_for_what_is_there_and_does_not_fit(self, node: OneNode) -> None:
        enough = 2 * self.BATCH
        rows = fetch(node, (0, 0), min_bytes=enough, partition_max_bytes=enough - 1)
        assert self.sizes(rows) == [1]
        assert self.sizes(fetch(node, (0, 3), (1, 0), min_bytes=enough, max_bytes=enough)) == [1, 1]
        assert self.sizes(fetch(node, (0, 3), (1, 0), min_bytes=enough, max_bytes=enough + 5)) == [1, 1]
        assert self.sizes(fetch(node, (0, 3), (1, 0), min_bytes=enough - 5, max_bytes=enough - 5)) == [1, 0]

    def test_nor_for_what_is_in_the_next_segment(self, node: OneNode) -> None:
        node.create_topic("rolled", internal_segment_bytes="2500")
        for _ in range(3):
            append(node, b"x" * 1000, topic="rolled")
        assert len(node.partition("rolled").log.segments) == 2
        assert self.sizes(fetch(node, (0, 1), topic="rolled", min_bytes=2 * self.BATCH)) == [1]

    def test_one_that_has_read_all_waits_for_more(self, node: OneNode) -> None:
        wanted = request((0, 3), min_bytes=2 * self.BATCH, partition_max_bytes=2 * self.BATCH)
        answer = node.send("Fetch", 12, wanted)
        assert not answer.is_there
        append(node, b"x" * 1000)
        assert self.sizes(rows_of(answer.response)) == [2]

    def test_senseless_limits_are_harmless(self, node: OneNode) -> None:
        assert self.sizes(fetch(node, (0, 0), (1, 0), max_bytes=-5, partition_max_bytes=-5)) == [1, 0]


class TestWaiting:
    def send(self, node: OneNode, *offsets: tuple[int, int], **how: Any) -> Answer:
        return node.send("Fetch", 12, request(*offsets, **how))

    def test_an_append_wakes_a_consumer_at_the_end(self, node: OneNode) -> None:
        answer = self.send(node, (0, 0), (1, 0))
        assert not answer.is_there
        append(node, b"news", index=1)
        assert [values_of(row) for row in rows_of(answer.response)] == [[], [b"news"]]

    def test_an_append_elsewhere_does_not(self, node: OneNode) -> None:
        answer = self.send(node, (0, 0))
        append(node, b"other", index=1)
        assert not answer.is_there

    def test_it_waits_until_there_is_enough(self, node: OneNode) -> None:
        size = len(a_batch(b"x" * 100))
        append(node, b"x" * 100)
        answer = self.send(node, (0, 0), (1, 0), min_bytes=3 * size)
        append(node, b"x" * 100, index=1)
        assert not answer.is_there
        append(node, b"x" * 100)
        assert [len(row.records) for row in rows_of(answer.response)] == [2 * size, size]

    def test_when_time_is_up_it_gets_what_is_there(self, node: OneNode) -> None:
        append(node, b"little")
        answer = self.send(node, (0, 0), min_bytes=10_000, max_wait_ms=500)
        node.clock.move(499)
        assert not answer.is_there
        node.clock.move(1)
        assert values_of(rows_of(answer.response)[0]) == [b"little"]

    def test_without_patience_it_is_answered_at_once(self, node: OneNode) -> None:
        assert self.send(node, (0, 0), max_wait_ms=0).is_there
        assert self.send(node, (0, 0), min_bytes=0).is_there
        assert self.send(node).is_there

    def test_an_error_is_answered_at_once(self, node: OneNode) -> None:
        assert self.send(node, (0, 0), (9, 0)).is_there

    def test_the_end_of_the_leadership_wakes_it(self, node: OneNode) -> None:
        answer = self.send(node, (0, 0))
        topic_id = node.controller.image.topic_ids["t"]
        node.controller.write(PartitionChangeRecord(0, topic_id, leader=-1))
        assert code(rows_of(answer.response)[0]) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_the_deletion_of_the_topic_wakes_it(self, node: OneNode) -> None:
        answer = self.send(node, (0, 0))
        node.delete_topic("t")
        assert code(rows_of(answer.response)[0]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_deleting_the_records_it_waits_behind_does_not_wake_it(self, node: OneNode) -> None:
        append(node, b"a")
        answer = self.send(node, (0, 1))
        node.partition("t").advance_log_start(1)
        assert not answer.is_there

    def test_a_client_that_goes_leaves_nothing_behind(self, node: OneNode) -> None:
        answer = self.send(node, (0, 0))
        partition = node.partition("t")
        assert partition.watchers
        assert answer.later is not None
        answer.later.abandon()
        assert not partition.watchers
        append(node, b"a")
        node.clock.move(1000)
        assert not answer.is_there

    def test_an_answered_one_leaves_nothing_behind(self, node: OneNode) -> None:
        answer = self.send(node, (0, 0), (1, 0))
        append(node, b"a")
        assert answer.is_there
        assert not any(partition.watchers for partition in node.partitions)
        node.clock.move(1000)

    def test_several_consumers_are_woken_by_one_append(self, node: OneNode) -> None:
        answers = [self.send(node, (0, 0)) for _ in range(5)]
        append(node, b"a")
        assert all(answer.is_there for answer in answers)


def test_with_syncs_before_acknowledgements_readers_see_what_is_synced(node: OneNode) -> None:
    node.create_topic("safe", flush_messages="1")
    answer = node.send("Fetch", 12, request((0, 0), topic="safe"))
    append(node, b"a", topic="safe")
    assert not answer.is_there
    node.worker.step()
    assert values_of(rows_of(answer.response)[0]) == [b"a"]


class TestCommittedData:
    def marker(self, node: OneNode, *, commit: bool, producer: int = 7) -> None:
        partition = node.partition("t")
        batch = build_end_transaction_marker(
            commit=commit, coordinator_epoch=0, producer_id=producer, producer_epoch=0, timestamp=NOW_MS
        )
        partition.log.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
        partition._advance_high_watermark(len(batch))

    def test_readers_of_committed_data_stop_before_an_open_transaction(self, node: OneNode) -> None:
        append(node, b"before")
        append(node, b"inside", producer=7, transactional=True)
        (row,) = fetch(node, (0, 0), isolation_level=COMMITTED)
        assert values_of(row) == [b"before"]
        assert (row.high_watermark, row.last_stable_offset) == (2, 1)
        assert list(row.aborted_transactions) == []
        (row,) = fetch(node, (0, 0))
        assert values_of(row) == [b"before", b"inside"]
        assert row.aborted_transactions is None

    def test_the_end_of_a_transaction_wakes_them_however_small_it_is(self, node: OneNode) -> None:
        append(node, b"x" * 5000, producer=7, transactional=True)
        answer = node.send("Fetch", 12, request((0, 0), isolation_level=COMMITTED, min_bytes=4000))
        assert not answer.is_there
        self.marker(node, commit=True)
        assert rows_of(answer.response)[0].last_stable_offset == 2

    def test_what_was_aborted_is_listed(self, node: OneNode) -> None:
        append(node, b"kept")
        append(node, b"gone", producer=7, transactional=True)
        self.marker(node, commit=False)
        (row,) = fetch(node, (0, 0), isolation_level=COMMITTED)
        assert [(each.producer_id, each.first_offset) for each in row.aborted_transactions] == [(7, 1)]

    def test_it_is_listed_where_nothing_is_left_in_the_segment_of_the_offset(self, node: OneNode) -> None:
        log = node.partition("t").log
        append(node, b"kept")
        append(node, b"removed by compaction")
        truncate_segment(log.active, 1)
        log.roll(now_ms=NOW_MS)
        append(node, b"gone", producer=7, transactional=True)
        self.marker(node, commit=False)
        log.roll(now_ms=NOW_MS)
        append(node, b"later and", producer=8, transactional=True)
        self.marker(node, commit=False, producer=8)
        (row,) = fetch(node, (0, 1), isolation_level=COMMITTED)
        assert values_of(row)[0] == b"gone"
        assert [(each.producer_id, each.first_offset) for each in row.aborted_transactions] == [(7, 2)]


class TestDivergence:
    def test_a_reader_whose_history_ends_earlier_is_told_where(self, node: OneNode) -> None:
        append(node, b"a")
        topic_id = node.controller.image.topic_ids["t"]
        node.controller.write(PartitionChangeRecord(0, topic_id, leader=1))
        append(node, b"b")
        (row,) = fetch(node, (0, 2), last_fetched_epoch=0)
        assert (row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (0, 1)
        assert len(row.records) == 0
        (row,) = fetch(node, (0, 1), last_fetched_epoch=0)
        assert (row.diverging_epoch.epoch, values_of(row)) == (-1, [b"b"])

    def test_an_epoch_that_nobody_knows_is_out_of_range(self, node: OneNode) -> None:
        append(node, b"a")
        assert code(fetch(node, (0, 1), last_fetched_epoch=9)[0]) is ErrorCode.OFFSET_OUT_OF_RANGE
