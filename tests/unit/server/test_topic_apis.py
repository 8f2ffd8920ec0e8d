"""CreateTopics, DeleteTopics and CreatePartitions over the wire; the decisions themselves are tested in cluster."""

from typing import Any

import pytest

from headrace.cluster.config_resolution import ConfigSource
from headrace.cluster.image import CLUSTER_DEFAULT
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.protocol.messages.metadata_records import ConfigRecord
from headrace.protocol.types import ZERO_UUID
from headrace.server.partition import Partition
from tests.support.admin_node import AdminNode

NEWEST = 7


def create(node: AdminNode, *topics: CreatableTopic, version: int = NEWEST, validate_only: bool = False) -> Any:
    return node.ask("CreateTopics", version, CreateTopicsRequest(list(topics), validate_only=validate_only))


def codes(rows: Any) -> dict[str, ErrorCode]:
    return {row.name: ErrorCode(row.error_code) for row in rows}


# CreateTopics


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates_topics(version: int) -> None:
    node = AdminNode()
    response = create(node, CreatableTopic("orders", 3, 1), version=version)
    (row,) = response.topics
    assert (row.name, row.error_code, row.error_message) == ("orders", 0, None)
    assert row.topic_id == (node.image.topic_ids["orders"] if version >= 7 else ZERO_UUID)
    assert (row.num_partitions, row.replication_factor) == ((3, 1) if version >= 5 else (-1, -1))
    assert len(node.image.topics[node.image.topic_ids["orders"]].partitions) == 3


def test_the_answer_waits_until_the_topic_is_committed_and_can_be_written() -> None:
    node = AdminNode()
    answer = node.send("CreateTopics", NEWEST, CreateTopicsRequest([CreatableTopic("orders", 1, 1)]))
    assert not answer.is_there
    assert "orders" not in node.image.topic_ids
    node.worker.step()
    assert answer.response.topics[0].error_code == 0
    assert isinstance(node.partitions.leader("orders", 0), Partition)


@pytest.mark.parametrize("version", range(2, 8))
def test_defaults_are_the_brokers(version: int) -> None:
    node = AdminNode(default_partitions=4)
    create(node, CreatableTopic("orders", -1, -1), version=version)
    assert len(node.image.topics[node.image.topic_ids["orders"]].partitions) == 4


