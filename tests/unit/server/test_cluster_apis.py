"""Elections, reassignments, features, brokers, quotas, SCRAM credentials and access rules over the wire."""

from typing import Any

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import alter_client_quotas as quotas
from headrace.protocol.messages import alter_partition_reassignments as reassignments
from headrace.protocol.messages import alter_user_scram_credentials as scram
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from headrace.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headrace.protocol.messages.describe_acls import DescribeAclsRequest
from headrace.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from headrace.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from headrace.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from headrace.protocol.messages.metadata_records import PartitionChangeRecord
from headrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from headrace.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.admin_node import AdminNode

# ElectLeaders


@pytest.mark.parametrize("version", range(3))
def test_the_preferred_replica_leads_again(version: int) -> None:
    node = AdminNode(other_brokers=[2])
    topic_id = node.create_topic("orders", replicas=2)
    first, second = node.image.topics[topic_id].partitions[0].replicas
    node.write(PartitionChangeRecord(0, topic_id, leader=second))
    wanted = [TopicPartitions("orders", [0, 7]), TopicPartitions("nobody", [0])]
    response = node.ask("ElectLeaders", version, ElectLeadersRequest(topic_partitions=wanted))
    assert [
        (topic.topic, row.partition_id, ErrorCode(row.error_code))
        for topic in response.replica_election_results
        for row in topic.partition_result
    ] == [
        ("orders", 0, ErrorCode.NONE),
        ("orders", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nobody", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert node.image.topics[topic_id].partitions[0].leader == first


@pytest.mark.parametrize("version", range(3))
def test_asking_for_all_tells_those_that_needed_it(version: int) -> None:
    node = AdminNode()
    node.create_topic("orders")
    response = node.ask("ElectLeaders", version, ElectLeadersRequest(topic_partitions=None))
    assert [(topic.topic, topic.partition_result) for topic in response.replica_election_results] == [("orders", [])]


def test_an_unknown_kind_of_election_is_refused() -> None:
    response = AdminNode().ask("ElectLeaders", 2, ElectLeadersRequest(5, None))
    assert response.error_code == ErrorCode.INVALID_REQUEST


# Reassignments


def reassign(node: AdminNode, replicas: list[int] | None, *, version: int = 1) -> Any:
    rows = [reassignments.ReassignablePartition(0, replicas)]
    topics = [reassignments.ReassignableTopic("orders", rows)]
    request = reassignments.AlterPartitionReassignmentsRequest(topics=topics)
    response = node.ask("AlterPartitionReassignments", version, request)
    ((row,),) = [topic.partitions for topic in response.responses]
    return ErrorCode(row.error_code)


def moving(node: AdminNode, topics: list[ListPartitionReassignmentsTopics] | None) -> list[Any]:
    response = node.ask("ListPartitionReassignments", 0, ListPartitionReassignmentsRequest(topics=topics))
    return [
        (topic.name, row.partition_index, row.adding_replicas, row.removing_replicas)
        for topic in response.topics
        for row in topic.partitions
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_a_partition_moves_is_listed_and_stays_after_all(version: int) -> None:
    node = AdminNode(other_brokers=[2])
    topic_id = node.create_topic("orders")
    (home,) = node.image.topics[topic_id].partitions[0].replicas
    away = 3 - home
    assert reassign(node, [away], version=version) is ErrorCode.NONE
    assert moving(node, None) == [("orders", 0, [away], [home])]
    assert moving(node, [ListPartitionReassignmentsTopics("orders", [0])]) == [("orders", 0, [away], [home])]
    assert moving(node, [ListPartitionReassignmentsTopics("orders", [1])]) == []
    assert reassign(node, None, version=version) is ErrorCode.NONE
    assert moving(node, None) == []
    assert reassign(node, None, version=version) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_partition_does_not_move_to_a_broker_that_nobody_knows() -> None:
    node = AdminNode()
    node.create_topic("orders")
    assert reassign(node, [9]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


# UpdateFeatures


@pytest.mark.parametrize("version", range(3))
def test_a_feature_level_changes_in_every_version(version: int) -> None:
    node = AdminNode()
    assert node.image.features["group.version"] == 1
    lower = FeatureUpdateKey("group.version", 0, allow_downgrade=version == 0, upgrade_type=1 if version == 0 else 2)
    response = node.ask("UpdateFeatures", version, UpdateFeaturesRequest(feature_updates=[lower]))
    assert response.error_code == 0, response.error_message
    assert [row.feature for row in response.results] == (["group.version"] if version < 2 else [])
    assert "group.version" not in node.image.features


def test_a_level_that_is_not_supported_refuses_all_of_them() -> None:
    node = AdminNode()
    rows = [FeatureUpdateKey("group.version", 0, upgrade_type=2), FeatureUpdateKey("nobody", 1)]
    response = node.ask("UpdateFeatures", 2, UpdateFeaturesRequest(feature_updates=rows))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert node.image.features["group.version"] == 1


def test_trying_a_level_does_not_set_it() -> None:
    node = AdminNode()
    row = FeatureUpdateKey("group.version", 0, upgrade_type=2)
    response = node.ask("UpdateFeatures", 2, UpdateFeaturesRequest(feature_updates=[row], validate_only=True))
    assert response.error_code == 0
    assert node.image.features["group.version"] == 1


def test_clients_are_told_every_level_that_is_not_0_and_that_of_the_quorum() -> None:
    node = AdminNode()
    lower = FeatureUpdateKey("group.version", 0, upgrade_type=2)
    node.ask("UpdateFeatures", 2, UpdateFeaturesRequest(feature_updates=[lower]))
    told = node.ask("ApiVersions", 4, ApiVersionsRequest("test", "1")).finalized_features
    levels = {row.name: row.max_version_level for row in told}
    assert levels == {**node.image.features, "kraft.version": 1}
    assert "group.version" not in levels


# UnregisterBroker


def test_a_broker_that_will_not_come_back_is_forgotten() -> None:
    node = AdminNode(other_brokers=[2])
    for code in (ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED):
        response = node.ask("UnregisterBroker", 0, UnregisterBrokerRequest(2))
        assert response.error_code == code
        assert list(node.image.brokers) == [1]


# Quotas


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_and_described(version: int) -> None:
    node = AdminNode()
    entity = [quotas.EntityData("user", "alice"), quotas.EntityData("client-id", None)]
    entries = [
        quotas.EntryData(entity, [quotas.OpData("producer_byte_rate", 1000.0)]),
        quotas.EntryData(entity[:1], [quotas.OpData("nobody", 1.0)]),
    ]
    response = node.ask("AlterClientQuotas", version, quotas.AlterClientQuotasRequest(entries))
    assert [row.error_code for row in response.entries] == [0, ErrorCode.INVALID_REQUEST]
    components = [ComponentData("user", 0, "alice")]
    found = node.ask("DescribeClientQuotas", version, DescribeClientQuotasRequest(components))
    assert [
        ({each.entity_type: each.entity_name for each in row.entity}, {each.key: each.value for each in row.values})
        for row in found.entries
    ] == [({"user": "alice", "client-id": None}, {"producer_byte_rate": 1000.0})]
    strict = node.ask("DescribeClientQuotas", version, DescribeClientQuotasRequest(components, strict=True))
    assert strict.entries == []


def test_quotas_by_something_else_are_unknown() -> None:
    request = DescribeClientQuotasRequest([ComponentData("planet", 0, "earth")])
    response = AdminNode().ask("DescribeClientQuotas", 1, request)
    assert (response.error_code, response.entries) == (ErrorCode.UNSUPPORTED_VERSION, None)


# SCRAM credentials


def test_credentials_are_set_described_without_their_secrets_and_deleted() -> None:
    node = AdminNode()
    upsertion = scram.ScramCredentialUpsertion("alice", 1, 4096, b"salt", b"salted password")
    deletion = scram.ScramCredentialDeletion("bob", 1)
    request = scram.AlterUserScramCredentialsRequest([deletion], [upsertion])
    response = node.ask("AlterUserScramCredentials", 0, request)
    assert {row.user: row.error_code for row in response.results} == {"alice": 0, "bob": ErrorCode.RESOURCE_NOT_FOUND}
    for users in (None, [UserName("alice")]):
        told = node.ask("DescribeUserScramCredentials", 0, DescribeUserScramCredentialsRequest(users))
        (row,) = told.results
        assert (row.user, [tuple(each)[:2] for each in row.credential_infos]) == ("alice", [(1, 4096)])
    gone = scram.AlterUserScramCredentialsRequest([scram.ScramCredentialDeletion("alice", 1)])
    assert node.ask("AlterUserScramCredentials", 0, gone).results[0].error_code == 0
    told = node.ask("DescribeUserScramCredentials", 0, DescribeUserScramCredentialsRequest([UserName("alice")]))
    assert told.results[0].error_code == ErrorCode.RESOURCE_NOT_FOUND


# Access rules


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_an_authorizer_there_are_no_access_rules(version: int) -> None:
    node = AdminNode()
    anything = (1, None, 1, None, None, 1, 1)
    told = node.ask("DescribeAcls", version, DescribeAclsRequest(*anything))
    assert (told.error_code, told.resources) == (ErrorCode.SECURITY_DISABLED, [])
    assert told.error_message
    creation = AclCreation(2, "orders", 3, "User:alice", "*", 3, 3)
    created = node.ask("CreateAcls", version, CreateAclsRequest([creation, creation]))
    assert [row.error_code for row in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    deleted = node.ask("DeleteAcls", version, DeleteAclsRequest([DeleteAclsFilter(*anything)]))
    assert [row.error_code for row in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED]
    assert node.ask("CreateAcls", version, CreateAclsRequest([])).results == []
