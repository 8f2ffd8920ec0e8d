"""Apache Kafka and Headrace are asked the same, in the same order, and must answer the same.

Compared is everything that a program can act on: codes, names, numbers, configs with their sources. Not compared are
sentences for people, addresses, random ids and clocks. Rows may come in any order, as they do in Kafka.
"""

import socket
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from headrace.protocol.apis import API_BY_NAME, load
from headrace.protocol.header import read_response_header, response_header_version, write_request_header
from headrace.protocol.messages import alter_client_quotas as alter_quotas
from headrace.protocol.messages import alter_configs as legacy
from headrace.protocol.messages import alter_partition_reassignments as reassign
from headrace.protocol.messages import alter_user_scram_credentials as alter_scram
from headrace.protocol.messages import create_acls, delete_acls, describe_acls, metadata
from headrace.protocol.messages import create_partitions as partitions
from headrace.protocol.messages import create_topics as create
from headrace.protocol.messages import delete_topics as delete
from headrace.protocol.messages import describe_client_quotas as quotas
from headrace.protocol.messages import describe_configs as configs
from headrace.protocol.messages import describe_quorum as quorum
from headrace.protocol.messages import describe_topic_partitions as paging
from headrace.protocol.messages import describe_user_scram_credentials as scram
from headrace.protocol.messages import elect_leaders as elect
from headrace.protocol.messages import incremental_alter_configs as incremental
from headrace.protocol.messages import list_partition_reassignments as moving
from headrace.protocol.messages.describe_cluster import DescribeClusterRequest
from headrace.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from headrace.protocol.messages.headers import RequestHeader
from headrace.protocol.messages.list_config_resources import ListConfigResourcesRequest
from headrace.protocol.messages.push_telemetry import PushTelemetryRequest
from headrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from headrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from headrace.protocol.types import ZERO_UUID
from tests.support.admin_node import AdminNode
from tests.support.kafka import SETTINGS, ApacheKafka
from tests.support.kafka_tools import KafkaTools

pytestmark = pytest.mark.kafka

NOBODY = b"n" * 16
SETTLED_SECONDS = 120.0  # so long the machine may be busy; what needs it is broken
# Sentences for people, addresses, random numbers, clocks, and how long each metadata log is.
NOT_COMPARED = frozenset(
    {
        *("documentation", "error_message", "throttle_time_ms", "unknown_tags"),
        *("host", "port", "rack", "nodes", "replica_directory_id", "subscription_id"),
        *("high_watermark", "last_caught_up_timestamp", "last_fetch_timestamp", "log_end_offset"),
    }
)
RANDOM_IDS = frozenset({"topic_id", "client_instance_id"})
COMMON = {name: SETTINGS[name] for name in ("log.retention.ms", "log.index.size.max.bytes", "node.id")}


class Wire:
    """A connection that speaks one request at a time."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=120)

    def ask(self, api: str, version: int, request: Any) -> Any:
        found = API_BY_NAME[api]
        messages = load(found.key)
        header = write_request_header(RequestHeader(found.key, version, 77, "test"))
        frame = b"".join([header, *messages.encode_request[version](request)])
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
        reply = self._receive(int.from_bytes(self._receive(4), "big"))
        _, position = read_response_header(reply, 0, len(reply), response_header_version(found.key, version))
        return messages.decode_response[version](reply, memoryview(reply), position, len(reply))

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "Apache Kafka closed the connection"
            data += more
        return data

    def close(self) -> None:
        self._socket.close()


class Both(NamedTuple):
    kafka: Wire
    ours: AdminNode

    def compare(self, api: str, request: Any, *versions: int) -> Any:
        """Ask both in all versions of the API, or in these; our last answer."""
        found = API_BY_NAME[api]
        answer = None
        for version in versions or range(found.min_version, found.max_stable_version + 1):
            answer = self.ours.ask(api, version, request)
            theirs = self._ask_kafka(api, version, request, comparable(answer))
            assert comparable(answer) == theirs, f"{api} {version} {request}"
        return answer

    def _ask_kafka(self, api: str, version: int, request: Any, expected: Any) -> Any:
        """Kafka's brokers hear of a change a moment after whoever made it, so what only reads may be asked again."""
        deadline = time.monotonic() + (SETTLED_SECONDS if api.startswith(("Metadata", "Describe", "List")) else 0)
        while (theirs := comparable(self.kafka.ask(api, version, request))) != expected and time.monotonic() < deadline:
            time.sleep(0.05)  # the condition is polled, with a deadline
        return theirs


