"""The smaller APIs around records: deletion, epochs, producers and their ids, sizes on disk."""

from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.image import EMPTY_IMAGE
from headrace.cluster.producer_ids import BLOCK_SIZE
from headrace.log.fs import RealFileSystem
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from headrace.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headrace.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest
from headrace.protocol.messages.metadata_records import PartitionChangeRecord, UnregisterBrokerRecord
from headrace.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headrace.server.later import Later
from headrace.server.partitions import CREATES_AT_ONCE
from headrace.server.producer_ids import ProducerIds
from tests.support.log_batches import a_batch
from tests.support.one_node import NODE_ID, NOW_MS, OneNode


def append(node: OneNode, *values: bytes, topic: str = "t", **how: Any) -> None:
    node.partition(topic).append(a_batch(*values, **how), acks=1, now_ms=NOW_MS)


@pytest.fixture
def node() -> OneNode:
    node = OneNode()
    node.create_topic("t")
    return node


class TestDeleteRecords:
    def delete(self, node: OneNode, offset: int, *, topic: str = "t", version: int = 2) -> tuple[ErrorCode, int]:
        request = DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])])
        ((row,),) = (found.partitions for found in node.ask("DeleteRecords", version, request).topics)
        return ErrorCode(row.error_code), row.low_watermark

    @pytest.mark.parametrize("version", range(3))
    def test_the_log_starts_where_it_is_told(self, node: OneNode, version: int) -> None:
        append(node, b"a", b"b", b"c")
        assert self.delete(node, 2, version=version) == (ErrorCode.NONE, 2)
        assert node.partition("t").log.log_start_offset == 2

    def test_minus_1_deletes_everything(self, node: OneNode) -> None:
        append(node, b"a", b"b")
        assert self.delete(node, -1) == (ErrorCode.NONE, 2)

    def test_deleting_what_is_gone_changes_nothing(self, node: OneNode) -> None:
        append(node, b"a", b"b", b"c")
        self.delete(node, 2)
        assert self.delete(node, 1) == (ErrorCode.NONE, 2)

    def test_what_is_refused(self, node: OneNode) -> None:
        append(node, b"a")
        node.create_topic("compacted", cleanup_policy="compact")
        node.create_topic("both", cleanup_policy="compact,delete")
        node.create_topic("__transaction_state")
        assert self.delete(node, 2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert self.delete(node, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert self.delete(node, 0, topic="nope") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert self.delete(node, 0, topic="compacted") == (ErrorCode.POLICY_VIOLATION, -1)
        assert self.delete(node, 0, topic="both") == (ErrorCode.NONE, 0)
        assert self.delete(node, 0, topic="__transaction_state") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


class TestOffsetForLeaderEpoch:
    def find(
        self, node: OneNode, epoch: int, *, current: int = -1, topic: str = "t", version: int = 4
    ) -> tuple[ErrorCode, int, int]:
        rows = [OffsetForLeaderPartition(0, current, epoch)]
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic, rows)])
        ((row,),) = (found.partitions for found in node.ask("OffsetForLeaderEpoch", version, request).topics)
        return ErrorCode(row.error_code), row.leader_epoch, row.end_offset

    @pytest.mark.parametrize("version", range(2, 5))
    def test_where_epochs_end(self, node: OneNode, version: int) -> None:
        append(node, b"a", b"b")
        topic_id = node.controller.image.topic_ids["t"]
        node.controller.write(PartitionChangeRecord(0, topic_id, leader=1))
        append(node, b"c")
        assert self.find(node, 0, version=version) == (ErrorCode.NONE, 0, 2)
        assert self.find(node, 1) == (ErrorCode.NONE, 1, 3)
        assert self.find(node, 7) == (ErrorCode.NONE, -1, -1)

    def test_what_is_refused(self, node: OneNode) -> None:
        assert self.find(node, 0, topic="nope")[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert self.find(node, 0, current=1)[0] is ErrorCode.UNKNOWN_LEADER_EPOCH


class TestInitProducerId:
    def init(self, node: OneNode, *, version: int = 5, **fields: Any) -> tuple[ErrorCode, int, int]:
        request = InitProducerIdRequest(transactional_id=None)._replace(**fields)
        row = node.ask("InitProducerId", version, request)
        return ErrorCode(row.error_code), row.producer_id, row.producer_epoch

    @pytest.mark.parametrize("version", range(6))
    def test_every_producer_gets_an_id_of_its_own(self, node: OneNode, version: int) -> None:
        assert self.init(node, version=version) == (ErrorCode.NONE, 0, 0)
        assert self.init(node, version=version) == (ErrorCode.NONE, 1, 0)

    def test_ids_come_from_blocks_of_the_controller(self, node: OneNode) -> None:
        ids = [self.init(node)[1] for _ in range(BLOCK_SIZE + 1)]
        assert ids == list(range(BLOCK_SIZE + 1))
        assert node.controller.image.next_producer_id == 2 * BLOCK_SIZE

    def test_those_who_wait_for_a_block_get_ids_in_their_order_from_as_many_blocks_as_it_takes(self) -> None:
        blocks: list[Later[AllocateProducerIdsResponse]] = []

        class SlowController:
            def submit(self, _: Any) -> Later[AllocateProducerIdsResponse]:
                blocks.append(Later())
                return blocks[-1]

        ids = ProducerIds(SlowController(), NODE_ID)  # type: ignore[arg-type]
        given: list[int | None] = []
        for _ in range(5):
            ids.take().then(given.append)
        gone = ids.take()
        gone.abandon()
        ids.take().then(given.append)
        assert (len(blocks), given) == (1, [])
        blocks[0].resolve(AllocateProducerIdsResponse(producer_id_start=100, producer_id_len=4))
        assert (len(blocks), given) == (2, [100, 101, 102, 103])
        blocks[1].resolve(AllocateProducerIdsResponse(producer_id_start=200, producer_id_len=4))
        assert given[4:] == [200, 202]
        ids.take().then(given.append)
        assert given[-1] == 203

    def test_two_brokers_never_give_out_the_same_id(self) -> None:
        node = OneNode(other_brokers=[2])
        assert self.init(node)[1] == 0
        again = OneNode(other_brokers=[2])
        again.controller.image = node.controller.image
        assert self.init(again)[1] == BLOCK_SIZE

    def test_a_broker_that_is_not_registered_asks_to_try_again(self, node: OneNode) -> None:
        epoch = node.controller.image.brokers[NODE_ID].epoch
        node.controller.write(UnregisterBrokerRecord(NODE_ID, epoch))
        assert self.init(node) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)

    def test_what_is_refused(self, node: OneNode) -> None:
        assert self.init(node, transactional_id="")[0] is ErrorCode.INVALID_REQUEST
        assert self.init(node, producer_id=5)[0] is ErrorCode.INVALID_REQUEST
        assert self.init(node, producer_epoch=5)[0] is ErrorCode.INVALID_REQUEST
        assert self.init(node, transactional_id="tx")[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE


class TestDescribeProducers:
    def describe(self, node: OneNode, topic: str = "t") -> Any:
        ((row,),) = (
            found.partitions
            for found in node.ask("DescribeProducers", 0, DescribeProducersRequest([TopicRequest(topic, [0])])).topics
        )
        return row

    def test_producers_and_open_transactions(self, node: OneNode) -> None:
        append(node, b"a", b"b", producer=7, producer_epoch=3)
        append(node, b"c", producer=8, transactional=True, timestamps=[NOW_MS + 1])
        seven, eight = self.describe(node).active_producers
        assert (seven.producer_id, seven.producer_epoch, seven.last_sequence) == (7, 3, 1)
        assert (seven.last_timestamp, seven.coordinator_epoch, seven.current_txn_start_offset) == (NOW_MS, -1, -1)
        assert (eight.producer_id, eight.last_timestamp, eight.current_txn_start_offset) == (8, NOW_MS + 1, 2)

    def test_an_unknown_topic(self, node: OneNode) -> None:
        assert ErrorCode(self.describe(node, "nope").error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_partition_that_is_named_twice(self, node: OneNode) -> None:
        append(node, b"a", producer=7)
        request = DescribeProducersRequest([TopicRequest("t", [0, 1]), TopicRequest("t", [0])])
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        rows = [row for topic in node.ask("DescribeProducers", 0, request).topics for row in topic.partitions]
        assert [row.error_code for row in rows] == [ErrorCode.INVALID_REQUEST, unknown, ErrorCode.INVALID_REQUEST]
        assert not any(row.active_producers for row in rows)


class TestDescribeLogDirs:
    def describe(self, node: OneNode, topics: Any = None, version: int = 5) -> Any:
        (result,) = node.ask("DescribeLogDirs", version, DescribeLogDirsRequest(topics)).results
        return result

    @pytest.mark.parametrize("version", range(1, 6))
    def test_sizes(self, node: OneNode, version: int) -> None:
        append(node, b"a")
        result = self.describe(node, version=version)
        assert result.log_dir == "/data"
        (topic,) = result.topics
        (row,) = topic.partitions
        assert (topic.name, row.partition_index, row.offset_lag) == ("t", 0, 0)
        assert row.partition_size == node.partition("t").log.size_bytes > 0

    def test_only_what_was_asked_for_and_is_here(self, node: OneNode) -> None:
        node.create_topic("u", partitions=2)
        wanted = [DescribableLogDirTopic("u", [1, 5]), DescribableLogDirTopic("nope", [0])]
        (topic,) = self.describe(node, wanted).topics
        assert (topic.name, [row.partition_index for row in topic.partitions]) == ("u", [1])
        assert not self.describe(node, []).topics

    def test_logs_that_sleep_are_woken_to_tell_their_size(self, node: OneNode) -> None:
        append(node, b"a")
        node.logs.close()
        again = OneNode(node.fs)
        again.partitions.apply(EMPTY_IMAGE, node.controller.image)
        (topic,) = self.describe(again).topics
        assert topic.partitions[0].partition_size > 0

    def test_many_logs_are_woken_some_at_a_time_while_others_have_their_turn(self, node: OneNode) -> None:
        node.create_topic("many", partitions=CREATES_AT_ONCE + 100)
        answer = node.send("DescribeLogDirs", 5, DescribeLogDirsRequest(None))
        awake = len(node.partitions)
        assert not answer.is_there
        node.clock.move(5)
        assert awake < len(node.partitions) < CREATES_AT_ONCE + 100
        node.clock.move(1000)
        (result,) = answer.response.results
        assert sum(len(topic.partitions) for topic in result.topics) == CREATES_AT_ONCE + 101

    def test_who_goes_away_meanwhile_is_not_waited_for(self, node: OneNode) -> None:
        node.create_topic("many", partitions=CREATES_AT_ONCE + 100)
        answer = node.send("DescribeLogDirs", 5, DescribeLogDirsRequest(None))
        assert answer.later is not None
        answer.later.abandon()
        awake = len(node.partitions)
        node.clock.move(1000)
        assert len(node.partitions) == awake

    def test_the_disk(self, tmp_path: Path) -> None:
        result = self.describe(OneNode(RealFileSystem(), str(tmp_path)))
        assert result.total_bytes >= result.usable_bytes > 0

    def test_a_disk_that_cannot_be_asked(self, node: OneNode) -> None:
        result = self.describe(node)
        assert (result.total_bytes, result.usable_bytes) == (-1, -1)
