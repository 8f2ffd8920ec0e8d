"""What this broker serves: one module per API, imported at the first request that needs it.

The table is the truth: ApiVersions advertises it, COMPATIBILITY.md is generated from it. What is not here is not
served and not advertised. Each module has `handle(request, ctx)`, which returns the response, a `Later` of it, or None
where the client wants none. Versions are those of the codec unless the table says less.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from headrace.protocol.apis import API_BY_NAME


class Served(NamedTuple):
    """An API that this broker serves."""

    key: int
    module: str  # in this package, and in headrace.protocol.messages
    min_version: int
    max_version: int


def _served(name: str, max_version: int | None = None) -> Served:
    api = API_BY_NAME[name]
    assert api.module is not None, f"{name} is not spoken any more"
    return Served(api.key, api.module, api.min_version, api.max_stable_version if max_version is None else max_version)


SERVED: Final[Mapping[int, Served]] = MappingProxyType(
    {
        served.key: served
        for served in (
            _served("Produce"),
            _served("Fetch"),
            _served("ListOffsets"),
            _served("Metadata"),
            _served("ApiVersions"),
            _served("CreateTopics"),
            _served("DeleteTopics"),
            _served("DeleteRecords"),
            _served("InitProducerId"),
            _served("OffsetForLeaderEpoch"),
            _served("DescribeAcls"),
            _served("CreateAcls"),
            _served("DeleteAcls"),
            _served("DescribeConfigs"),
            _served("AlterConfigs"),
            _served("DescribeLogDirs"),
            _served("CreatePartitions"),
            _served("ElectLeaders"),
            _served("IncrementalAlterConfigs"),
            _served("AlterPartitionReassignments"),
            _served("ListPartitionReassignments"),
            _served("DescribeClientQuotas"),
            _served("AlterClientQuotas"),
            _served("DescribeUserScramCredentials"),
            _served("AlterUserScramCredentials"),
            _served("DescribeQuorum"),
            _served("UpdateFeatures"),
            _served("DescribeCluster"),
            _served("DescribeProducers"),
            _served("UnregisterBroker"),
            _served("GetTelemetrySubscriptions"),
            _served("PushTelemetry"),
            _served("OffsetCommit"),
            _served("OffsetFetch"),
            _served("FindCoordinator"),
            _served("JoinGroup"),
            _served("Heartbeat"),
            _served("LeaveGroup"),
            _served("SyncGroup"),
            _served("DescribeGroups"),
            _served("ListGroups"),
            _served("DeleteGroups"),
            _served("OffsetDelete"),
            _served("TxnOffsetCommit"),
            _served("ConsumerGroupHeartbeat"),
            _served("ConsumerGroupDescribe"),
            _served("AddPartitionsToTxn"),
            _served("AddOffsetsToTxn"),
            _served("EndTxn"),
            _served("WriteTxnMarkers"),
            _served("DescribeTransactions"),
            _served("ListTransactions"),
            _served("ListConfigResources"),
            _served("DescribeTopicPartitions"),
        )
    }
)
