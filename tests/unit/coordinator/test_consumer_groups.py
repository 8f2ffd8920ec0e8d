"""What stories about consumer groups do not tell: limits, records of others, slices of work, large groups."""

import time
from typing import Any

import pytest

from headrace.cluster.image import ConfigKind, ConfigResource
from headrace.coordinator.batches import size_of
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.coordinator.consumer_heartbeat import MAX_ID_LENGTH
from headrace.coordinator.consumer_member import ConsumerMember, MemberState
from headrace.coordinator.consumer_records import current_record, subscription_record
from headrace.coordinator.consumer_regex import STEPS_AT_ONCE
from headrace.coordinator.consumer_subscriptions import ResolvedRegex, Subscriptions
from headrace.coordinator.group_records import (
    CONSUMER_GROUP_PARTITION_METADATA,
    consumer_group_current,
    consumer_group_member,
    consumer_group_metadata,
    consumer_group_regex,
    consumer_group_target,
    consumer_group_target_epoch,
)
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import CoordinatorRecord
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from headrace.protocol.messages.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
)
from headrace.protocol.messages.group_records import TopicPartitions as OwnedPartitions
from tests.support.consumer_clients import NewConsumer
from tests.support.group_driver import GroupDriver, client_of, topic_id_of

AT_ONCE = {"group.consumer.assignment.interval.ms": "0"}
FIRST = ConsumerGroupHeartbeatRequest("g", "A", 0, None, None, 60_000, ["t"], None, None, [])