@pytest.mark.parametrize("version", range(5, 8))
def test_the_configs_of_the_new_topic_are_told_with_their_sources(version: int) -> None:
    node = AdminNode(static={"log.segment.bytes": "2000000"})
    node.write(ConfigRecord(*CLUSTER_DEFAULT, "log.cleaner.delete.retention.ms", "7"))
    wanted = CreatableTopic("orders", 1, 1, configs=[CreatableTopicConfig("retention.ms", "5")])
    (row,) = create(node, wanted, version=version).topics
    told = {config.name: (config.value, ConfigSource(config.config_source)) for config in row.configs}
    assert told["retention.ms"] == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert told["segment.bytes"] == ("2000000", ConfigSource.STATIC_BROKER_CONFIG)
    assert told["delete.retention.ms"] == ("7", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert told["cleanup.policy"] == ("delete", ConfigSource.DEFAULT_CONFIG)
    assert len(told) == 33  # as many as Apache Kafka 4.3 tells
    assert not any(config.read_only or config.is_sensitive for config in row.configs)


def test_each_topic_is_created_or_refused_by_itself() -> None:
    node = AdminNode()
    node.create_topic("old.one")
    bad_config = [CreatableTopicConfig("retention.ms", "soon")]
    response = create(
        node,
        CreatableTopic("fine", 1, 1),
        CreatableTopic("old.one", 1, 1),
        CreatableTopic("old_one", 1, 1),
        CreatableTopic("bad name", 1, 1),
        CreatableTopic("none", 0, 1),
        CreatableTopic("many", 1, 2),
        CreatableTopic("odd", 1, 1, configs=bad_config),
        CreatableTopic("__cluster_metadata", 1, 1),
    )
    assert codes(response.topics) == {
        "fine": ErrorCode.NONE,
        "old.one": ErrorCode.TOPIC_ALREADY_EXISTS,
        "old_one": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "none": ErrorCode.INVALID_PARTITIONS,
        "many": ErrorCode.INVALID_REPLICATION_FACTOR,
        "odd": ErrorCode.INVALID_CONFIG,
        "__cluster_metadata": ErrorCode.INVALID_REQUEST,
    }
    assert all(row.error_message for row in response.topics if row.error_code)
    assert sorted(node.image.topic_ids) == ["fine", "old.one"]


def test_validating_says_what_would_happen_and_does_nothing() -> None:
    node = AdminNode()
    node.create_topic("old")
    response = create(node, CreatableTopic("new", 1, 1), CreatableTopic("old", 1, 1), validate_only=True)
    assert codes(response.topics) == {"new": ErrorCode.NONE, "old": ErrorCode.TOPIC_ALREADY_EXISTS}
    assert list(node.image.topic_ids) == ["old"]


def test_two_requests_that_come_close_together_do_not_both_create_the_topic() -> None:
    node = AdminNode()
    request = CreateTopicsRequest([CreatableTopic("orders", 1, 1)])
    first, second = (node.send("CreateTopics", NEWEST, request) for _ in range(2))
    node.worker.step()
    assert first.response.topics[0].error_code == ErrorCode.NONE
    assert second.response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_ids_of_new_topics_are_random_uuids_whose_text_is_no_option() -> None:
    node = AdminNode()
    ids = [node.create_topic(f"topic{number}") for number in range(200)]
    assert len(set(ids)) == 200
    for topic_id in ids:
        assert topic_id[6] >> 4 == 4
        assert topic_id[8] >> 6 == 2
        assert topic_id[0] >> 2 != 62  # a dash in base64url


# DeleteTopics


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_deletes_topics_by_name(version: int) -> None:
    node = AdminNode()
    topic_id = node.create_topic("orders")
    names = ["orders", "nobody"]
    request = (
        DeleteTopicsRequest(topics=[DeleteTopicState(name) for name in names])
        if version >= 6
        else DeleteTopicsRequest(topic_names=names)
    )
    response = node.ask("DeleteTopics", version, request)
    assert codes(response.responses) == {"orders": ErrorCode.NONE, "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert response.responses[0].topic_id == (topic_id if version >= 6 else ZERO_UUID)
    assert bool(response.responses[1].error_message) == (version >= 5)
    assert not node.image.topics
    assert node.partitions.leader("orders", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topics_are_deleted_by_id() -> None:
    node = AdminNode()
    topic_id = node.create_topic("orders")
    rows = [DeleteTopicState(None, topic_id), DeleteTopicState(None, b"n" * 16), DeleteTopicState(None)]
    response = node.ask("DeleteTopics", 6, DeleteTopicsRequest(topics=rows))
    assert [(row.name, row.error_code) for row in response.responses] == [
        ("orders", ErrorCode.NONE),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        (None, ErrorCode.INVALID_REQUEST),
    ]


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.INVALID_REQUEST), (2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)],
)
def test_a_broker_that_deletes_nothing_says_so_in_words_that_the_version_has(version: int, code: ErrorCode) -> None:
    node = AdminNode(delete_topic_enable=False)
    node.create_topic("orders")
    response = node.ask("DeleteTopics", version, DeleteTopicsRequest(topic_names=["orders"]))
    assert codes(response.responses) == {"orders": code}
    assert "orders" in node.image.topic_ids


# CreatePartitions


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_partitions(version: int) -> None:
    node = AdminNode()
    node.create_topic("orders")
    rows = [CreatePartitionsTopic("orders", 3, None), CreatePartitionsTopic("nobody", 3, None)]
    response = node.ask("CreatePartitions", version, CreatePartitionsRequest(rows))
    assert codes(response.results) == {"orders": ErrorCode.NONE, "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert isinstance(node.partitions.leader("orders", 2), Partition)


def test_the_number_of_partitions_only_grows() -> None:
    node = AdminNode()
    node.create_topic("orders", 3)
    for count in (2, 3):
        rows = [CreatePartitionsTopic("orders", count, None)]
        response = node.ask("CreatePartitions", 3, CreatePartitionsRequest(rows))
        assert codes(response.results) == {"orders": ErrorCode.INVALID_PARTITIONS}


def test_validating_more_partitions_adds_none() -> None:
    node = AdminNode()
    node.create_topic("orders")
    rows = [CreatePartitionsTopic("orders", 3, None)]
    response = node.ask("CreatePartitions", 3, CreatePartitionsRequest(rows, validate_only=True))
    assert codes(response.results) == {"orders": ErrorCode.NONE}
    assert node.partitions.leader("orders", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
