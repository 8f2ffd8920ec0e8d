"""Metadata: what clients are told of topics and nodes, through the dispatcher and on a real metadata road."""

from typing import Any

import pytest

from headrace.cluster.image import LOST_DIRECTORY
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.protocol.messages.metadata_records import PartitionChangeRecord, UnregisterBrokerRecord
from headrace.protocol.types import ZERO_UUID
from tests.support.admin_node import CLUSTER_ID, NODE_ID, AdminNode, Client

ALL_VERSIONS = range(14)
NEWEST = 13
NOBODY = b"n" * 16


def ask(node: AdminNode, *names: str, version: int = NEWEST, client: Client | None = None, create: bool = False) -> Any:
    rows = [MetadataRequestTopic(name=name) for name in names]
    create = create or version < 4  # before, a client could not say that it does not want it
    return node.ask("Metadata", version, MetadataRequest(rows, allow_auto_topic_creation=create), client=client)


def ask_all(node: AdminNode, version: int = NEWEST) -> Any:
    return node.ask("Metadata", version, MetadataRequest(() if version == 0 else None))


def codes(response: Any) -> dict[str, ErrorCode]:
    return {topic.name: ErrorCode(topic.error_code) for topic in response.topics}


# What every version tells


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_every_version_tells_all_topics_with_their_partitions(version: int) -> None:
    node = AdminNode()
    topic_id = node.create_topic("orders", 3)
    node.create_topic("users")
    response = ask_all(node, version)
    assert sorted(codes(response)) == ["orders", "users"]
    orders = next(topic for topic in response.topics if topic.name == "orders")
    assert [row.partition_index for row in orders.partitions] == [0, 1, 2]
    assert {(row.error_code, row.leader_id, *row.replica_nodes, *row.isr_nodes) for row in orders.partitions} == {
        (0, NODE_ID, NODE_ID, NODE_ID)
    }
    assert orders.topic_id == (topic_id if version >= 10 else ZERO_UUID)
    assert [row.leader_epoch for row in orders.partitions] == [0 if version >= 7 else -1] * 3


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_every_version_tells_the_nodes(version: int) -> None:
    node = AdminNode(other_brokers=[2, 3])
    response = ask_all(node, version)
    assert [(each.node_id, each.host, each.port) for each in response.brokers] == [
        (1, "plaintext1", 9092),
        (2, "plaintext2", 9092),
        (3, "plaintext3", 9092),
    ]
    assert {each.rack for each in response.brokers} == ({"rack1", "rack2", "rack3"} if version >= 1 else {None})
    assert response.controller_id == (NODE_ID if version >= 1 else -1)
    assert response.cluster_id == (CLUSTER_ID if version >= 2 else None)


@pytest.mark.parametrize("version", range(1, 14))
def test_an_empty_list_asks_for_no_topics(version: int) -> None:
    node = AdminNode()
    node.create_topic("orders")
    response = ask(node, version=version)
    assert response.topics == []
    assert [each.node_id for each in response.brokers] == [NODE_ID]


def test_topics_are_told_once_and_in_the_order_of_the_request() -> None:
    node = AdminNode()
    node.create_topic("a")
    node.create_topic("b")
    assert [topic.name for topic in ask(node, "b", "a", "b").topics] == ["b", "a"]


def test_internal_topics_are_marked() -> None:
    node = AdminNode()
    node.create_topic("__consumer_offsets")
    node.create_topic("__mine")
    told = {topic.name: topic.is_internal for topic in ask(node, "__consumer_offsets", "__mine").topics}
    assert told == {"__consumer_offsets": True, "__mine": False}


# What is not there


