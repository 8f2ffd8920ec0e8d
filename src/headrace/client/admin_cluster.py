"""Admin calls about the cluster itself: brokers, features, the controllers' quorum, log directories."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.client.admin_calls import AdminCalls, settle, top_code
from headrace.client.errors import KafkaError, error_for, raise_for
from headrace.client.topic_partition import TopicPartition, as_partitions, by_topic
from headrace.protocol.apis import APIS
from headrace.protocol.messages import (
    add_raft_voter,
    describe_cluster,
    describe_log_dirs,
    describe_quorum,
    remove_raft_voter,
    unregister_broker,
    update_features,
)
from headrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.protocol.types import uuid_from_text, uuid_to_text

METADATA_TOPIC: Final = "__cluster_metadata"
UPGRADE_TYPES: Final = {"upgrade": 1, "safe_downgrade": 2, "unsafe_downgrade": 3}
_FENCED_SINCE: Final = 2  # the first version of DescribeCluster that can list fenced brokers


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """`controller_id` is that of a broker that passes requests on to the controller."""

    id: str
    controller_id: int
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class Feature:
    """`level` is what the cluster has agreed on, None if nothing; `lowest` to `highest` is what the broker can do."""

    name: str
    level: int | None
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class ApiRange:
    """The versions of an API that a broker serves; `name` is None for one that is not known here."""

    key: int
    name: str | None
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """Times are in milliseconds, -1 if they are not known; `lag` is how far it is behind the leader, in records."""

    id: int
    directory_id: str
    log_end_offset: int
    lag: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class Quorum:
    """Who keeps the cluster's metadata. `listeners` says where each voter is reached: name -> host and port."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    listeners: Mapping[int, Mapping[str, tuple[str, int]]]


@dataclass(frozen=True, slots=True)
class Replica:
    """`lag` is how far it is behind; `is_future` if it is being moved here from another directory."""

    size_bytes: int
    lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """`error` if it is offline; sizes of the disk are -1 where the broker does not tell."""

    path: str
    error: KafkaError | None
    replicas: Mapping[TopicPartition, Replica]
    total_bytes: int
    usable_bytes: int


