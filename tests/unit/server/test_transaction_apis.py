"""Transactions through the broker's APIs: from InitProducerId to what readers of committed data see."""

import errno
from typing import Any, cast

import pytest

from headrace.cluster.image import CLUSTER_DEFAULT, ConfigKind, ConfigResource
from headrace.coordinator.result import Producer, Step
from headrace.coordinator.transaction_state import MAX_EPOCH, Transaction, record_of
from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import encode_coordinator_record
from headrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headrace.protocol.messages.end_txn import EndTxnRequest
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest
from headrace.protocol.messages.list_transactions import ListTransactionsRequest
from headrace.protocol.messages.metadata_records import ConfigRecord, PartitionChangeRecord
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from headrace.protocol.records import NewRecord, build_batch
from headrace.server.later import Later
from headrace.server.producer_ids import ProducerIds
from tests.support.admin_node import AdminNode
from tests.support.one_node import NODE_ID, NOW_MS, OneNode

TIMEOUT_MS = 60_000
BROKER_ADDS = 12  # the version of Produce from which on clients leave the adding to the broker
CLIENT_ADDS = 11
NOBODY = -1
SINGLE_NODE = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
)
VERIFICATION = "transaction.partition.verification.enable"


@pytest.fixture
def node() -> OneNode:
    node = OneNode()
    node.create_topic("__transaction_state", 3, cleanup_policy="compact")
    node.create_topic("t", 2)
    node.coordinators.start(node.controller.image)
    return node


def begin(node: OneNode, transactional_id: str = "x", *, timeout_ms: int = TIMEOUT_MS) -> Producer:
    response = node.ask("InitProducerId", 5, InitProducerIdRequest(transactional_id, timeout_ms))
    assert response.error_code == 0, ErrorCode(response.error_code)
    return Producer(response.producer_id, response.producer_epoch)


def write(
    node: OneNode,
    producer: Producer,
    *values: bytes,
    sequence: int = 0,
    index: int = 0,
    version: int = BROKER_ADDS,
    transactional_id: str | None = "x",
) -> ErrorCode:
    batch = build_batch(
        [NewRecord(NOW_MS, None, value) for value in values],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        transactional=True,
    )
    request = ProduceRequest(
        transactional_id,
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(index, memoryview(batch))])],
    )
    response = node.ask("Produce", version, request)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


def end(node: OneNode, producer: Producer, *, commit: bool, version: int = 5) -> Any:
    return node.ask("EndTxn", version, EndTxnRequest("x", *producer, commit))


def add(node: OneNode, producer: Producer, *indexes: int) -> ErrorCode:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic("t", list(indexes))],
    )
    response = node.ask("AddPartitionsToTxn", 3, request)
    rows = response.results_by_topic_v3_and_below[0].results_by_partition
    (code,) = {row.partition_error_code for row in rows}
    return ErrorCode(code)


def test_ends_use_up_no_producer_ids(node: OneNode) -> None:
    def fresh_id() -> int:
        response = node.ask("InitProducerId", 5, InitProducerIdRequest(None, TIMEOUT_MS))
        return int(response.producer_id)

    producer = begin(node)
    before = fresh_id()
    for _ in range(3):
        assert write(node, producer, b"a") is ErrorCode.NONE
        response = end(node, producer, commit=True)
        assert response.error_code == 0
        producer = Producer(response.producer_id, response.producer_epoch)
    assert fresh_id() == before + 1


def test_a_producer_whose_epochs_run_out_goes_on_with_a_fresh_id(node: OneNode) -> None:
    producer = begin(node)
    record = record_of("x", Transaction(producer.producer_id, MAX_EPOCH - 1, TIMEOUT_MS))
    node.coordinators.transactions.advance("x", lambda _: Step((record,)))
    last = Producer(producer.producer_id, MAX_EPOCH - 1)
    assert write(node, last, b"a") is ErrorCode.NONE
    response = end(node, last, commit=True)
    assert (response.error_code, response.producer_epoch) == (0, 0)
    assert response.producer_id != producer.producer_id
    assert write(node, Producer(response.producer_id, 0), b"b") is ErrorCode.NONE