def comparable(value: Any, name: str = "") -> Any:
    if hasattr(value, "_fields"):
        return {
            field: comparable(each, field)
            for field, each in zip(value._fields, value, strict=True)
            if field not in NOT_COMPARED
        }
    if isinstance(value, list):
        return sorted((comparable(each) for each in value), key=repr)
    if name in RANDOM_IDS:
        return value in (ZERO_UUID, NOBODY) and value
    return value


@pytest.fixture(scope="module")
def both(kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    settings = {"authorizer.class.name": "", "super.users": ""}
    with ApacheKafka(tmp_path_factory.mktemp("admin"), kafka_tools, settings=settings) as kafka:
        wire = Wire(kafka.address)
        yield Both(wire, AdminNode(static=COMMON))
        wire.close()


def new_topics(both: Both, *names: str, count: int = 1) -> None:
    rows = [create.CreatableTopic(name, count, 1) for name in names]
    both.compare("CreateTopics", create.CreateTopicsRequest(rows, 10_000), 7)


def test_topics_are_created_grow_and_go_with_the_same_codes(both: Both) -> None:
    topic, config, assignment = create.CreatableTopic, create.CreatableTopicConfig, create.CreatableReplicaAssignment
    for version in range(2, 8):
        name = f"made-by-{version}"
        both.compare("CreateTopics", create.CreateTopicsRequest([topic(name, 2, 1)], 10_000), version)
        both.compare("CreateTopics", create.CreateTopicsRequest([topic(f"{name}d", -1, -1)], 10_000), version)
    wanted = [
        topic("made-by-2", 1, 1),
        topic("many-replicas", 1, 2),
        topic("no-partitions", 0, 1),
        topic("no-replicas", 1, 0),
        topic("below", -2, 1),
        topic("bad name", 1, 1),
        topic("", 1, 1),
        topic("__cluster_metadata", 1, 1),
        topic("bad-value", 1, 1, configs=[config("retention.ms", "x")]),
        topic("bad-config", 1, 1, configs=[config("nope", "1")]),
        topic("no-value", 1, 1, configs=[config("retention.ms", None)]),
        topic("by-hand", -1, -1, [assignment(0, [1]), assignment(1, [1])]),
        topic("nobody", -1, -1, [assignment(0, [7])]),
        topic("gap", -1, -1, [assignment(1, [1])]),
        topic("both", 1, 1, [assignment(0, [1])]),
        topic("own-configs", 1, 1, configs=[config("retention.ms", "5"), config("cleanup.policy", "compact")]),
    ]
    both.compare("CreateTopics", create.CreateTopicsRequest(wanted, 10_000, validate_only=True))
    both.compare("CreateTopics", create.CreateTopicsRequest(wanted, 10_000), 7)
    grow = partitions.CreatePartitionsTopic
    rows = [
        grow("by-hand", 3, None),
        grow("nobody", 3, None),
        grow("made-by-2", 2, None),
        grow("made-by-3", 3, []),
        grow("made-by-4", 3, [partitions.CreatePartitionsAssignment([9])]),
    ]
    both.compare("CreatePartitions", partitions.CreatePartitionsRequest(rows, 10_000, validate_only=True))
    both.compare("CreatePartitions", partitions.CreatePartitionsRequest(rows, 10_000), 3)
    names = delete.DeleteTopicsRequest(topic_names=["nobody", "bad name", "__cluster_metadata"], timeout_ms=10_000)
    both.compare("DeleteTopics", names, 1, 2, 3, 4, 5)
    states = [
        delete.DeleteTopicState("by-hand"),
        delete.DeleteTopicState("nobody"),
        delete.DeleteTopicState(None, NOBODY),
        delete.DeleteTopicState(None),
        delete.DeleteTopicState("made-by-2", NOBODY),
    ]
    both.compare("DeleteTopics", delete.DeleteTopicsRequest(states, timeout_ms=10_000), 6)
    both.compare("Metadata", metadata.MetadataRequest(None), 13)


def test_metadata_is_the_same_in_all_versions(both: Both) -> None:
    new_topics(both, "seen", "seen.too", count=3)
    rows = [metadata.MetadataRequestTopic(name=name) for name in ("seen", "none", "bad name", "", "__consumer_offsets")]
    asked = metadata.MetadataRequest(rows, allow_auto_topic_creation=False)
    both.compare("Metadata", asked, *range(4, 14))
    both.compare("Metadata", metadata.MetadataRequest(()))
    both.compare("Metadata", metadata.MetadataRequest(None), *range(1, 14))
    told = asked._replace(include_cluster_authorized_operations=True, include_topic_authorized_operations=True)
    both.compare("Metadata", told, 8, 9, 10)
    by_id = [metadata.MetadataRequestTopic(NOBODY, None), metadata.MetadataRequestTopic(NOBODY, "seen")]
    both.compare("Metadata", metadata.MetadataRequest(by_id), 10, 11, 12, 13)
    both.compare("DescribeCluster", DescribeClusterRequest())
    for endpoint_type in range(4):
        request = DescribeClusterRequest(True, endpoint_type)
        both.compare("DescribeCluster", request, 1, 2)
    both.compare("DescribeCluster", DescribeClusterRequest(include_fenced_brokers=True), 2)


def test_pages_of_partitions_are_the_same(both: Both) -> None:
    new_topics(both, "page-a", "page-b", count=2)
    for limit in (-1, 0, 1, 2, 3, 4, 2000):
        for names in (("page-b", "page-a"), ("page-a", "page-nobody", "page-b")):
            topics = [paging.TopicRequest(name) for name in names]
            both.compare("DescribeTopicPartitions", paging.DescribeTopicPartitionsRequest(topics, limit))
            for cursor in (("page-a", 0), ("page-a", 1), ("page-a", 7), ("page-b", 1), ("page-x", 0), ("page-a", -1)):
                request = paging.DescribeTopicPartitionsRequest(topics, limit, paging.Cursor(*cursor))
                both.compare("DescribeTopicPartitions", request)
        both.compare("DescribeTopicPartitions", paging.DescribeTopicPartitionsRequest((), limit))


def test_configs_are_the_same(both: Both) -> None:
    new_topics(both, "conf", "conf2")
    resource, config = incremental.AlterConfigsResource, incremental.AlterableConfig
    for row in (
        resource(2, "conf", [config("retention.ms", 0, "77"), config("cleanup.policy", 2, "compact")]),
        resource(2, "conf", [config("cleanup.policy", 3, "delete")]),
        resource(2, "conf", [config("retention.ms", 0, "x")]),
        resource(2, "conf", [config("retention.ms", 0, None)]),
        resource(2, "conf", [config("retention.ms", 2, "5")]),
        resource(2, "conf", [config("retention.ms", 0, "5"), config("retention.ms", 0, "6")]),
        resource(2, "conf", [config("nope", 0, "x")]),
        resource(2, "nobody", [config("retention.ms", 0, "77")]),
        resource(4, "", [config("log.retention.ms", 0, "88")]),
        resource(4, "", [config("log.retention.ms", 0, "x")]),
        resource(4, "", [config("node.id", 0, "7")]),
        resource(4, "1", [config("log.segment.bytes", 0, "2000000")]),
        resource(4, "1", [config("node.id", 0, "7")]),
        resource(4, "9", [config("log.retention.ms", 0, "88")]),
        resource(4, "x", []),
        resource(8, "1", [config("nobody.knows", 0, "INFO")]),
        resource(8, "1", [config("root", 0, "LOUD")]),
        resource(8, "1", [config("root", 1, None)]),
        resource(8, "7", [config("root", 0, "INFO")]),
        resource(16, "sub", [config("interval.ms", 0, "5000")]),
        resource(16, "sub", [config("interval.ms", 0, "5")]),
        resource(16, "", [config("interval.ms", 0, "5000")]),
        resource(32, "grp", [config("consumer.session.timeout.ms", 0, "46000")]),
        resource(32, "grp", [config("consumer.session.timeout.ms", 0, "5")]),
        resource(32, "grp", [config("nope", 0, "5")]),
        resource(32, "", [config("consumer.session.timeout.ms", 0, "46000")]),
        resource(0, "x", []),
        resource(7, "x", []),
    ):
        both.compare("IncrementalAlterConfigs", incremental.IncrementalAlterConfigsRequest([row]))
    replaced = [
        legacy.AlterConfigsResource(2, "conf2", [legacy.AlterableConfig("segment.ms", "100000")]),
        legacy.AlterConfigsResource(2, "nobody", []),
        legacy.AlterConfigsResource(4, "9", []),
        legacy.AlterConfigsResource(4, "1", [legacy.AlterableConfig("log.retention.ms", "x")]),
        legacy.AlterConfigsResource(8, "1", []),
    ]
    both.compare("AlterConfigs", legacy.AlterConfigsRequest(replaced))
    described = [
        configs.DescribeConfigsResource(kind, name, None)
        for kind, name in ((2, "conf"), (2, "conf2"), (2, "nobody"), (2, "bad name"), (4, ""), (4, "7"), (4, "x"))
    ]
    described += [
        configs.DescribeConfigsResource(kind, name, None)
        for kind, name in (
            (8, ""),
            (8, "7"),
            (16, ""),
            (16, "sub"),
            (16, "other"),
            (32, ""),
            (32, "grp"),
            (32, "other"),
        )
    ]
    names = ["num.partitions", "log.retention.ms", "log.segment.bytes", "min.insync.replicas", "ssl.key.password"]
    described.append(configs.DescribeConfigsResource(4, "1", names))
    for synonyms in (False, True):
        for each in described:
            both.compare("DescribeConfigs", configs.DescribeConfigsRequest([each], synonyms))
        both.compare("DescribeConfigs", configs.DescribeConfigsRequest(described, synonyms))
    unknown = [configs.DescribeConfigsResource(2, "conf", None), configs.DescribeConfigsResource(1, "x", None)]
    both.compare("DescribeConfigs", configs.DescribeConfigsRequest(unknown))
    both.compare("ListConfigResources", ListConfigResourcesRequest())
    for kinds in ([2, 4], [8], [16], [32], [99], [0]):
        both.compare("ListConfigResources", ListConfigResourcesRequest(kinds), 1)


def test_the_cluster_is_administered_with_the_same_codes(both: Both) -> None:
    new_topics(both, "led")
    rows = [elect.TopicPartitions("led", [0, 9]), elect.TopicPartitions("nobody", [0])]
    both.compare("ElectLeaders", elect.ElectLeadersRequest(0, rows, 10_000))
    both.compare("ElectLeaders", elect.ElectLeadersRequest(1, rows, 10_000), 1, 2)
    both.compare("ElectLeaders", elect.ElectLeadersRequest(0, None, 10_000))
    both.compare("ElectLeaders", elect.ElectLeadersRequest(5, None, 10_000), 1, 2)
    moves = [
        reassign.ReassignablePartition(0, None),
        reassign.ReassignablePartition(0, [7]),
        reassign.ReassignablePartition(9, [1]),
        reassign.ReassignablePartition(0, [1]),
        reassign.ReassignablePartition(0, []),
    ]
    for move in moves:
        topics = [reassign.ReassignableTopic("led", [move])]
        both.compare("AlterPartitionReassignments", reassign.AlterPartitionReassignmentsRequest(topics=topics))
    both.compare("ListPartitionReassignments", moving.ListPartitionReassignmentsRequest(topics=None))
    both.compare("UpdateFeatures", UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("nope", 1)]))
    lower = FeatureUpdateKey("group.version", 0, upgrade_type=2)
    both.compare("UpdateFeatures", UpdateFeaturesRequest(feature_updates=[lower], validate_only=True), 1, 2)
    both.compare("UnregisterBroker", UnregisterBrokerRequest(77))
    for topic, indexes in (("__cluster_metadata", [0]), ("__cluster_metadata", [1]), ("led", [0])):
        wanted = [quorum.TopicData(topic, [quorum.PartitionData(index) for index in indexes])]
        answer = both.ours.ask("DescribeQuorum", 2, quorum.DescribeQuorumRequest(wanted))
        theirs = both.kafka.ask("DescribeQuorum", 2, quorum.DescribeQuorumRequest(wanted))
        assert [row.error_code for each in answer.topics for row in each.partitions] == [
            row.error_code for each in theirs.topics for row in each.partitions
        ]


