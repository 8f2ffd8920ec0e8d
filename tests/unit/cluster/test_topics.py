"""Topics are created, deleted and get more partitions: what is asked, what is answered, what is written."""

from random import Random
from typing import Any

import pytest

from headrace.cluster.image import ConfigResource
from headrace.cluster.partitions import create_partitions
from headrace.cluster.topics import Chance, create_topics, delete_topics
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.unit.cluster.harness import Cluster, directory


def wanted(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> CreatableTopic:
    return CreatableTopic(name, partitions, replicas, **more)


def assigned(*replicas: list[int]) -> list[CreatableReplicaAssignment]:
    return [CreatableReplicaAssignment(index, ids) for index, ids in enumerate(replicas)]


def create(
    cluster: Cluster, *topics: CreatableTopic, validate_only: bool = False, **more: Any
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
    decision = create_topics(cluster.image, cluster.settings, request, cluster.chance(), **more)
    return list(cluster.do(decision).topics)


def errors(rows: list[CreatableTopicResult]) -> dict[str, str]:
    return {row.name: ErrorCode(row.error_code).name for row in rows if row.error_code}


def test_a_topic_is_created_with_its_configs_before_its_partitions_as_kafka_writes_it() -> None:
    cluster = Cluster(1, 2, 3)
    configs = [CreatableTopicConfig("retention.ms", "5"), CreatableTopicConfig("cleanup.policy", "compact")]
    request = CreateTopicsRequest(topics=[wanted("orders", 2, 3, configs=configs)])
    decision = create_topics(cluster.image, cluster.settings, request, cluster.chance())
    assert [type(record).__name__ for record in decision.records] == [
        "TopicRecord",
        "ConfigRecord",
        "ConfigRecord",
        "PartitionRecord",
        "PartitionRecord",
    ]
    (row,) = cluster.do(decision).topics
    assert (row.name, row.error_code, row.error_message) == ("orders", 0, None)
    assert (row.num_partitions, row.replication_factor) == (2, 3)
    topic = cluster.image.topics[row.topic_id]
    assert [sorted(partition.replicas) for partition in topic.partitions.values()] == [[1, 2, 3]] * 2
    for partition in topic.partitions.values():
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert partition.directories == tuple(directory(each) for each in partition.replicas)
    assert cluster.image.config(ConfigResource(2, "orders")) == {"retention.ms": "5", "cleanup.policy": "compact"}


def test_the_answer_tells_all_configs_and_where_they_come_from() -> None:
    cluster = Cluster(1, static={"log.retention.ms": "77"})
    (row,) = create(cluster, wanted("orders", configs=[CreatableTopicConfig("segment.bytes", "1048576")]))
    configs = {config.name: (config.value, config.config_source) for config in row.configs or ()}
    assert configs["segment.bytes"] == ("1048576", 1)  # of the topic
    assert configs["min.insync.replicas"] == ("1", 3)  # of the cluster, since eligible leader replicas are on
    assert configs["retention.ms"] == ("77", 4)  # of the broker's file
    assert configs["max.message.bytes"] == ("1048588", 5)  # default
    assert list(configs) == sorted(configs)


def test_who_may_not_describe_a_topic_does_not_get_its_configs() -> None:
    cluster = Cluster(1)
    seen, hidden = create(cluster, wanted("seen"), wanted("hidden"), describable={"seen"})
    assert seen.configs
    assert (hidden.error_code, hidden.topic_config_error_code) == (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert (hidden.num_partitions, hidden.replication_factor, hidden.configs) == (-1, -1, ())


def test_defaults_are_those_of_the_broker() -> None:
    cluster = Cluster(1, 2, 3, default_replication_factor=3)
    (row,) = create(cluster, wanted("orders", -1, -1))
    assert (row.num_partitions, row.replication_factor) == (2, 3)


def test_validate_only_answers_as_if_and_writes_nothing() -> None:
    cluster = Cluster(1)
    before = len(cluster.log)
    good, bad = create(cluster, wanted("good"), wanted("bad", 0), validate_only=True)
    assert good.error_code == 0
    assert good.num_partitions == 1
    assert bad.error_code == ErrorCode.INVALID_PARTITIONS
    assert len(cluster.log) == before


def test_each_topic_of_a_request_is_granted_or_refused_by_itself() -> None:
    cluster = Cluster(1)
    cluster.create_topic("there")
    rows = create(
        cluster,
        wanted("fine"),
        wanted("there"),
        wanted("twice"),
        wanted("twice"),
        wanted("many", replicas=2),
        wanted("none", replicas=0),
        wanted("less", replicas=-2),
        wanted("empty", 0),
        wanted("minus", -2),
        wanted("bad name"),
        wanted(""),
        wanted("."),
        wanted(".."),
        wanted("x" * 250),
        wanted("x" * 249),
        wanted("__cluster_metadata"),
        wanted("null", configs=[CreatableTopicConfig("retention.ms", None)]),
        wanted("typo", configs=[CreatableTopicConfig("retention.msec", "1")]),
        wanted("wrong", configs=[CreatableTopicConfig("retention.ms", "long")]),
    )
    assert errors(rows) == {
        "there": "TOPIC_ALREADY_EXISTS",
        "twice": "INVALID_REQUEST",
        "many": "INVALID_REPLICATION_FACTOR",
        "none": "INVALID_REPLICATION_FACTOR",
        "less": "INVALID_REPLICATION_FACTOR",
        "empty": "INVALID_PARTITIONS",
        "minus": "INVALID_PARTITIONS",
        "bad name": "INVALID_TOPIC_EXCEPTION",
        "": "INVALID_TOPIC_EXCEPTION",
        ".": "INVALID_TOPIC_EXCEPTION",
        "..": "INVALID_TOPIC_EXCEPTION",
        "x" * 250: "INVALID_TOPIC_EXCEPTION",
        "__cluster_metadata": "TOPIC_AUTHORIZATION_FAILED",
        "null": "INVALID_CONFIG",
        "typo": "INVALID_CONFIG",
        "wrong": "INVALID_CONFIG",
    }
    assert set(cluster.image.topic_ids) == {"there", "fine", "x" * 249}
    messages = {row.name: row.error_message for row in rows}
    assert "did you mean retention.ms?" in (messages["typo"] or "")


def test_names_that_differ_in_dots_and_underscores_collide() -> None:
    cluster = Cluster(1)
    rows = create(cluster, wanted("a.b_c"), wanted("a_b.c"), wanted("a-b"), wanted("ab"))
    assert errors(rows) == {"a_b.c": "INVALID_TOPIC_EXCEPTION"}
    (row,) = create(cluster, wanted("a.b.c"))
    assert row.error_message == "'a.b.c' collides with 'a.b_c': '.' and '_' count as the same"


def test_replicas_given_by_hand_are_taken_as_they_are() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.kill(2)
    (row,) = create(cluster, wanted("orders", -1, -1, assignments=assigned([2, 1], [3, 1])))
    assert (row.num_partitions, row.replication_factor) == (2, 2)
    first, second = cluster.image.topics[row.topic_id].partitions.values()
    assert (first.replicas, first.isr, first.leader) == ((2, 1), (1,), 1)
    assert (second.replicas, second.isr, second.leader) == ((3, 1), (3, 1), 3)


@pytest.mark.parametrize(
    ("topic", "code", "complaint"),
    [
        (wanted("t", 1, -1, assignments=assigned([1])), "INVALID_REQUEST", "must be -1"),
        (wanted("t", -1, 1, assignments=assigned([1])), "INVALID_REQUEST", "must be -1"),
        (
            wanted("t", -1, -1, assignments=assigned([1], [1, 2])),
            "INVALID_REPLICA_ASSIGNMENT",
            "partition 1 has 2 replicas",
        ),
        (wanted("t", -1, -1, assignments=assigned([1, 1])), "INVALID_REPLICA_ASSIGNMENT", "repeats"),
        (wanted("t", -1, -1, assignments=assigned([9])), "INVALID_REPLICA_ASSIGNMENT", "no broker 9"),
        (wanted("t", -1, -1, assignments=assigned([])), "INVALID_REPLICA_ASSIGNMENT", "at least one replica"),
        (wanted("t", -1, -1, assignments=assigned([3])), "INVALID_REPLICA_ASSIGNMENT", "is alive"),
        (
            wanted("t", -1, -1, assignments=[CreatableReplicaAssignment(1, [1])]),
            "INVALID_REPLICA_ASSIGNMENT",
            "without gaps",
        ),
        (
            wanted("t", -1, -1, assignments=[CreatableReplicaAssignment(0, [1])] * 2),
            "INVALID_REPLICA_ASSIGNMENT",
            "twice",
        ),
    ],
)
def test_a_wrong_assignment_is_refused(topic: CreatableTopic, code: str, complaint: str) -> None:
    cluster = Cluster(1, 2, 3)
    cluster.kill(3)
    (row,) = create(cluster, topic)
    assert ErrorCode(row.error_code).name == code
    assert complaint in (row.error_message or "")


def test_without_a_living_broker_no_topic_is_created() -> None:
    cluster = Cluster(1)
    cluster.kill(1)
    (row,) = create(cluster, wanted("orders"))
    assert row.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "no broker is alive" in (row.error_message or "")


def test_one_request_creates_ten_thousand_partitions_at_most() -> None:
    cluster = Cluster(1)
    assert errors(create(cluster, wanted("a", 5000), wanted("b", 5001))) == {
        "a": "POLICY_VIOLATION",
        "b": "POLICY_VIOLATION",
    }
    assert errors(create(cluster, wanted("a", 4999), wanted("b", 4999))) == {}, (
        "10,000 records with those of the topics"
    )


def test_a_request_that_would_make_more_than_ten_thousand_records_is_refused_as_a_whole_and_at_once() -> None:
    cluster = Cluster(1)
    ids: list[bytes] = []

    def new_uuid() -> bytes:
        ids.append(cluster.random.randbytes(16))
        return ids[-1]

    configs = [CreatableTopicConfig("retention.ms", "5"), CreatableTopicConfig("segment.ms", "7")]
    topics = [wanted("bad name"), *(wanted(f"t{number}", configs=configs) for number in range(5000))]
    for validate_only in (True, False):
        ids.clear()
        request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
        decision = create_topics(cluster.image, cluster.settings, request, Chance(cluster.random, new_uuid))
        assert decision.records == ()
        assert [row.name for row in decision.reply.topics] == [topic.name for topic in topics]
        assert {row.error_code for row in decision.reply.topics} == {ErrorCode.POLICY_VIOLATION}
        assert len(ids) == 2501, "each makes 4 records"
    assert errors(create(cluster, *topics[1:2501])) == {}


def test_a_quota_refuses_what_is_too_much_and_lets_the_rest_pass() -> None:
    cluster = Cluster(1)
    left = [3]

    def quota(partitions: int) -> bool:
        left[0] -= partitions
        return left[0] >= 0

    rows = create(cluster, wanted("a", 2), wanted("b", 2), quota=quota)
    assert errors(rows) == {"b": "THROTTLING_QUOTA_EXCEEDED"}
    decision = delete_topics(cluster.image, cluster.settings, DeleteTopicsRequest(topic_names=["a"]), quota=quota)
    assert decision.reply.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_topics_are_deleted_by_name_and_by_id() -> None:
    cluster = Cluster(1)
    for name in ("a", "b", "c"):
        cluster.create_topic(name, retention_ms="7")
    topic_id = cluster.image.topic_ids["b"]
    request = DeleteTopicsRequest(topics=[DeleteTopicState("a"), DeleteTopicState(None, topic_id)])
    rows = cluster.do(delete_topics(cluster.image, cluster.settings, request)).responses
    assert [(row.name, row.error_code) for row in rows] == [("a", 0), ("b", 0)]
    assert rows[1].topic_id == topic_id
    assert set(cluster.image.topic_ids) == {"c"}
    assert ConfigResource(2, "a") not in cluster.image.configs


@pytest.mark.parametrize("is_name_first", [True, False])
def test_a_topic_that_is_named_and_identified_in_one_request_stays(is_name_first: bool) -> None:
    cluster = Cluster(1)
    for name in ("a", "b"):
        cluster.create_topic(name)
    topic_id = cluster.image.topic_ids["a"]
    wanted = [DeleteTopicState("a"), DeleteTopicState(None, topic_id)]
    request = DeleteTopicsRequest([*(wanted if is_name_first else wanted[::-1]), DeleteTopicState("b")])
    rows = cluster.do(delete_topics(cluster.image, cluster.settings, request)).responses
    codes = {row.name: (row.topic_id, row.error_code) for row in rows}
    assert len(rows) == 2
    assert codes["a"] == (topic_id, ErrorCode.INVALID_REQUEST)
    assert codes["b"][1] == ErrorCode.NONE
    assert set(cluster.image.topic_ids) == {"a"}


def test_deletions_that_make_no_sense_are_refused_one_by_one() -> None:
    cluster = Cluster(1)
    cluster.create_topic("a")
    unknown = b"\7" * 16
    request = DeleteTopicsRequest(
        topics=[
            DeleteTopicState("missing"),
            DeleteTopicState(None, unknown),
            DeleteTopicState(None),
            DeleteTopicState("both", unknown),
            DeleteTopicState("a"),
            DeleteTopicState("a"),
        ]
    )
    rows = cluster.do(delete_topics(cluster.image, cluster.settings, request)).responses
    assert [ErrorCode(row.error_code).name for row in rows] == [
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
    ]
    assert "a" in cluster.image.topic_ids


def test_old_requests_name_topics_in_another_field() -> None:
    cluster = Cluster(1)
    cluster.create_topic("a")
    rows = cluster.do(delete_topics(cluster.image, cluster.settings, DeleteTopicsRequest(topic_names=["a"]))).responses
    assert [(row.name, row.error_code) for row in rows] == [("a", 0)]


def test_deletion_can_be_switched_off() -> None:
    cluster = Cluster(1, delete_topic_enable=False)
    cluster.create_topic("a")
    (row,) = cluster.do(
        delete_topics(cluster.image, cluster.settings, DeleteTopicsRequest(topic_names=["a"]))
    ).responses
    assert row.error_code == ErrorCode.TOPIC_DELETION_DISABLED


def grow(cluster: Cluster, *topics: CreatePartitionsTopic, validate_only: bool = False) -> list[tuple[str, str]]:
    request = CreatePartitionsRequest(topics=topics, validate_only=validate_only)
    rows = cluster.do(create_partitions(cluster.image, request, cluster.random)).results
    return [(row.name, ErrorCode(row.error_code).name) for row in rows]


def test_partitions_are_added_behind_the_others() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create_topic("orders", [1, 2])
    assert grow(cluster, CreatePartitionsTopic("orders", 3, None)) == [("orders", "NONE")]
    topic = cluster.image.topic("orders")
    assert topic is not None
    assert list(topic.partitions) == [0, 1, 2]
    assert [len(partition.replicas) for partition in topic.partitions.values()] == [2, 2, 2]
    given = [CreatePartitionsAssignment([3, 1])]
    assert grow(cluster, CreatePartitionsTopic("orders", 4, given)) == [("orders", "NONE")]
    assert cluster.partition("orders", 3).replicas == (3, 1)


def test_additions_that_make_no_sense_are_refused() -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("orders", [1], [1])
    for count, given, code in [
        (2, None, "INVALID_PARTITIONS"),
        (1, None, "INVALID_PARTITIONS"),
        (0, None, "INVALID_PARTITIONS"),
        (3, [], "INVALID_REPLICA_ASSIGNMENT"),
        (3, [CreatePartitionsAssignment([1, 2])], "INVALID_REPLICA_ASSIGNMENT"),
        (3, [CreatePartitionsAssignment([9])], "INVALID_REPLICA_ASSIGNMENT"),
        (20_000, None, "POLICY_VIOLATION"),
    ]:
        assert grow(cluster, CreatePartitionsTopic("orders", count, given)) == [("orders", code)], count
    assert grow(cluster, CreatePartitionsTopic("missing", 3, None)) == [("missing", "UNKNOWN_TOPIC_OR_PARTITION")]
    twice = CreatePartitionsTopic("orders", 3, None)
    assert grow(cluster, twice, twice) == [("orders", "INVALID_REQUEST")]
    assert grow(cluster, twice, validate_only=True) == [("orders", "NONE")]
    topic = cluster.image.topic("orders")
    assert topic is not None
    assert len(topic.partitions) == 2


def test_no_replicas_are_placed_for_more_partitions_than_one_request_adds() -> None:
    cluster = Cluster(1)
    placed: list[str] = []

    class Counting(Random):
        def randrange(self, *stop: int) -> int:  # type: ignore[override]
            placed.append("")
            return super().randrange(*stop)

    for name in "abcd":
        cluster.create_topic(name, [1])
    topics = [CreatePartitionsTopic(name, 6001, None) for name in "abc"] + [CreatePartitionsTopic("d", 4001, None)]
    create_partitions(cluster.image, CreatePartitionsRequest(topics=topics[:1]), Counting(1))
    for_one, placed[:] = len(placed), []
    decision = create_partitions(cluster.image, CreatePartitionsRequest(topics=topics), Counting(1))
    assert [ErrorCode(row.error_code).name for row in decision.reply.results] == [
        "NONE",
        "POLICY_VIOLATION",
        "POLICY_VIOLATION",
        "NONE",
    ]
    assert (len(decision.records), len(placed)) == (10_000, 2 * for_one)


def test_a_cluster_of_an_old_release_gets_records_that_it_can_read() -> None:
    cluster = Cluster(1, metadata_version=7)
    cluster.create_topic("orders")
    assert cluster.partition("orders").directories == (bytes(16),)
    assert cluster.replayed() == cluster.image
