"""DescribeCluster, DescribeTopicPartitions, DescribeQuorum and ListConfigResources."""

from typing import Any

import pytest

from headrace.cluster.image import ConfigKind
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_cluster import DescribeClusterRequest
from headrace.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from headrace.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from headrace.protocol.messages.list_config_resources import ListConfigResourcesRequest
from headrace.protocol.messages.metadata_records import ConfigRecord, PartitionChangeRecord
from tests.support.admin_node import CLUSTER_ID, NODE_ID, AdminNode, Client

# DescribeCluster


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_tells_the_cluster_and_its_nodes(version: int) -> None:
    node = AdminNode(other_brokers=[2])
    response = node.ask("DescribeCluster", version, DescribeClusterRequest())
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, CLUSTER_ID, NODE_ID)
    assert [(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in response.brokers] == [
        (1, "plaintext1", 9092, "rack1", False),
        (2, "plaintext2", 9092, "rack2", False),
    ]
    assert response.cluster_authorized_operations == -(1 << 31)


def test_without_an_authorizer_a_client_may_do_everything_to_the_cluster() -> None:
    response = AdminNode().ask("DescribeCluster", 1, DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert response.cluster_authorized_operations == 8096


def test_fenced_brokers_are_told_on_demand() -> None:
    node = AdminNode(other_brokers=[2])
    node.fence(2)
    plain = node.ask("DescribeCluster", 2, DescribeClusterRequest())
    assert [each.broker_id for each in plain.brokers] == [1]
    response = node.ask("DescribeCluster", 2, DescribeClusterRequest(include_fenced_brokers=True))
    assert [(each.broker_id, each.is_fenced) for each in response.brokers] == [(1, False), (2, True)]


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE), (0, ErrorCode(115))],
)
def test_a_broker_does_not_describe_controllers(endpoint_type: int, code: ErrorCode) -> None:
    response = AdminNode().ask("DescribeCluster", 1, DescribeClusterRequest(endpoint_type=endpoint_type))
    assert (response.error_code, response.brokers) == (code, [])


def test_nodes_are_told_by_the_addresses_of_the_clients_listener() -> None:
    node = AdminNode(listeners=["INTERNAL", "EXTERNAL"])
    response = node.ask("DescribeCluster", 2, DescribeClusterRequest(), client=Client("EXTERNAL"))
    assert [(each.host, each.port) for each in response.brokers] == [("external1", 9093)]


# DescribeTopicPartitions


def page(node: AdminNode, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    request = DescribeTopicPartitionsRequest(
        [TopicRequest(name) for name in names], limit, None if cursor is None else Cursor(*cursor)
    )
    return node.ask("DescribeTopicPartitions", 0, request)


def told(response: Any) -> list[tuple[str, list[int]]]:
    return [(topic.name, [row.partition_index for row in topic.partitions]) for topic in response.topics]


def next_cursor(response: Any) -> tuple[str, int] | None:
    found = response.next_cursor
    return None if found is None else (found.topic_name, found.partition_index)


def two_topics(**static: str) -> AdminNode:
    node = AdminNode(static={name.replace("_", "."): value for name, value in static.items()})
    node.create_topic("b")
    node.create_topic("a", 3)
    return node


def test_topics_are_told_in_order_of_their_names() -> None:
    assert told(page(two_topics())) == [("a", [0, 1, 2]), ("b", [0])]
    assert told(page(two_topics(), "b", "a", "a")) == [("a", [0, 1, 2]), ("b", [0])]


@pytest.mark.parametrize("names", [(), ("a", "b")])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_the_pages_together_are_everything_once(limit: int, names: tuple[str, ...]) -> None:
    node = two_topics()
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(5):
        response = page(node, *names, limit=limit, cursor=cursor)
        rows = [(name, index) for name, indexes in told(response) for index in indexes]
        assert 0 < len(rows) <= limit
        seen += rows
        cursor = next_cursor(response)
        if cursor is None:
            break
    assert cursor is None
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0)]


def test_a_page_that_ends_with_a_topic_points_to_the_start_of_the_next() -> None:
    assert next_cursor(page(two_topics(), limit=3)) == ("b", 0)
    assert next_cursor(page(two_topics(), limit=2)) == ("a", 2)
    assert next_cursor(page(two_topics(), limit=4)) is None


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_has_one_partition_at_least(limit: int) -> None:
    assert told(page(two_topics(), limit=limit)) == [("a", [0])]


def test_the_broker_bounds_a_page() -> None:
    assert told(page(two_topics(max_request_partition_size_limit="2"))) == [("a", [0, 1])]


def test_a_cursor_past_the_end_of_its_topic_goes_on_with_the_next() -> None:
    assert told(page(two_topics(), cursor=("a", 7))) == [("a", []), ("b", [0])]


