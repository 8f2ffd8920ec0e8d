"""Groups through the broker's APIs: what handlers add to what the coordinator decides."""

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headrace.protocol.messages.sync_group import SyncGroupRequest
from headrace.server import coordinator_place
from tests.support.one_node import OneNode


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