def test_a_transactional_id_that_is_empty_is_refused(node: OneNode) -> None:
    places = [AddPartitionsToTxnTopic("t", [0])]
    asked = [
        node.ask("InitProducerId", 5, InitProducerIdRequest("", TIMEOUT_MS)).error_code,
        node.ask("EndTxn", 5, EndTxnRequest("", 1, 0, True)).error_code,
        node.ask("AddOffsetsToTxn", 4, AddOffsetsToTxnRequest("", 1, 0, "g")).error_code,
        node.ask("AddPartitionsToTxn", 3, AddPartitionsToTxnRequest((), "", 1, 0, places))
        .results_by_topic_v3_and_below[0]
        .results_by_partition[0]
        .partition_error_code,
    ]
    assert asked == [ErrorCode.INVALID_REQUEST] * 4


def test_markers_that_were_held_up_do_not_end_the_next_transaction() -> None:
    """The shard that ordered them is gone; the one in its place has written its own, and a new transaction is open."""
    node = OneNode()
    node.create_topic("__transaction_state", 1, cleanup_policy="compact")
    node.create_topic("t", 2)
    node.coordinators.start(node.controller.image)
    faults = cast("MemoryFileSystem", node.fs).faults
    producer, other = begin(node), begin(node, "y", timeout_ms=100)
    assert add(node, producer, 0) is ErrorCode.NONE
    assert write(node, producer, b"a", version=CLIENT_ADDS) is ErrorCode.NONE
    assert write(node, other, b"c", index=1, transactional_id="y") is ErrorCode.NONE
    faults.append(Fault("append", errno.ENOSPC, path_end="/t-0/00000000000000000000.log"))
    assert end(node, producer, commit=True, version=4).error_code == 0
    assert stable_offset(node) == 0  # the marker has found no room, and is tried again later
    faults.append(Fault("append", errno.ENOSPC, path_end="/__transaction_state-0/00000000000000000000.log"))
    node.clock.move(100)  # the other transaction takes too long; that cannot be written, so the shard starts again
    assert add(node, producer, 0) is ErrorCode.NONE  # the marker is there, since there is room
    assert stable_offset(node) == 2
    assert write(node, producer, b"b", sequence=1, version=CLIENT_ADDS) is ErrorCode.NONE
    node.clock.move(2000)
    assert stable_offset(node) == 2  # this one is open
    assert end(node, producer, commit=False, version=4).error_code == 0
    log = node.partition("t").log
    assert [each.first_offset for each in log.aborted_transactions(0, log.log_end_offset)] == [2]