class ClusterCalls(AdminCalls):
    async def describe_cluster(self, *, fenced: bool = False, timeout: float | None = None) -> ClusterDescription:
        """The cluster and its brokers; with `fenced` also those which are registered and do not serve."""
        response: describe_cluster.DescribeClusterResponse = await self._any(
            describe_cluster.DescribeClusterRequest(include_fenced_brokers=fenced),
            top_code,
            timeout,
            min_version=_FENCED_SINCE if fenced else 0,
        )
        raise_for(response.error_code, response.error_message)
        brokers = [BrokerDescription(*row[:5]) for row in sorted(response.brokers, key=lambda row: row.broker_id)]
        return ClusterDescription(response.cluster_id, response.controller_id, tuple(brokers))

    async def describe_features(self, broker: int | None = None, *, timeout: float | None = None) -> dict[str, Feature]:
        """What the cluster has agreed to use, and what a broker could do."""
        response = await self._api_versions(broker, timeout)
        levels = {row.name: row.max_version_level for row in response.finalized_features}
        supported = {row.name: (row.min_version, row.max_version) for row in response.supported_features}
        return {
            name: Feature(name, levels.get(name), *supported.get(name, (0, 0)))
            for name in sorted(levels.keys() | supported.keys())
        }

    async def api_versions(self, broker: int | None = None, *, timeout: float | None = None) -> list[ApiRange]:
        """The APIs that a broker serves, and in which versions."""
        response = await self._api_versions(broker, timeout)
        return [
            ApiRange(row.api_key, APIS[row.api_key].name if row.api_key in APIS else None, *row[1:3])
            for row in sorted(response.api_keys)
        ]

    async def _api_versions(self, broker: int | None, timeout: float | None) -> ApiVersionsResponse:
        response: ApiVersionsResponse = (
            await self._any(ApiVersionsRequest("headrace", "admin"), top_code, timeout, min_version=3)
            if broker is None
            else await self._broker(broker, ApiVersionsRequest("headrace", "admin"), top_code, timeout, min_version=3)
        )
        raise_for(response.error_code)
        return response

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        kind: str = "upgrade",
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Let the cluster use these levels from now on; `kind` is upgrade, safe_downgrade or unsafe_downgrade.

        A level of 0 switches a feature off.
        """
        if kind not in UPGRADE_TYPES:
            raise ValueError(f"{kind!r} is not one of {', '.join(UPGRADE_TYPES)}")
        rows = [
            update_features.FeatureUpdateKey(name, level, upgrade_type=UPGRADE_TYPES[kind])
            for name, level in levels.items()
        ]
        response: update_features.UpdateFeaturesResponse = await self._controller(
            update_features.UpdateFeaturesRequest(self._request_timeout_ms, rows, validate_only),
            top_code,
            timeout,
            min_version=1,
        )
        raise_for(response.error_code, response.error_message)
        settle(
            {
                row.feature: error_for(row.error_code, row.error_message) if row.error_code else None
                for row in response.results
            },
            "features",
        )

    async def describe_quorum(self, *, timeout: float | None = None) -> Quorum:
        """Who leads and who follows the log of the cluster's metadata."""
        request = describe_quorum.DescribeQuorumRequest(
            [describe_quorum.TopicData(METADATA_TOPIC, [describe_quorum.PartitionData(0)])]
        )
        response: describe_quorum.DescribeQuorumResponse = await self._any(request, _quorum_codes, timeout)
        raise_for(response.error_code, response.error_message)
        row = response.topics[0].partitions[0]
        raise_for(row.error_code, row.error_message)
        end = max((voter.log_end_offset for voter in row.current_voters), default=0)
        return Quorum(
            leader_id=row.leader_id,
            leader_epoch=row.leader_epoch,
            high_watermark=row.high_watermark,
            voters=tuple(_replica(each, end) for each in row.current_voters),
            observers=tuple(_replica(each, end) for each in row.observers),
            listeners={
                node.node_id: {listener.name: (listener.host, listener.port) for listener in node.listeners}
                for node in response.nodes
            },
        )

    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout: float | None = None,
    ) -> dict[int, list[LogDirectory]]:
        """The directories of brokers, of all if none is named, and how large replicas are in them."""
        topics = (
            None
            if partitions is None
            else [describe_log_dirs.DescribableLogDirTopic(*row) for row in by_topic(as_partitions(partitions)).items()]
        )
        request = describe_log_dirs.DescribeLogDirsRequest(topics)
        wanted = await self._brokers(timeout) if brokers is None else list(brokers)
        responses: list[describe_log_dirs.DescribeLogDirsResponse] = await asyncio.gather(
            *(self._broker(broker, request, top_code, timeout) for broker in wanted)
        )
        for response in responses:
            raise_for(response.error_code)
        return {
            broker: [_directory(row) for row in response.results]
            for broker, response in zip(wanted, responses, strict=True)
        }

    async def unregister_broker(self, broker: int, *, timeout: float | None = None) -> None:
        """Forget a broker that is gone for good."""
        response: unregister_broker.UnregisterBrokerResponse = await self._controller(
            unregister_broker.UnregisterBrokerRequest(broker), top_code, timeout
        )
        raise_for(response.error_code, response.error_message)

    async def add_raft_voter(
        self,
        node: int,
        directory_id: str,
        listeners: Mapping[str, tuple[str, int]],
        *,
        timeout: float | None = None,
    ) -> None:
        """Let a controller vote: `directory_id` stands in its meta.properties."""
        rows = [add_raft_voter.Listener(name, *place) for name, place in listeners.items()]
        response: add_raft_voter.AddRaftVoterResponse = await self._controller(
            add_raft_voter.AddRaftVoterRequest(
                None, self._request_timeout_ms, node, uuid_from_text(directory_id), rows
            ),
            top_code,
            timeout,
        )
        raise_for(response.error_code, response.error_message)

    async def remove_raft_voter(self, node: int, directory_id: str, *, timeout: float | None = None) -> None:
        """Let a controller vote no more."""
        response: remove_raft_voter.RemoveRaftVoterResponse = await self._controller(
            remove_raft_voter.RemoveRaftVoterRequest(None, node, uuid_from_text(directory_id)), top_code, timeout
        )
        raise_for(response.error_code, response.error_message)


def _quorum_codes(response: describe_quorum.DescribeQuorumResponse) -> list[int]:
    return [response.error_code, *(row.error_code for topic in response.topics for row in topic.partitions)]


def _replica(row: describe_quorum.ReplicaState, end: int) -> QuorumReplica:
    return QuorumReplica(
        id=row.replica_id,
        directory_id=uuid_to_text(row.replica_directory_id),
        log_end_offset=row.log_end_offset,
        lag=max(0, end - row.log_end_offset),
        last_fetch_ms=row.last_fetch_timestamp,
        last_caught_up_ms=row.last_caught_up_timestamp,
    )


def _directory(row: describe_log_dirs.DescribeLogDirsResult) -> LogDirectory:
    return LogDirectory(
        path=row.log_dir,
        error=error_for(row.error_code) if row.error_code else None,
        replicas={
            TopicPartition(topic.name, partition.partition_index): Replica(
                partition.partition_size, partition.offset_lag, partition.is_future_key
            )
            for topic in row.topics
            for partition in topic.partitions
        },
        total_bytes=row.total_bytes,
        usable_bytes=row.usable_bytes,
    )
