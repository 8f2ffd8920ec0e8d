"""Groups through the broker's APIs: what handlers add to what the coordinator decides."""

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.sync_group import SyncGroupRequest
from tests.support.one_node import OneNode


def test_since_version_5_sync_group_must_name_the_protocol() -> None:
    node = OneNode()
    for request in (SyncGroupRequest("g", 1, "m"), SyncGroupRequest("g", 1, "m", None, "consumer", None)):
        assert node.ask("SyncGroup", 5, request).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert node.ask("SyncGroup", 4, request).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