def test_who_wants_no_answer_and_is_refused_after_the_coordinator_was_asked_loses_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = OneNode()
    node.create_topic("__transaction_state", 1, flush_messages="1")
    node.create_topic("t", 1)
    node.coordinators.start(node.controller.image)
    reasons: list[str] = []
    monkeypatch.setattr(node.asker, "close", reasons.append, raising=False)
    ask = InitProducerIdRequest("x", TIMEOUT_MS)
    asked = node.send("InitProducerId", 5, ask)
    node.worker.step()
    batch = build_batch(
        [NewRecord(NOW_MS, None, b"a")],
        producer_id=asked.response.producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    batch[-1] ^= 1
    rows = [PartitionProduceData(0, memoryview(batch))]
    node.send("Produce", BROKER_ADDS, ProduceRequest("x", 0, 1000, [TopicProduceData("t", partition_data=rows)]))
    another = node.send("InitProducerId", 5, InitProducerIdRequest("y", TIMEOUT_MS))
    assert (reasons, another.is_there) == ([], False)  # one waits for a sync, the other one for the next
    node.worker.step()
    assert ["acks=0" in reason for reason in reasons] == [True]
    node.worker.step()
    assert another.response.error_code == 0


def stable_offset(node: OneNode, index: int = 0) -> int:
    return node.partition("t", index).log.last_stable_offset


def end_offset(node: OneNode, index: int = 0) -> int:
    return node.partition("t", index).log.log_end_offset


def test_readers_of_committed_data_wait_for_the_end(node: OneNode) -> None:
    producer = begin(node)
    assert write(node, producer, b"a", b"b") is ErrorCode.NONE
    assert write(node, producer, b"c", sequence=2) is ErrorCode.NONE
    assert (stable_offset(node), end_offset(node)) == (0, 3)
    ended = end(node, producer, commit=True)
    assert (ended.error_code, ended.producer_epoch) == (0, 1)
    assert (stable_offset(node), end_offset(node)) == (4, 4)
    assert node.partition("t").log.aborted_transactions(0, 4) == []


def test_what_is_aborted_is_in_the_list_that_readers_get(node: OneNode) -> None:
    producer = begin(node)
    write(node, producer, b"a")
    end(node, producer, commit=False)
    assert stable_offset(node) == 2
    (aborted,) = node.partition("t").log.aborted_transactions(0, 2)
    assert (aborted.producer_id, aborted.first_offset) == (producer.producer_id, 0)


def test_a_producer_goes_on_with_the_epoch_that_it_was_told(node: OneNode) -> None:
    producer = begin(node)
    for _ in range(3):
        assert write(node, producer, b"a") is ErrorCode.NONE
        ended = end(node, producer, commit=True)
        producer = Producer(ended.producer_id, ended.producer_epoch)
    assert producer.epoch == 3
    assert stable_offset(node) == 6


def test_several_partitions_end_together(node: OneNode) -> None:
    producer = begin(node)
    write(node, producer, b"a", index=0)
    write(node, producer, b"b", index=1)
    assert [stable_offset(node, 0), stable_offset(node, 1)] == [0, 0]
    end(node, producer, commit=True)
    assert [stable_offset(node, 0), stable_offset(node, 1)] == [2, 2]


def test_a_message_that_comes_too_late_is_refused(node: OneNode) -> None:
    producer = begin(node)
    write(node, producer, b"a")
    end(node, producer, commit=True)
    assert write(node, producer, b"late", sequence=1) is not ErrorCode.NONE
    assert end_offset(node) == 2


@pytest.mark.parametrize("resource", [CLUSTER_DEFAULT, ConfigResource(ConfigKind.BROKER, "1")])
def test_older_clients_are_not_verified_if_that_is_switched_off(node: OneNode, resource: ConfigResource) -> None:
    late = Producer(77, 0)
    assert write(node, late, b"late", version=CLIENT_ADDS) is not ErrorCode.NONE
    node.controller.write(ConfigRecord(*resource, VERIFICATION, "false"))
    assert write(node, late, b"late", version=CLIENT_ADDS) is ErrorCode.NONE
    assert write(node, Producer(78, 0), b"late", version=BROKER_ADDS) is not ErrorCode.NONE
    node.controller.write(ConfigRecord(*resource, VERIFICATION, None))
    assert write(node, Producer(79, 0), b"late", version=CLIENT_ADDS) is not ErrorCode.NONE


def test_a_zombie_is_fenced_by_its_successor(node: OneNode) -> None:
    zombie = begin(node)
    write(node, zombie, b"a")
    again = node.ask("InitProducerId", 5, InitProducerIdRequest("x", TIMEOUT_MS))
    assert again.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert stable_offset(node) == 2, "its transaction is aborted"
    successor = begin(node)
    assert write(node, zombie, b"b", sequence=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(node, zombie, commit=True).error_code == ErrorCode.PRODUCER_FENCED
    assert end(node, zombie, commit=True, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(node, successor, b"c") is ErrorCode.NONE


class TestOlderClients:
    def test_partitions_must_be_added_first(self, node: OneNode) -> None:
        producer = begin(node)
        assert write(node, producer, b"a", version=CLIENT_ADDS) is ErrorCode.TRANSACTION_ABORTABLE
        assert end_offset(node) == 0
        assert add(node, producer, 0) is ErrorCode.NONE
        assert write(node, producer, b"a", version=CLIENT_ADDS) is ErrorCode.NONE
        assert end(node, producer, commit=True, version=4).error_code == 0
        assert stable_offset(node) == 2

    def test_the_epoch_stays_and_the_next_transaction_goes_on_with_the_sequence(self, node: OneNode) -> None:
        producer = begin(node)
        for sequence in range(3):
            add(node, producer, 0)
            assert write(node, producer, b"a", version=CLIENT_ADDS, sequence=sequence) is ErrorCode.NONE
            assert end(node, producer, commit=True, version=4).error_code == 0
        assert stable_offset(node) == 6

    def test_a_partition_that_is_not_there_spoils_all(self, node: OneNode) -> None:
        producer = begin(node)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic("t", [0, 7])],
        )
        response = node.ask("AddPartitionsToTxn", 3, request)
        rows = response.results_by_topic_v3_and_below[0].results_by_partition
        assert [(row.partition_index, row.partition_error_code) for row in rows] == [
            (0, ErrorCode.OPERATION_NOT_ATTEMPTED),
            (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]

    def test_brokers_add_for_clients_of_version_2(self, node: OneNode) -> None:
        producer = begin(node)
        transaction = AddPartitionsToTxnTransaction("x", *producer, topics=[AddPartitionsToTxnTopic("t", [0])])
        node.ask("AddPartitionsToTxn", 4, AddPartitionsToTxnRequest([transaction]))
        said = node.coordinators.transactions.look("x", lambda shard: shard.transactions["x"].client_version, int)
        assert said.value == 2

    def test_brokers_verify_for_several_transactions(self, node: OneNode) -> None:
        producer = begin(node)
        add(node, producer, 0)
        transaction = AddPartitionsToTxnTransaction(
            "x", *producer, verify_only=True, topics=[AddPartitionsToTxnTopic("t", [0, 1])]
        )
        other = transaction._replace(transactional_id="y")
        response = node.ask("AddPartitionsToTxn", 5, AddPartitionsToTxnRequest([transaction, other]))
        codes = [
            [row.partition_error_code for row in result.topic_results[0].results_by_partition]
            for result in response.results_by_transaction
        ]
        assert codes == [
            [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE],
            [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2,
        ]


def test_a_transaction_that_takes_too_long_ends_by_itself(node: OneNode) -> None:
    producer = begin(node)
    write(node, producer, b"a")
    node.clock.move(TIMEOUT_MS - 1)
    assert stable_offset(node) == 0
    node.clock.move(1)
    assert stable_offset(node) == 2
    assert end(node, producer, commit=True).error_code != 0


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_producer_whose_time_is_over_with_its_last_epoch_goes_on_with_a_fresh_id(
    node: OneNode, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    producer = begin(node)
    record = record_of("x", Transaction(producer.producer_id, MAX_EPOCH - 1, TIMEOUT_MS))
    node.coordinators.transactions.advance("x", lambda _: Step((record,)))
    last = Producer(producer.producer_id, MAX_EPOCH - 1)
    assert write(node, last, b"a") is ErrorCode.NONE
    if is_refused:  # by the controller, at first
        nothing: Later[int | None] = Later()
        nothing.resolve(None)
        with monkeypatch.context() as patch:
            patch.setattr(ProducerIds, "take", lambda _: nothing)
            node.clock.move(TIMEOUT_MS)
            assert stable_offset(node) == 0
        node.clock.move(1_000)
    else:
        node.clock.move(TIMEOUT_MS)
    assert stable_offset(node) == 2
    assert write(node, last, b"b", sequence=1) is not ErrorCode.NONE
    response = node.ask("InitProducerId", 5, InitProducerIdRequest("x", TIMEOUT_MS, *last))
    assert (response.error_code, response.producer_epoch) == (0, 0)
    assert response.producer_id != producer.producer_id
    assert write(node, Producer(response.producer_id, 0), b"c") is ErrorCode.NONE


def elect(node: OneNode, leader: int) -> None:
    """Of partition 0."""
    topic_id = node.controller.image.topic_ids["t"]
    node.controller.write(PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader))


def test_an_end_that_was_decided_before_a_crash_is_carried_out_after_it(node: OneNode) -> None:
    producer = begin(node)
    write(node, producer, b"a")
    log = node.partition("t").log
    elect(node, NOBODY)
    assert end(node, producer, commit=True).error_code == 0
    assert log.last_stable_offset == 0
    node.coordinators.stop()
    elect(node, NODE_ID)
    node.coordinators.start(node.controller.image)
    node.clock.move(0)
    assert log.last_stable_offset == 2
    described = node.ask("DescribeTransactions", 0, DescribeTransactionsRequest(["x"]))
    assert described.transaction_states[0].transaction_state == "CompleteCommit"


def test_a_marker_waits_until_its_partition_is_led_again(node: OneNode) -> None:
    producer = begin(node)
    write(node, producer, b"a")
    log = node.partition("t").log
    elect(node, NOBODY)
    end(node, producer, commit=True)
    node.clock.move(10_000)
    assert log.last_stable_offset == 0
    again = write(node, Producer(producer.producer_id, 1), b"b")
    assert again is ErrorCode.NOT_LEADER_OR_FOLLOWER
    elect(node, NODE_ID)
    assert write(node, Producer(producer.producer_id, 1), b"b") is ErrorCode.NOT_ENOUGH_REPLICAS, "try again"
    node.clock.move(1_000)
    assert log.last_stable_offset == 2
    assert write(node, Producer(producer.producer_id, 1), b"b") is ErrorCode.NONE


def test_a_topic_that_was_deleted_meanwhile_does_not_hold_up_the_end(node: OneNode) -> None:
    producer = begin(node)
    write(node, producer, b"a")
    node.delete_topic("t")
    end(node, producer, commit=True)
    described = node.ask("DescribeTransactions", 0, DescribeTransactionsRequest(["x"]))
    assert described.transaction_states[0].transaction_state == "CompleteCommit"


def test_tools_end_a_transaction_that_hangs(node: OneNode) -> None:
    producer = begin(node)
    write(node, producer, b"a")
    marker = WritableTxnMarker(*producer, False, [WritableTxnMarkerTopic("t", [0, 9])], coordinator_epoch=0)
    response = node.ask("WriteTxnMarkers", 1, WriteTxnMarkersRequest([marker]))
    rows = response.markers[0].topics[0].partitions
    assert [row.error_code for row in rows] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert stable_offset(node) == 2


def test_transactions_are_listed_and_described(node: OneNode) -> None:
    producer = begin(node)
    write(node, producer, b"a", index=1)
    begin(node, "y")
    listed = node.ask("ListTransactions", 1, ListTransactionsRequest(state_filters=["Ongoing", "Lazy"]))
    assert [(row.transactional_id, row.transaction_state) for row in listed.transaction_states] == [("x", "Ongoing")]
    assert listed.unknown_state_filters == ["Lazy"]
    (row, missing) = node.ask(
        "DescribeTransactions", 0, DescribeTransactionsRequest(["x", "z", "x"])
    ).transaction_states
    assert (row.topics[0].topic, list(row.topics[0].partitions)) == ("t", [1])
    assert missing.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def ids_like(node: OneNode, pattern: str | None, **filters: Any) -> list[str]:
    request = ListTransactionsRequest(transactional_id_pattern=pattern, **filters)
    listed = node.ask("ListTransactions", 2, request)
    assert listed.error_code == ErrorCode.NONE
    return sorted(row.transactional_id for row in listed.transaction_states)


def test_transactions_are_listed_by_a_pattern_of_their_ids(node: OneNode) -> None:
    for name in ("till-1", "till-2", "Straße", "lager"):
        begin(node, name)
    write(node, begin(node, "till-1"), b"a", transactional_id="till-1")
    assert ids_like(node, "till-.*") == ["till-1", "till-2"]
    assert ids_like(node, "till") == []
    assert ids_like(node, "(?i)STRAßE|lager") == ["Straße", "lager"]
    assert ids_like(node, "till-.*", state_filters=["Ongoing"]) == ["till-1"]
    assert ids_like(node, "") == ids_like(node, None) == ["Straße", "lager", "till-1", "till-2"]
    refused = node.ask("ListTransactions", 2, ListTransactionsRequest(transactional_id_pattern="(a"))
    assert (refused.error_code, refused.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])


def test_others_have_their_turn_while_ids_are_compared_with_a_slow_pattern(node: OneNode) -> None:
    name = "ab" * 300
    begin(node, name)
    slow = "(a|b)*a(a|b){600}|.*"
    asked = node.send("ListTransactions", 2, ListTransactionsRequest(transactional_id_pattern=slow))
    turns = 0
    while not asked.is_there:
        node.clock.leap(node.clock.now_ms())
        turns += 1
    assert turns > 3
    assert [row.transactional_id for row in asked.response.transaction_states] == [name]
    left = node.send("ListTransactions", 2, ListTransactionsRequest(transactional_id_pattern=slow))
    assert left.later is not None
    left.later.abandon()
    node.clock.move(0)
    assert not left.is_there


def test_the_coordinator_is_found_by_the_leader_of_its_partition(node: OneNode) -> None:
    for version in (1, 2, 3):
        found = node.ask("FindCoordinator", version, FindCoordinatorRequest("x", 1))
        assert (found.error_code, found.node_id, found.host) == (0, 1, "host1")
    several = node.ask("FindCoordinator", 6, FindCoordinatorRequest(key_type=1, coordinator_keys=["x", "y"]))
    assert [(row.key, row.node_id) for row in several.coordinators] == [("x", 1), ("y", 1)]


def test_a_transaction_goes_on_while_its_coordinator_waits_for_the_disk() -> None:
    node = OneNode()
    node.create_topic("__transaction_state", 1, cleanup_policy="compact", flush_messages="1")
    node.create_topic("t", 1)
    node.coordinators.start(node.controller.image)
    asked = node.send("InitProducerId", 5, InitProducerIdRequest("x", TIMEOUT_MS))
    assert not asked.is_there
    node.worker.step()
    producer = Producer(asked.response.producer_id, asked.response.producer_epoch)
    batch = build_batch(
        [NewRecord(NOW_MS, None, b"a")],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, memoryview(batch))])]
    written = node.send("Produce", BROKER_ADDS, ProduceRequest("x", -1, 1000, data))
    assert not written.is_there, "the partition is not part of the transaction until that is on disk"
    node.worker.step()
    assert written.response.responses[0].partition_responses[0].error_code == 0
    assert node.partition("t").log.log_end_offset == 1