def test_a_cursor_at_a_topic_that_is_gone_goes_on_behind_it() -> None:
    assert told(page(two_topics(), cursor=("aa", 1))) == [("b", [0])]


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1), ("nobody", 0), ("", 0)])
def test_a_cursor_that_this_call_never_gave_is_refused(cursor: tuple[str, int]) -> None:
    response = page(two_topics(), "a", cursor=cursor)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", ErrorCode.INVALID_REQUEST)]


def test_unknown_topics_do_not_count_for_the_limit() -> None:
    response = page(two_topics(), "aa", "bad name", "b", limit=1)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("aa", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("b", ErrorCode.NONE),
    ]
    assert next_cursor(response) == ("bad name", 0)
    (row,) = page(two_topics(), "bad name").topics
    assert row.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_partition_is_told_with_its_eligible_leaders() -> None:
    node = AdminNode(other_brokers=[2, 3])
    topic_id = node.create_topic("orders", replicas=3)
    node.write(PartitionChangeRecord(0, topic_id, isr=[1], leader=1, eligible_leader_replicas=[2], last_known_elr=[3]))
    node.fence(3)
    (topic,) = page(node, "orders").topics
    (row,) = topic.partitions
    assert (topic.topic_id, topic.topic_authorized_operations) == (topic_id, 3576)
    assert (row.leader_id, row.leader_epoch, row.isr_nodes) == (1, 1, [1])
    assert (row.eligible_leader_replicas, row.last_known_elr, row.offline_replicas) == ([2], [3], [3])


# DescribeQuorum


def quorum(node: AdminNode, *places: tuple[str, list[int]], version: int = 2) -> Any:
    topics = [TopicData(name, [PartitionData(index) for index in indexes]) for name, indexes in places]
    return node.ask("DescribeQuorum", version, DescribeQuorumRequest(topics))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_its_only_voter_which_leads_it(version: int) -> None:
    node = AdminNode()
    response = quorum(node, ("__cluster_metadata", [0]), version=version)
    ((partition,),) = [topic.partitions for topic in response.topics]
    (voter,) = partition.current_voters
    assert (response.error_code, partition.error_code) == (0, 0)
    assert (partition.leader_id, partition.leader_epoch, partition.observers) == (NODE_ID, 1, [])
    assert partition.high_watermark == node.controller.committed_offset + 1 > 0
    assert (voter.replica_id, voter.log_end_offset) == (NODE_ID, partition.high_watermark)
    assert voter.last_caught_up_timestamp == (node.clock.now_ms() if version >= 1 else -1)
    listeners = [(each.name, each.port) for at in response.nodes for each in at.listeners]
    assert listeners == ([("CONTROLLER", 9093)] if version >= 2 else [])


@pytest.mark.parametrize(
    "places",
    [[("orders", [0])], [("__cluster_metadata", [1])], [("__cluster_metadata", [0, 1])], [("__cluster_metadata", [])]],
)
def test_nothing_else_has_a_quorum(places: list[tuple[str, list[int]]]) -> None:
    response = quorum(AdminNode(), *places)
    assert [topic.topic_name for topic in response.topics] == [name for name, _ in places]
    for topic in response.topics:
        assert {row.error_code for row in topic.partitions} <= {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_who_asks_for_nothing_gets_nothing() -> None:
    assert quorum(AdminNode()).topics == []


# ListConfigResources


def resources(node: AdminNode, *kinds: int, version: int = 1) -> list[tuple[int, str]]:
    response = node.ask("ListConfigResources", version, ListConfigResourcesRequest(list(kinds)))
    assert response.error_code == 0
    return [(row.resource_type, row.resource_name) for row in response.config_resources]


def configured() -> AdminNode:
    node = AdminNode(other_brokers=[2])
    node.create_topic("orders")
    node.write(ConfigRecord(ConfigKind.GROUP, "billing", "consumer.session.timeout.ms", "46000"))
    node.write(ConfigRecord(ConfigKind.CLIENT_METRICS, "slow", "interval.ms", "1000"))
    return node


def test_all_that_has_configs_is_listed() -> None:
    assert resources(configured()) == [
        (2, "orders"),
        (4, "1"),
        (4, "2"),
        (8, "1"),
        (8, "2"),
        (16, "slow"),
        (32, "billing"),
    ]


def test_kinds_are_listed_as_asked_for() -> None:
    node = configured()
    assert resources(node, ConfigKind.GROUP, ConfigKind.TOPIC) == [(32, "billing"), (2, "orders")]
    assert resources(node, version=0) == [(16, "slow")]


@pytest.mark.parametrize("kind", [0, 1, 99])
def test_a_kind_that_nobody_knows_is_refused(kind: int) -> None:
    response = configured().ask("ListConfigResources", 1, ListConfigResourcesRequest([2, kind]))
    assert (response.error_code, response.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