def ask(driver: GroupDriver, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> Any:
    return driver.ask(
        lambda shard, ticket: shard.consumer_group_heartbeat(
            request, ticket=ticket, client=client_of("A"), version=version, now_ms=driver.now_ms
        )
    )


def the_group(driver: GroupDriver) -> ConsumerGroup:
    group = driver.shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    return group


# Limits


@pytest.mark.parametrize("field", ["group_id", "member_id", "instance_id", "rack_id"])
def test_names_that_stand_in_every_record_are_short(field: str) -> None:
    driver = GroupDriver()
    most: dict[str, Any] = {field: "x" * MAX_ID_LENGTH}
    assert ask(driver, FIRST._replace(**most)).error_code == ErrorCode.NONE
    more: dict[str, Any] = {field: "x" * (MAX_ID_LENGTH + 1)}
    answer = ask(driver, FIRST._replace(**more))
    assert (answer.error_code, str(MAX_ID_LENGTH) in answer.error_message) == (ErrorCode.INVALID_REQUEST, True)


def test_a_subscription_that_does_not_fit_into_a_batch_is_refused_and_leaves_nothing_behind() -> None:
    driver = GroupDriver()
    driver.make_topic("t", 1)
    assert ask(driver, FIRST).error_code == ErrorCode.NONE
    written = len(driver.log)
    topics = [f"{number:05d}-{'x' * 200}" for number in range(6_000)]
    answer = ask(driver, FIRST._replace(member_epoch=2, subscribed_topic_names=topics, topic_partitions=None))
    assert (answer.error_code, len(driver.log)) == (ErrorCode.UNKNOWN_SERVER_ERROR, written)
    assert ask(driver, ConsumerGroupHeartbeatRequest("g", "A", 2)).member_epoch == 2
    assert the_group(driver).members["A"].topics == {"t"}


def test_a_topic_that_changed_is_noticed_even_if_the_heartbeat_that_noticed_it_was_refused() -> None:
    driver = GroupDriver(AT_ONCE)
    driver.make_topic("t", 1)
    ask(driver, FIRST)
    driver.make_topic("t", 2)
    topics = [f"{number:05d}-{'x' * 200}" for number in range(6_000)]
    assert ask(driver, FIRST._replace(member_epoch=2, subscribed_topic_names=["t", *topics])).error_code
    answer = ask(driver, ConsumerGroupHeartbeatRequest("g", "A", 2))
    assert [row.partitions for row in answer.assignment.topic_partitions] == [[0, 1]]


@pytest.mark.parametrize("features", [{}, {"group.version": 0}])
def test_a_cluster_without_consumer_groups_says_so(features: dict[str, int]) -> None:
    driver = GroupDriver()
    driver.set_image(driver.image._replace(features=features))
    assert ask(driver, FIRST).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert driver.shard.describe_consumer_group("g").error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_broker_that_is_told_to_serve_classic_groups_only_does_so() -> None:
    driver = GroupDriver({"group.coordinator.rebalance.protocols": "classic"})
    assert ask(driver, FIRST).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_look_up_of_patterns_lets_others_have_their_turn() -> None:
    driver = GroupDriver()
    for number in range(3):
        driver.make_topic(f"topic-{number}", 1)
    names = {f"{number:05d}": topic_id_of(f"{number:05d}") for number in range(2 * STEPS_AT_ONCE // 5)}
    driver.set_image(driver.image._replace(topic_ids={**driver.image.topic_ids, **names}))
    regex = FIRST._replace(subscribed_topic_names=None, subscribed_topic_regex="topic-.*")
    assert ask(driver, regex).heartbeat_interval_ms < 1_000  # it is told to ask again soon
    slices = 0
    while "g" in driver.shard.regex_jobs:
        for step in driver.shard.tick(driver.now_ms):
            driver.carry_out(step)
        slices += 1
        driver.now_ms += 1
        # Between two slices the coordinator answers as ever.
        assert ask(driver, ConsumerGroupHeartbeatRequest("g", "A", 1)).error_code == ErrorCode.NONE
    assert slices == 3
    assert the_group(driver).subscriptions.topics == {"topic-0", "topic-1", "topic-2"}


def test_a_pattern_that_stands_for_more_topics_than_can_be_written_stands_for_none() -> None:
    driver = GroupDriver({**AT_ONCE, "message.max.bytes": "20000"})
    for number in range(100):
        driver.make_topic(f"{number:03d}-{'x' * 200}", 1)
    ask(driver, FIRST._replace(subscribed_topic_names=None, subscribed_topic_regex=".*"))
    driver.move(10)
    assert the_group(driver).subscriptions.resolved[".*"].topics == frozenset()
    assert "[group g] pattern .* stands for more topics than can be written" in driver.notices
    assert all(sum(map(size_of, step.records)) < 20_000 for step in driver.steps)


def test_a_group_that_does_not_fit_into_a_batch_as_a_classic_one_stays_as_it_is() -> None:
    driver = GroupDriver()
    subscription = b"\0\0\0\0\0\0\xff\xff\xff\xff"  # version 0, no topics, no data
    classic = ClassicMemberMetadata(45_000, [ClassicProtocol("range", subscription)])
    for member in (ConsumerMember("A", 1, classic=classic), ConsumerMember("Z", 1)):
        replay(driver, subscription_record("g", member), current_record("g", member))
    offsets_topic = ConfigResource(ConfigKind.TOPIC, "__consumer_offsets")
    driver.set_image(driver.image._replace(configs={offsets_topic: {"max.message.bytes": "500"}}))
    assert ask(driver, ConsumerGroupHeartbeatRequest("g", "Z", -1)).error_code == ErrorCode.NONE
    assert set(the_group(driver).members) == {"A"}
    assert all(sum(map(size_of, step.records)) < 500 for step in driver.steps)


def test_a_clock_that_is_set_back_does_not_hold_up_the_next_target() -> None:
    driver = GroupDriver()
    driver.now_ms = 2 * 3_600_000
    driver.make_topic("t", 1)
    ask(driver, FIRST)
    driver.make_topic("t", 2)
    driver.now_ms -= 3_600_000
    answer = ask(driver, ConsumerGroupHeartbeatRequest("g", "A", 2))
    assert [row.partitions for row in answer.assignment.topic_partitions] == [[0, 1]]


def test_a_clock_that_is_set_back_does_not_hold_up_the_look_up_of_patterns() -> None:
    driver = GroupDriver(AT_ONCE)
    driver.now_ms = 2 * 3_600_000
    driver.make_topic("topic-0", 1)
    ask(driver, FIRST._replace(subscribed_topic_names=None, subscribed_topic_regex="topic-.*"))
    driver.move(0)
    driver.make_topic("topic-1", 1)
    driver.now_ms -= 3_600_000
    ask(driver, ConsumerGroupHeartbeatRequest("g", "A", the_group(driver).members["A"].member_epoch))
    driver.move(0)
    assert the_group(driver).subscriptions.topics == {"topic-0", "topic-1"}


# Records that another coordinator wrote


def replay(driver: GroupDriver, *records: CoordinatorRecord) -> None:
    for record in records:
        driver.shard.replay(record)
    driver.shard.loaded(driver.now_ms)


def records_of_kafka_4_0(state: int = 0) -> list[CoordinatorRecord]:
    """Without epochs of partitions, and with the record that a hash replaced since."""
    topic_id = topic_id_of("t")
    member = ConsumerGroupMemberMetadataValue(None, None, "A", "/127.0.0.1", ["t"], "", 60_000, None, None)
    current = ConsumerGroupCurrentMemberAssignmentValue(3, 2, state, [OwnedPartitions(topic_id, [1, 0])])
    old = CoordinatorRecord(
        CONSUMER_GROUP_PARTITION_METADATA,
        ConsumerGroupPartitionMetadataKey("g"),
        0,
        ConsumerGroupPartitionMetadataValue(),
    )
    target = ConsumerGroupTargetAssignmentMemberValue([TopicPartition(topic_id, [1, 0])])
    return [
        consumer_group_member("g", "A", member),
        old,
        consumer_group_metadata("g", ConsumerGroupMetadataValue(3)),
        consumer_group_target("g", "A", target),
        consumer_group_target_epoch("g", ConsumerGroupTargetAssignmentMetadataValue(3)),
        consumer_group_current("g", "A", current),
    ]


def test_records_of_an_older_kafka_are_read_and_the_one_that_is_not_needed_any_more_goes() -> None:
    driver = GroupDriver(AT_ONCE)
    driver.make_topic("t", 2)
    replay(driver, *records_of_kafka_4_0())
    assert the_group(driver).members["A"].assigned == {topic_id_of("t"): {0: 3, 1: 3}}
    written = len(driver.steps)
    assert ask(driver, ConsumerGroupHeartbeatRequest("g", "A", 3)).member_epoch == 4  # the hash was missing
    (step,) = driver.steps[written:]
    assert CoordinatorRecord(CONSUMER_GROUP_PARTITION_METADATA, ("g",), None, None) in step.records
    assert not the_group(driver).has_partition_metadata


def test_a_member_in_a_state_that_is_not_known_here_begins_anew() -> None:
    driver = GroupDriver(AT_ONCE)
    driver.make_topic("t", 2)
    replay(driver, *records_of_kafka_4_0(state=7))
    assert the_group(driver).members["A"].state is MemberState.UNKNOWN
    assert ask(driver, ConsumerGroupHeartbeatRequest("g", "A", 3)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    owned = [TopicPartitions(topic_id_of("t"), [0])]
    beat = ConsumerGroupHeartbeatRequest("g", "A", 3, topic_partitions=owned)
    assert ask(driver, beat).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert ask(driver, FIRST).error_code == ErrorCode.NONE
    assert the_group(driver).members["A"].state is MemberState.STABLE


@pytest.mark.parametrize(
    "record",
    [
        consumer_group_member("g", "A", None),
        consumer_group_metadata("g", None),
        consumer_group_target("g", "A", None),
        consumer_group_target_epoch("g", None),
        consumer_group_current("g", "A", None),
        consumer_group_regex("g", "t", None),
        CoordinatorRecord(CONSUMER_GROUP_PARTITION_METADATA, ConsumerGroupPartitionMetadataKey("g"), None, None),
    ],
)
def test_a_tombstone_for_what_was_compacted_away_does_nothing(record: CoordinatorRecord) -> None:
    driver = GroupDriver()
    driver.shard.replay(record)
    assert driver.shard.groups == {}
    replay(driver, consumer_group_metadata("g", ConsumerGroupMetadataValue(3)))
    driver.shard.replay(record)
    driver.shard.replay(record)


# What all members want together


def test_of_two_assignors_that_as_many_want_uniform_is_taken_as_kafka_does() -> None:
    for names in (["range", "uniform"], ["uniform", "range"]):
        subscriptions = Subscriptions()
        for number, name in enumerate(names):
            subscriptions.add(ConsumerMember(str(number), server_assignor=name))
        assert subscriptions.preferred_assignor == "uniform"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([ConsumerMember("A", topics=frozenset("t")), ConsumerMember("B", topics=frozenset("t"))], True),
        ([ConsumerMember("A", topics=frozenset("t")), ConsumerMember("B", topics=frozenset("tu"))], False),
        ([ConsumerMember("A", topics=frozenset("t")), ConsumerMember("B")], False),
        ([ConsumerMember("A", regex="t|u"), ConsumerMember("B", regex="t|u")], True),
        ([ConsumerMember("A", regex="t|u"), ConsumerMember("B", regex="u|t")], False),
        ([ConsumerMember("A", regex="t|u"), ConsumerMember("B", topics=frozenset("tu"))], False),
        ([ConsumerMember("A", regex="t|u", topics=frozenset("t")), ConsumerMember("B", regex="t|u")], False),
    ],
)
def test_members_are_homogeneous_if_all_want_the_same(members: list[ConsumerMember], expected: bool) -> None:
    subscriptions = Subscriptions()
    for member in members:
        subscriptions.add(member)
        if member.regex:
            subscriptions.set_resolved(member.regex, ResolvedRegex(frozenset("tu"), 0, 0))
    assert subscriptions.are_homogeneous(len(members)) is expected


# Size


def test_a_group_of_a_thousand_members_is_assigned_in_well_under_a_second_of_work() -> None:
    driver = GroupDriver()
    driver.make_topic("t", 1_000)
    consumers = [NewConsumer(driver, f"member-{number}", ["t"]) for number in range(1_000)]
    for consumer in consumers:
        consumer.beat()
    driver.move(1_000)
    start = time.process_time()
    consumers[-1].beat()  # the one that has the others assigned, too
    assert time.process_time() - start < 0.5
    assert len(the_group(driver).target) == 1_000
    for _ in range(2):
        for consumer in consumers:
            consumer.beat()
            consumer.obey()
    assert the_group(driver).state_name == "Stable"
    assert [len(consumer.owned) for consumer in consumers] == [1] * 1_000
    assert len(driver.shard.deadlines._heap) < 3_000  # heartbeats leave nothing behind