def test_quotas_credentials_and_access_rules_have_the_same_codes(both: Both) -> None:
    user = [alter_quotas.EntityData("user", "alice")]
    for entity, key, value in (
        (user, "producer_byte_rate", 1000.0),
        (user, "nope", 1.0),
        (user, "producer_byte_rate", -1.0),
        ([alter_quotas.EntityData("planet", "x")], "producer_byte_rate", 1.0),
        ([], "producer_byte_rate", 1.0),
    ):
        entry = alter_quotas.EntryData(entity, [alter_quotas.OpData(key, value)])
        both.compare("AlterClientQuotas", alter_quotas.AlterClientQuotasRequest([entry]))
    for components in (
        [],
        [quotas.ComponentData("user", 0, "alice")],
        [quotas.ComponentData("user", 2, None)],
        [quotas.ComponentData("planet", 0, "x")],
    ):
        both.compare("DescribeClientQuotas", quotas.DescribeClientQuotasRequest(components))
    changes = alter_scram.AlterUserScramCredentialsRequest(
        [alter_scram.ScramCredentialDeletion("bob", 1)],
        [
            alter_scram.ScramCredentialUpsertion("alice", 1, 4096, b"salt", b"salted"),
            alter_scram.ScramCredentialUpsertion("carol", 1, 1, b"salt", b"salted"),
            alter_scram.ScramCredentialUpsertion("dave", 9, 4096, b"salt", b"salted"),
        ],
    )
    both.compare("AlterUserScramCredentials", changes)
    for users in (None, [scram.UserName("alice"), scram.UserName("bob")]):
        both.compare("DescribeUserScramCredentials", scram.DescribeUserScramCredentialsRequest(users))
    anything = (1, None, 1, None, None, 1, 1)
    both.compare("DescribeAcls", describe_acls.DescribeAclsRequest(*anything))
    creation = create_acls.AclCreation(2, "a", 3, "User:x", "*", 3, 3)
    both.compare("CreateAcls", create_acls.CreateAclsRequest([creation, creation]))
    both.compare("DeleteAcls", delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(*anything)]))


def test_telemetry_is_the_same(both: Both) -> None:
    metrics = incremental.AlterableConfig("metrics", 0, "a.,b.")
    resource = incremental.AlterConfigsResource(16, "all", [metrics])
    both.compare("IncrementalAlterConfigs", incremental.IncrementalAlterConfigsRequest([resource]))
    both.compare("GetTelemetrySubscriptions", GetTelemetrySubscriptionsRequest())
    for _ in range(2):
        both.compare("GetTelemetrySubscriptions", GetTelemetrySubscriptionsRequest(NOBODY))
    for client_instance_id in (ZERO_UUID, NOBODY, b"m" * 16):
        both.compare("PushTelemetry", PushTelemetryRequest(client_instance_id, 5))
    both.compare("GetTelemetrySubscriptions", GetTelemetrySubscriptionsRequest(NOBODY))