def test_offsets_can_be_added_before_anybody_has_looked_for_a_group() -> None:
    """aiokafka does so; the topic of the groups does not exist yet."""
    node = AdminNode(static=dict.fromkeys(SINGLE_NODE, "1"))
    node.coordinators.start(node.image)
    (found,) = node.ask("FindCoordinator", 4, FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])).coordinators
    assert found.error_code == ErrorCode.NONE
    identity = node.ask("InitProducerId", 5, InitProducerIdRequest("x", TIMEOUT_MS))
    adding = AddOffsetsToTxnRequest("x", identity.producer_id, identity.producer_epoch, "g")
    assert "__consumer_offsets" not in node.image.topic_ids
    assert node.ask("AddOffsetsToTxn", 0, adding).error_code == ErrorCode.NONE
    (described,) = node.ask("DescribeTransactions", 0, DescribeTransactionsRequest(["x"])).transaction_states
    assert [topic.topic for topic in described.topics] == ["__consumer_offsets"]


def test_a_state_that_only_a_newer_version_knows_is_ignored_and_the_rest_is_loaded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = OneNode()
    node.create_topic("__transaction_state", 1, cleanup_policy="compact")
    for transactional_id, state in (("a", 0), ("b", 8), ("c", -1), ("d", 0)):
        record = record_of(transactional_id, Transaction(7, 3, TIMEOUT_MS))
        assert record.value is not None
        value = record.value._replace(transaction_status=state)
        key, content = encode_coordinator_record(record.type, record.key, value, record.version)
        batch = build_batch([NewRecord(NOW_MS, key, content)])
        node.partition("__transaction_state").append_as_coordinator(batch, now_ms=NOW_MS)
    node.coordinators.start(node.controller.image)
    states = node.ask("DescribeTransactions", 0, DescribeTransactionsRequest(["a", "b", "c", "d"])).transaction_states
    assert [state.error_code for state in states] == [
        ErrorCode.NONE,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.NONE,
    ]
    assert [line for line in caplog.messages if "is not understood" in line and "state " in line] == caplog.messages
    assert len(caplog.messages) == 2
    assert begin(node, "d") == Producer(7, 4)