@pytest.mark.parametrize("version", range(4, 14))
def test_a_topic_that_is_not_there_is_told_so_and_not_created_against_the_clients_wish(version: int) -> None:
    node = AdminNode()
    response = ask(node, "orders", "bad name", "", "__consumer_offsets", version=version)
    assert codes(response) == {
        "orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "__consumer_offsets": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [topic.is_internal for topic in response.topics] == [False, False, False, True]
    assert not node.image.topic_ids


@pytest.mark.parametrize("version", [0, 1, 3, 4, 13])
def test_a_topic_comes_by_asking_and_the_answer_waits_for_it(version: int) -> None:
    node = AdminNode(default_partitions=2)
    rows = [MetadataRequestTopic(name="orders")]
    answer = node.send("Metadata", version, MetadataRequest(rows, allow_auto_topic_creation=True))
    assert not answer.is_there
    node.worker.step()
    (topic,) = answer.response.topics
    assert (topic.error_code, topic.name, len(topic.partitions)) == (0, "orders", 2)
    assert node.partitions.leader("orders", 1)


def test_topics_that_are_there_and_topics_that_come_are_told_together() -> None:
    node = AdminNode()
    node.create_topic("old.one")
    response = ask(node, "new", "old.one", "old_one", "bad name", "__cluster_metadata", create=True)
    assert codes(response) == {
        "new": ErrorCode.NONE,
        "old.one": ErrorCode.NONE,
        "old_one": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # it collides
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "__cluster_metadata": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_nothing_is_created_where_the_broker_does_not_allow_it() -> None:
    node = AdminNode(static={"auto.create.topics.enable": "false"})
    assert codes(ask(node, "orders", create=True)) == {"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not node.image.topic_ids


def test_internal_topics_come_as_their_coordinators_need_them() -> None:
    node = AdminNode(
        static={
            "offsets.topic.num.partitions": "7",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }
    )
    response = ask(node, "__consumer_offsets", "__transaction_state", create=True)
    assert [(topic.error_code, len(topic.partitions)) for topic in response.topics] == [(0, 7), (0, 50)]
    configs = {resource.name: dict(values) for resource, values in node.image.configs.items() if resource.kind == 2}
    assert configs["__consumer_offsets"] == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    assert configs["__transaction_state"]["min.insync.replicas"] == "1"
    assert configs["__transaction_state"]["unclean.leader.election.enable"] == "false"


def test_a_client_that_goes_away_while_a_topic_comes_leaves_nothing_behind() -> None:
    node = AdminNode()
    answer = node.send("Metadata", NEWEST, MetadataRequest([MetadataRequestTopic(name="orders")]))
    assert answer.later is not None
    answer.later.abandon()
    node.worker.step()
    assert not answer.is_there
    assert "orders" in node.image.topic_ids


# By id


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_found_by_id(version: int) -> None:
    node = AdminNode()
    topic_id = node.create_topic("orders")
    rows = [MetadataRequestTopic(topic_id, None), MetadataRequestTopic(NOBODY, None)]
    response = node.ask("Metadata", version, MetadataRequest(rows))
    assert [(topic.error_code, topic.name, topic.topic_id) for topic in response.topics] == [
        (0, "orders", topic_id),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, NOBODY),
    ]


def test_where_ids_are_given_names_do_not_count() -> None:
    node = AdminNode()
    node.create_topic("orders")
    rows = [MetadataRequestTopic(NOBODY, "orders"), MetadataRequestTopic(name="users")]
    response = node.ask("Metadata", NEWEST, MetadataRequest(rows))
    assert [(topic.error_code, topic.topic_id) for topic in response.topics] == [(ErrorCode.UNKNOWN_TOPIC_ID, NOBODY)]


@pytest.mark.parametrize(
    ("version", "row"),
    [
        (10, MetadataRequestTopic(NOBODY, None)),
        (11, MetadataRequestTopic(NOBODY, "orders")),
        (13, MetadataRequestTopic(ZERO_UUID, None)),
    ],
)
def test_ids_before_their_time_and_topics_without_any_name_are_refused(version: int, row: MetadataRequestTopic) -> None:
    response = AdminNode().ask("Metadata", version, MetadataRequest([row]))
    assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST]
    assert (response.brokers, response.controller_id) == ([], -1)


# What a client may do


def test_without_an_authorizer_a_client_may_do_everything() -> None:
    node = AdminNode()
    node.create_topic("orders")
    asked = MetadataRequest(
        [MetadataRequestTopic(name="orders"), MetadataRequestTopic(name="none")],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    response = node.ask("Metadata", 10, asked)
    assert response.cluster_authorized_operations == 8096
    assert [topic.topic_authorized_operations for topic in response.topics] == [3576, 3576]


def test_what_a_client_may_do_is_told_on_demand_only() -> None:
    node = AdminNode()
    node.create_topic("orders")
    response = ask(node, "orders", version=10)
    assert response.cluster_authorized_operations == -(1 << 31)
    assert response.topics[0].topic_authorized_operations == -(1 << 31)


# Nodes that are out of reach


def three_replicas(node: AdminNode, leader: int) -> bytes:
    """A topic on brokers 1, 2 and 3, led by one of them."""
    topic_id = node.create_topic("orders", replicas=3)
    node.write(PartitionChangeRecord(0, topic_id, leader=leader))
    return topic_id


def partition(response: Any) -> Any:
    return response.topics[0].partitions[0]


def test_a_fenced_broker_is_no_node_and_its_replicas_are_offline() -> None:
    node = AdminNode(other_brokers=[2, 3])
    three_replicas(node, leader=1)
    node.fence(3)
    response = ask(node, "orders")
    assert [each.node_id for each in response.brokers] == [1, 2]
    assert partition(response).offline_replicas == [3]
    assert sorted(partition(response).replica_nodes) == [1, 2, 3]


def test_the_last_broker_is_a_node_although_it_is_fenced() -> None:
    """It is about to stop, and a client that hears of no node forgets the one that it has."""
    node = AdminNode(other_brokers=[2])
    node.fence(2)
    node.fence(NODE_ID)
    assert [each.node_id for each in ask(node).brokers] == [NODE_ID, 2]


def test_a_broker_that_nobody_knows_any_more_is_offline() -> None:
    node = AdminNode(other_brokers=[2, 3])
    three_replicas(node, leader=1)
    node.write(UnregisterBrokerRecord(3, node.image.brokers[3].epoch))
    assert partition(ask(node, "orders")).offline_replicas == [3]


def test_a_replica_in_a_lost_directory_is_offline() -> None:
    node = AdminNode()
    topic_id = node.create_topic("orders")
    node.write(PartitionChangeRecord(0, topic_id, directories=[LOST_DIRECTORY]))
    assert partition(ask(node, "orders")).offline_replicas == [NODE_ID]


def test_a_partition_without_a_leader_says_so() -> None:
    node = AdminNode()
    topic_id = node.create_topic("orders")
    node.write(PartitionChangeRecord(0, topic_id, leader=-1))
    row = partition(ask(node, "orders"))
    assert (row.error_code, row.leader_id, row.leader_epoch) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, 1)


def test_version_0_leaves_out_replicas_out_of_reach() -> None:
    node = AdminNode(other_brokers=[2, 3])
    three_replicas(node, leader=1)
    node.fence(3)
    row = partition(ask(node, "orders", version=0))
    assert sorted(row.replica_nodes) == [1, 2]
    assert row.error_code == ErrorCode.REPLICA_NOT_AVAILABLE


def test_a_client_asks_another_broker_for_the_controller_when_this_one_is_fenced() -> None:
    node = AdminNode(other_brokers=[2])
    node.fence(NODE_ID)
    assert ask(node).controller_id == 2


# Listeners


@pytest.mark.parametrize(("listener", "port"), [("INTERNAL", 9092), ("EXTERNAL", 9093)])
def test_a_client_is_told_the_addresses_of_the_listener_it_came_by(listener: str, port: int) -> None:
    node = AdminNode(listeners=["INTERNAL", "EXTERNAL"], other_brokers=[2])
    response = ask(node, client=Client(listener))
    assert [(each.host, each.port) for each in response.brokers] == [
        (f"{listener.lower()}1", port),
        (f"{listener.lower()}2", port),
    ]


@pytest.mark.parametrize(("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)])
def test_a_leader_without_the_clients_listener_is_out_of_its_reach(version: int, code: ErrorCode) -> None:
    node = AdminNode(listeners=["INTERNAL"])
    node.create_topic("orders")
    response = ask(node, "orders", version=version, client=Client("EXTERNAL"))
    assert response.brokers == []
    assert (partition(response).error_code, partition(response).leader_id) == (code, -1)
    assert partition(response).offline_replicas == [NODE_ID]
