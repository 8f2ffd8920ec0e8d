"""Groups through the broker's APIs: what handlers add to what the coordinator decides."""

import pytest

from headrace.cluster.image import ConfigKind
from headrace.coordinator.consumer_group import ConsumerGroup
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.protocol.messages.describe_groups import DescribeGroupsRequest
from headrace.protocol.messages.metadata_records import ConfigRecord, FeatureLevelRecord
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headrace.protocol.messages.sync_group import SyncGroupRequest
from headrace.server import coordinator_place
from tests.support.one_node import NODE_ID, OneNode


def test_since_version_5_sync_group_must_name_the_protocol() -> None:
    node = OneNode()
    for request in (SyncGroupRequest("g", 1, "m"), SyncGroupRequest("g", 1, "m", None, "consumer", None)):
        assert node.ask("SyncGroup", 5, request).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert node.ask("SyncGroup", 4, request).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_offsets_of_a_topic_that_is_deleted_while_the_coordinator_loads_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = OneNode()
    node.create_topic("__consumer_offsets", 1, cleanup_policy="compact")
    for topic in ("stays", "goes"):
        node.create_topic(topic)
        rows = [OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, 5)])]
        node.ask("OffsetCommit", 8, OffsetCommitRequest("g", topics=rows))
    monkeypatch.setattr(coordinator_place, "_RECORDS_AT_ONCE", 1)
    node.coordinators.groups.drop(0)

    def fetched() -> tuple[ErrorCode, list[str]]:
        wanted = OffsetFetchRequestGroup("g", topics=None)
        (group,) = node.ask("OffsetFetch", 8, OffsetFetchRequest(groups=[wanted])).groups
        return ErrorCode(group.error_code), [topic.name for topic in group.topics]

    assert fetched() == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    node.delete_topic("goes")
    node.clock.move(0)
    assert fetched() == (ErrorCode.NONE, ["stays"])


def test_many_patterns_that_stand_for_many_topics_are_written_one_after_the_other() -> None:
    node = OneNode()
    node.create_topic("__consumer_offsets", 1, cleanup_policy="compact")
    for number in range(60):
        node.create_topic(f"{number:02d}{'x' * 240}")
    node.controller.write(FeatureLevelRecord("group.version", 1))
    members = [f"member-{number}" for number in range(100)]
    epochs = {}
    for number, member in enumerate(members):
        first = ConsumerGroupHeartbeatRequest("g", member, 0, None, None, 60_000, None, f".*|{number}", None, [])
        epochs[member] = node.ask("ConsumerGroupHeartbeat", 1, first).member_epoch
    node.clock.move(11_000)
    answer = node.ask("ConsumerGroupHeartbeat", 1, ConsumerGroupHeartbeatRequest("g", members[0], epochs[members[0]]))
    assert answer.error_code == ErrorCode.NONE
    node.clock.move(100)
    (group,) = node.ask("ConsumerGroupDescribe", 1, ConsumerGroupDescribeRequest(["g"])).groups
    assert group.error_code == ErrorCode.NONE
    found = node.coordinators.groups.look("g", lambda shard: shard.groups["g"], int).value
    assert isinstance(found, ConsumerGroup)
    assert len(found.subscriptions.resolved) == len(members)


def test_what_is_named_several_times_is_told_once() -> None:
    node = OneNode()
    node.create_topic("__consumer_offsets", 1, cleanup_policy="compact")
    node.create_topic("t", 2)
    rows = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(index, 5) for index in range(2)])]
    node.ask("OffsetCommit", 8, OffsetCommitRequest("g", topics=rows))
    described = node.ask("DescribeGroups", 5, DescribeGroupsRequest(["g", "h", "g"])).groups
    assert [group.group_id for group in described] == ["g", "h"]
    consumers = node.ask("ConsumerGroupDescribe", 1, ConsumerGroupDescribeRequest(["g", "h", "g"])).groups
    assert [group.group_id for group in consumers] == ["g", "h"]
    everything = OffsetFetchRequestGroup("g", topics=None)
    some = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[1])])
    wanted = OffsetFetchRequest(groups=[everything, some, everything, some])
    fetched = node.ask("OffsetFetch", 8, wanted).groups
    assert [len(group.topics[0].partitions) for group in fetched] == [2, 1, 1]


@pytest.mark.parametrize("resource", ["", str(NODE_ID)])
@pytest.mark.parametrize("is_running", [True, False])
def test_the_time_between_two_assignments_can_be_set_for_a_broker(resource: str, *, is_running: bool) -> None:
    node = OneNode(static={"group.consumer.assignment.interval.ms": "15000"})
    node.create_topic("__consumer_offsets", 1, cleanup_policy="compact")
    node.create_topic("t", 2)
    node.controller.write(FeatureLevelRecord("group.version", 1))

    def join(member: str) -> int:
        """With how many partitions."""
        request = ConsumerGroupHeartbeatRequest("g", member, 0, None, None, 60_000, ["t"], None, None, [])
        answer = node.ask("ConsumerGroupHeartbeat", 1, request)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        return sum(len(topic.partitions) for topic in answer.assignment.topic_partitions)

    def target_of(member: str) -> int:
        shard_group = node.coordinators.groups.look("g", lambda shard: shard.groups["g"], int).value
        assert isinstance(shard_group, ConsumerGroup)
        return sum(len(indexes) for indexes in shard_group.target_of(shard_group.members[member]).values())

    if is_running:
        assert join("first") == 2
    name = "group.consumer.assignment.interval.ms"
    node.controller.write(ConfigRecord(ConfigKind.BROKER, resource, name, "0"))
    if not is_running:
        node.coordinators.start(node.controller.image)
        assert join("first") == 2
    join("second")
    assert target_of("second") == 1, "at once"
    node.controller.write(ConfigRecord(ConfigKind.BROKER, resource, name, None))
    join("third")
    assert target_of("third") == 0, "15 seconds later"
