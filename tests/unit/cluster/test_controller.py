"""The controller as a whole: what is decided counts at once, and any history replays to itself."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cluster.brokers import unregister_broker
from headrace.cluster.config_changes import DELETE, SET, alter_configs_incrementally
from headrace.cluster.controller import Controller, activation_records
from headrace.cluster.decision import Decision
from headrace.cluster.elections import elect_leaders, routine_elections
from headrace.cluster.features import default_levels
from headrace.cluster.image import EMPTY_IMAGE, Image
from headrace.cluster.isr import alter_partition
from headrace.cluster.metadata_records import decode_record, encode_record, record_version
from headrace.cluster.partitions import create_partitions
from headrace.cluster.producer_ids import allocate_producer_ids
from headrace.cluster.reassignments import alter_reassignments
from headrace.cluster.replay import Replay
from headrace.cluster.snapshot import image_records
from headrace.cluster.topics import create_topics, delete_topics
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headrace.protocol.messages.alter_partition import AlterPartitionRequest, PartitionData, TopicData
from headrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest
from headrace.protocol.messages.elect_leaders import ElectLeadersRequest
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    FeatureLevelRecord,
    TopicRecord,
)
from headrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.unit.cluster.harness import SESSION_TIMEOUT_MS, Cluster

ORDERS, USERS = b"o" * 16, b"u" * 16


def topic(name: str, topic_id: bytes) -> Decision[str]:
    return Decision((TopicRecord(name, topic_id),), f"created {name}")


@pytest.fixture
def controller() -> Controller:
    return Cluster().controller


def test_a_decision_counts_for_the_next_one_before_it_is_committed(controller: Controller) -> None:
    start = controller.next_offset
    first = controller.adopt(topic("orders", ORDERS))
    assert (first.base_offset, first.reply_offset, first.reply) == (start, start, "created orders")
    assert "orders" in controller.image.topic_ids
    assert "orders" not in controller.committed_image.topic_ids
    second = controller.adopt(topic("users", USERS))
    controller.commit(start + 1)
    assert set(controller.committed_image.topic_ids) == {"orders"}
    controller.commit(start + 2)
    assert controller.committed_image == controller.image
    assert second.reply_offset == start + 1


def test_an_answer_that_needs_no_record_waits_for_what_it_rests_on(controller: Controller) -> None:
    written = controller.adopt(topic("orders", ORDERS))
    refused: Decision[str] = Decision((), "exists already")
    assert controller.adopt(refused).reply_offset == written.reply_offset


def test_who_loses_the_office_forgets_what_was_not_committed(controller: Controller) -> None:
    start = controller.next_offset
    controller.adopt(topic("orders", ORDERS))
    controller.adopt(topic("users", USERS))
    controller.commit(start + 1)
    replay = controller.resign()
    assert set(replay.image.topic_ids) == {"orders"}
    replay.apply([TopicRecord("users", ORDERS[:-1] + b"!")], base_offset=start + 1)  # another leader's, same name
    assert set(replay.image.topic_ids) == {"orders", "users"}


def test_a_decision_that_could_not_be_written_does_not_count(controller: Controller) -> None:
    start = controller.next_offset
    controller.adopt(topic("orders", ORDERS))
    before = controller.image
    controller.withdraw(controller.adopt(topic("users", USERS)))
    assert (controller.image, controller.next_offset) == (before, start + 1)
    again = controller.adopt(topic("users", USERS))
    assert again.base_offset == start + 1
    controller.commit(start + 2)
    assert controller.committed_image == controller.image
    assert set(controller.image.topic_ids) == {"orders", "users"}


def test_only_the_last_decision_can_be_withdrawn(controller: Controller) -> None:
    first = controller.adopt(topic("orders", ORDERS))
    controller.adopt(topic("users", USERS))
    with pytest.raises(AssertionError, match="and the last decision ends at"):
        controller.withdraw(first)


def test_control_records_move_the_next_offset(controller: Controller) -> None:
    controller.skip(controller.next_offset + 3)
    outcome = controller.adopt(topic("orders", ORDERS))
    assert outcome.base_offset == controller.next_offset - 1


def test_a_new_cluster_begins_as_one_of_kafka_does() -> None:
    cluster = Cluster()
    decision = activation_records(Replay(), cluster.settings, default_levels(30))
    assert list(decision.records) == [
        FeatureLevelRecord("metadata.version", 30),
        FeatureLevelRecord("eligible.leader.replicas.version", 1),
        FeatureLevelRecord("group.version", 1),
        FeatureLevelRecord("share.version", 1),
        FeatureLevelRecord("streams.version", 1),
        FeatureLevelRecord("transaction.version", 2),
        ConfigRecord(4, "", "min.insync.replicas", "1"),
    ]
    replay = Replay(EMPTY_IMAGE.apply(decision.records))
    assert activation_records(replay, cluster.settings, default_levels(30)).records == ()


def test_a_transaction_that_was_left_open_is_ended_first() -> None:
    cluster = Cluster()
    replay = Replay()
    replay.apply(
        [BeginTransactionRecord("Bootstrap records"), FeatureLevelRecord("metadata.version", 30)], base_offset=0
    )
    decision = activation_records(replay, cluster.settings, default_levels(25))
    assert isinstance(decision.records[0], AbortTransactionRecord)
    assert decision.records[1] == FeatureLevelRecord("metadata.version", 25)
    replay.apply(decision.records, base_offset=2)
    assert replay.image.metadata_version == 25


# ---- any history

BROKERS = (1, 2, 3, 4)
NAMES = ("orders", "users", "a.b", "a_b")
small = st.integers(0, 7)
Step = tuple[str, int, int, int]


def _name(number: int) -> str:
    return NAMES[number % len(NAMES)]


def _broker(number: int) -> int:
    return BROKERS[number % len(BROKERS)]


class History:
    """Operations with any arguments on one cluster."""

    def __init__(self, *, elr: bool, min_isr: int) -> None:
        static = {"min.insync.replicas": str(min_isr)}
        self.cluster = Cluster(1, 2, 3, levels={"eligible.leader.replicas.version": int(elr)}, static=static)

    def create(self, a: int, b: int, c: int) -> None:
        request = CreateTopicsRequest(topics=[CreatableTopic(_name(a), b, c)])
        cluster = self.cluster
        cluster.do(create_topics(cluster.image, cluster.settings, request, cluster.chance()))

    def delete(self, a: int, b: int, c: int) -> None:
        request = DeleteTopicsRequest(topic_names=[_name(a)])
        self.cluster.do(delete_topics(self.cluster.image, self.cluster.settings, request))

    def grow(self, a: int, b: int, c: int) -> None:
        request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(_name(a), b, None)])
        self.cluster.do(create_partitions(self.cluster.image, request, self.cluster.random))

    def config(self, a: int, b: int, c: int) -> None:
        names = ("min.insync.replicas", "unclean.leader.election.enable", "retention.ms")
        values = ("1", "2", "true", "false", "700000")
        row = AlterableConfig(names[b % 3], SET if c < 6 else DELETE, values[c % 5] if c < 6 else None)
        kind, name = (2, _name(a)) if a < 5 else (4, "")
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, [row])])
        self.cluster.do(alter_configs_incrementally(self.cluster.image, self.cluster.settings, request))

    def register(self, a: int, b: int, c: int) -> None:
        self.cluster.now_ms += SESSION_TIMEOUT_MS // 2 * c
        broker = self.cluster.image.brokers.get(_broker(a))
        self.cluster.register(_broker(a), previous_broker_epoch=broker.epoch if broker and b % 2 else -1)

    def beat(self, a: int, b: int, c: int) -> None:
        if _broker(a) in self.cluster.image.brokers:
            self.cluster.heartbeat(_broker(a), want_fence=b == 7, want_shut_down=c == 7)

    def silence(self, a: int, b: int, c: int) -> None:
        self.cluster.pass_time(
            SESSION_TIMEOUT_MS // 2 * (1 + a % 3), alive=[each for each in (b, c) if each in self._unfenced()]
        )

    def _unfenced(self) -> list[int]:
        return [each for each, broker in self.cluster.image.brokers.items() if not broker.fenced]

    def unregister(self, a: int, b: int, c: int) -> None:
        request = UnregisterBrokerRequest(_broker(a))
        self.cluster.do(unregister_broker(self.cluster.image, self.cluster.settings, request))

    def report(self, a: int, b: int, c: int) -> None:
        image = self.cluster.image
        found = image.topic(_name(a))
        if found is None or b not in found.partitions:
            return
        partition = found.partitions[b]
        leader = image.brokers.get(partition.leader)
        if leader is None:
            return
        isr = [each for index, each in enumerate(partition.replicas) if each == leader.broker_id or c >> index & 1]
        row = PartitionData(b, partition.leader_epoch, new_isr=isr, partition_epoch=partition.partition_epoch)
        request = AlterPartitionRequest(leader.broker_id, leader.epoch, [TopicData(found.topic_id, [row])])
        self.cluster.do(alter_partition(image, self.cluster.settings, request))

    def move(self, a: int, b: int, c: int) -> None:
        target = None if c == 0 else [each for each in BROKERS if c >> (each - 1) & 1]
        rows = [ReassignableTopic(_name(a), [ReassignablePartition(b, target)])]
        request = AlterPartitionReassignmentsRequest(topics=rows)
        self.cluster.do(alter_reassignments(self.cluster.image, self.cluster.settings, request))

    def elect(self, a: int, b: int, c: int) -> None:
        cluster = self.cluster
        if c % 2:
            cluster.do(elect_leaders(cluster.image, cluster.settings, ElectLeadersRequest(a % 2)))
        else:
            cluster.do(Decision(tuple(routine_elections(cluster.image, cluster.settings, limit=b)), None))

    def allocate(self, a: int, b: int, c: int) -> None:
        broker = self.cluster.image.brokers.get(_broker(a))
        if broker is not None:
            request = AllocateProducerIdsRequest(broker.broker_id, broker.epoch)
            assert self.cluster.do(allocate_producer_ids(self.cluster.image, request)).error_code == ErrorCode.NONE

    def take_over(self, a: int, b: int, c: int) -> None:
        self.cluster.restart_controller()


OPERATIONS: dict[str, Callable[..., None]] = {
    name: operation for name, operation in vars(History).items() if not name.startswith("_")
}
# Reports and heartbeats are what a cluster mostly does, and what makes the rest possible.
WEIGHTED = [*OPERATIONS, "create", "create", "report", "report", "beat", "beat", "beat", "silence", "move"]
steps = st.lists(st.tuples(st.sampled_from(WEIGHTED), small, small, small), min_size=5, max_size=60)


@settings(max_examples=250, deadline=None)
@given(history=steps, elr=st.booleans(), min_isr=st.integers(1, 3))
def test_any_history_keeps_the_invariants_and_replays_to_the_same_image(
    history: list[Step], elr: bool, min_isr: int
) -> None:
    world = History(elr=elr, min_isr=min_isr)
    for name, *arguments in history:
        before = world.cluster.image
        OPERATIONS[name](world, *arguments)  # the harness checks the invariants after each decision
        _check_nothing_goes_back(before, world.cluster.image)
    image = world.cluster.image
    assert world.cluster.replayed() == image
    assert _through_a_snapshot(image) == image


def _check_nothing_goes_back(before: Image, after: Image) -> None:
    assert after.next_producer_id >= before.next_producer_id
    for broker_id, broker in before.brokers.items():
        if broker_id in after.brokers:
            assert after.brokers[broker_id].epoch >= broker.epoch
    for topic_id, old in before.topics.items():
        new = after.topics.get(topic_id)
        for index, partition in old.partitions.items() if new is not None else ():
            assert new is not None
            changed = new.partitions[index]
            assert changed.leader_epoch >= partition.leader_epoch
            assert changed.partition_epoch >= partition.partition_epoch
            if changed != partition:
                assert changed.partition_epoch > partition.partition_epoch
            if changed.leader != partition.leader:
                assert changed.leader_epoch > partition.leader_epoch


def _through_a_snapshot(image: Image) -> Image:
    version = image.metadata_version
    values = [encode_record(record, record_version(record, version)) for record in image_records(image)]
    records: Any = map(decode_record, values)
    return EMPTY_IMAGE.apply(records)
