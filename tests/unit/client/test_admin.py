"""The admin client against both brokers: topics, partitions, configs, the cluster."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import headrace
import headrace.aio
from headrace.client.admin import Admin, AsyncAdmin
from headrace.client.admin_changes import Append, ConfigResource, Subtract
from headrace.client.admin_topics import CreatedTopic, NewTopic
from headrace.client.errors import (
    BrokerRefusedError,
    ClosedError,
    InvalidTopicError,
    KafkaError,
    PartialError,
    TopicExistsError,
    UnknownTopicError,
)
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from tests.support.both_brokers import eventually, ready, unique


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    with headrace.Admin(bootstrap) as made:
        yield made


def create(admin: Admin, name: str, partitions: int = 1, **options: Any) -> CreatedTopic:
    """Create a topic, and wait until the broker knows it. Its partitions may come a moment later: see `ready`."""
    created = admin.create_topic(name, partitions, **options)
    eventually(lambda: len(admin.describe_topic(name).partitions) == partitions)
    return created


def write(bootstrap: str, topic: str, partition: int, *timestamps: int) -> None:
    """A record for each time, as a batch of its own."""
    with headrace.Producer(bootstrap) as producer:
        for timestamp in timestamps:
            producer.send(topic, b"value", partition=partition, timestamp=timestamp).result(120)


# Topics


def test_a_topic_is_created_listed_described_and_deleted(admin: Admin) -> None:
    name = unique("orders")
    created = admin.create_topic(name, 3, 1, {"retention.ms": 60_000, "cleanup.policy": ["compact", "delete"]})
    assert (created.name, created.partitions, created.replication) == (name, 3, 1)
    assert created.configs["retention.ms"] == "60000"
    eventually(lambda: name in [topic.name for topic in admin.list_topics()])
    (listed,) = [topic for topic in admin.list_topics() if topic.name == name]
    assert (listed.id, listed.partitions, listed.replication, listed.is_internal) == (created.id, 3, 1, False)
    described = admin.describe_topic(name)
    assert described.id == created.id
    assert [partition.number for partition in described.partitions] == [0, 1, 2]
    broker = admin.describe_cluster().brokers[0].id
    assert {partition.leader for partition in described.partitions} == {broker}
    assert {partition.isr for partition in described.partitions} == {(broker,)}
    admin.delete_topic(name)
    eventually(lambda: name not in [topic.name for topic in admin.list_topics()])
    with pytest.raises(UnknownTopicError, match=f"There is no topic '{name}'"):
        admin.describe_topic(name)


def test_partitions_and_replication_are_the_brokers_to_choose(admin: Admin) -> None:
    created = admin.create_topic(unique("defaults"))
    assert (created.partitions, created.replication) == (1, 1)


def test_replicas_can_be_assigned(admin: Admin) -> None:
    broker = admin.describe_cluster().brokers[0].id
    created = admin.create_topic(unique("assigned"), assignments=[[broker], [broker]])
    assert created.partitions == 2


def test_a_topic_that_exists_is_an_error_of_its_own_kind(admin: Admin) -> None:
    name = unique("twice")
    admin.create_topic(name)
    with pytest.raises(TopicExistsError, match=f"There is a topic '{name}' already"):
        admin.create_topic(name)


def test_an_impossible_name_is_an_error_of_its_own_kind(admin: Admin) -> None:
    with pytest.raises(InvalidTopicError):
        admin.create_topic("a/b")


def test_nothing_is_created_when_only_asked_whether_it_would_work(admin: Admin) -> None:
    name = unique("dry")
    admin.create_topic(name, 2, validate_only=True)
    with pytest.raises(UnknownTopicError):
        admin.describe_topic(name)


def test_of_several_topics_some_may_fail(admin: Admin) -> None:
    known, new = unique("known"), unique("new")
    admin.create_topic(known)
    with pytest.raises(PartialError, match="1 of 2 topics failed") as caught:
        admin.create_topics([NewTopic(known), NewTopic(new, 2)])
    assert list(caught.value.errors) == [known]
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert caught.value.results[new].partitions == 2
    with pytest.raises(PartialError) as caught:
        admin.delete_topics([known, unique("nowhere"), new])
    assert len(caught.value.errors) == 1
    assert {known, new} <= caught.value.results.keys()


def test_many_partitions_are_described_in_pages(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.client.admin_topics.PAGE_PARTITIONS", 4)
    names = [unique("paged") for _ in range(3)]
    admin.create_topics([NewTopic(name, 5) for name in names])
    eventually(lambda: set(names) <= {topic.name for topic in admin.list_topics()})
    described = admin.describe_topics(names)
    assert {name: [each.number for each in topic.partitions] for name, topic in described.items()} == {
        name: [0, 1, 2, 3, 4] for name in names
    }
    assert set(names) <= admin.describe_topics().keys()


def test_a_topic_gets_more_partitions_and_never_fewer(admin: Admin) -> None:
    name = unique("growing")
    create(admin, name)
    admin.create_partitions({name: 4}, validate_only=True)
    admin.create_partitions({name: 3})
    eventually(lambda: len(admin.describe_topic(name).partitions) == 3)
    with pytest.raises(KafkaError, match="INVALID_PARTITIONS"):
        admin.create_partitions({name: 2})
    with pytest.raises(UnknownTopicError):
        admin.create_partitions({unique("nowhere"): 2})


# Partitions


def test_offsets_are_listed_by_name_and_by_time(admin: Admin, bootstrap: str) -> None:
    name = unique("timed")
    create(admin, name, 2)
    times = [1_700_000_000_000, 1_700_000_005_000, 1_700_000_001_000]
    write(bootstrap, name, 1, *times)
    partition = TopicPartition(name, 1)

    def offset(spec: str | int | datetime) -> tuple[int, int]:
        found = admin.list_offsets({partition: spec})[partition]
        return found.offset, found.timestamp_ms

    assert offset("earliest") == (0, -1)
    assert offset("latest") == (3, -1)
    assert offset("max_timestamp") == (1, times[1])
    assert offset(times[0] + 1) == (1, times[1])
    assert offset(datetime.fromtimestamp(times[1] / 1000, UTC)) == (1, times[1])
    assert offset(times[1] + 1) == (-1, -1)
    both = admin.list_offsets({partition: "latest", TopicPartition(name, 0): "latest"})
    assert {each.partition: found.offset for each, found in both.items()} == {0: 0, 1: 3}
    with pytest.raises(ValueError, match="not one of latest"):
        offset("newest")


def test_partitions_that_do_not_exist_are_named(admin: Admin) -> None:
    name = unique("small")
    create(admin, name, 2)
    with pytest.raises(UnknownTopicError, match=f"Topic '{name}' has no partition 2; it has 2"):
        admin.list_offsets({TopicPartition(name, 2): "latest"})
    nowhere = unique("nowhere")
    with pytest.raises(PartialError) as caught:
        admin.list_offsets({TopicPartition(nowhere, 0): "latest", TopicPartition(name, 0): "latest"})
    assert list(caught.value.errors) == [TopicPartition(nowhere, 0)]
    assert caught.value.results[TopicPartition(name, 0)].offset == 0


def test_records_are_deleted_up_to_an_offset(admin: Admin, bootstrap: str) -> None:
    name = unique("shrinking")
    create(admin, name)
    write(bootstrap, name, 0, *range(1_700_000_000_000, 1_700_000_000_005))
    partition = TopicPartition(name, 0)
    assert admin.delete_records({partition: 2}) == {partition: 2}
    assert admin.list_offsets({partition: "earliest"})[partition].offset == 2
    assert admin.delete_records({partition: -1}) == {partition: 5}
    with pytest.raises(KafkaError, match=f"{partition}: .*OFFSET_OUT_OF_RANGE"):
        admin.delete_records({partition: 99})


def test_elections_and_moves_that_are_not_needed(admin: Admin) -> None:
    name = unique("led")
    create(admin, name)
    partition = TopicPartition(name, 0)
    assert admin.elect_leaders([partition]) == {partition: False}
    broker = admin.describe_cluster().brokers[0].id
    admin.alter_reassignments({partition: [broker]})
    assert admin.list_reassignments([partition]) == {}
    with pytest.raises(KafkaError, match="NO_REASSIGNMENT_IN_PROGRESS"):
        admin.alter_reassignments({partition: None})
    with pytest.raises(KafkaError, match="INVALID_REPLICA_ASSIGNMENT"):
        admin.alter_reassignments({partition: [broker + 17]})


def test_idempotent_producers_are_described(admin: Admin, bootstrap: str) -> None:
    from confluent_kafka import Producer

    name = unique("produced")
    create(admin, name)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    producer.produce(name, b"1")
    producer.flush()
    partition = TopicPartition(name, 0)
    (state,) = admin.describe_producers([partition])[partition]
    assert (state.last_sequence, state.producer_epoch, state.transaction_start_offset) == (0, 0, -1)


# Configs


def test_configs_of_a_topic_are_changed_and_described(admin: Admin) -> None:
    name = unique("configured")
    create(admin, name)
    topic = ConfigResource("topic", name)

    def entry(config: str) -> tuple[str | None, str]:
        found = admin.describe_configs([topic])[topic][config]
        return found.value, found.source

    assert entry("retention.ms")[1] in ("default", "file")  # the file of the test's Kafka says -1
    admin.alter_configs({topic: {"retention.ms": 5000, "cleanup.policy": "compact"}})
    eventually(lambda: entry("retention.ms") == ("5000", "topic"))
    admin.alter_configs({topic: {"cleanup.policy": Append(["delete"])}})
    eventually(lambda: entry("cleanup.policy") == ("compact,delete", "topic"))
    admin.alter_configs({topic: {"cleanup.policy": Subtract(["compact"]), "retention.ms": None}})
    eventually(lambda: entry("cleanup.policy") == ("delete", "topic"))
    assert entry("retention.ms")[1] in ("default", "file")
    admin.alter_configs({topic: {"retention.ms": 1}}, validate_only=True)
    assert entry("retention.ms")[1] in ("default", "file")


def test_only_the_configs_that_were_asked_for_with_words_about_them(admin: Admin) -> None:
    name = unique("asked")
    create(admin, name, configs={"segment.bytes": 1_048_576})
    topic = ConfigResource("topic", name)
    found = admin.describe_configs([topic], names=["segment.bytes"], synonyms=True, documentation=True)[topic]
    assert list(found) == ["segment.bytes"]
    entry = found["segment.bytes"]
    assert (entry.type, entry.is_read_only, entry.is_sensitive, entry.is_default) == ("int", False, False, False)
    assert (entry.synonyms[0].name, entry.synonyms[0].source) == ("segment.bytes", "topic")
    assert entry.documentation


def test_configs_of_a_broker_come_from_itself(admin: Admin) -> None:
    broker = ConfigResource("broker", str(admin.describe_cluster().brokers[0].id))
    entry = admin.describe_configs([broker], names=["node.id"])[broker]["node.id"]
    assert (entry.value, entry.is_read_only) == (broker.name, True)
    with pytest.raises(KafkaError, match="There is no broker 77"):
        admin.describe_configs([ConfigResource("broker", "77")])
    with pytest.raises(ValueError, match="not the id of a broker"):
        admin.describe_configs([ConfigResource("broker", "first")])
    with pytest.raises(ValueError, match="'topics' is not one of topic"):
        admin.describe_configs([ConfigResource("topics", "a")])


def test_a_wrong_config_is_refused_with_its_resource(admin: Admin) -> None:
    name = unique("wrong")
    create(admin, name)
    with pytest.raises(KafkaError, match=f"topic {name}: .*INVALID_CONFIG"):
        admin.alter_configs({ConfigResource("topic", name): {"retention.ms": "soon"}})


def test_cluster_wide_configs_and_resources_that_have_some(admin: Admin) -> None:
    cluster, group = ConfigResource("broker"), ConfigResource("group", unique("g"))
    admin.alter_configs({cluster: {"log.cleaner.threads": None}, group: {"consumer.session.timeout.ms": 50_000}})
    eventually(lambda: group in admin.list_config_resources(["group"]))
    assert {resource.kind for resource in admin.list_config_resources(["group"])} == {"group"}
    admin.alter_configs({group: {"consumer.session.timeout.ms": None}})


# The cluster


def test_the_cluster_describes_itself(admin: Admin, bootstrap: str) -> None:
    cluster = admin.describe_cluster(fenced=True)
    (broker,) = cluster.brokers
    assert f"{broker.host}:{broker.port}" == bootstrap
    assert (cluster.controller_id, broker.is_fenced, len(cluster.id)) == (broker.id, False, 22)
    quorum = admin.describe_quorum()
    assert quorum.leader_id == broker.id
    assert [voter.id for voter in quorum.voters] == [broker.id]
    assert quorum.voters[0].log_end_offset >= quorum.high_watermark > 0
    features = admin.describe_features()
    assert features["transaction.version"].level == features["transaction.version"].highest == 2
    apis = {each.name: (each.lowest, each.highest) for each in admin.api_versions(broker.id)}
    assert apis["Metadata"] == (0, 13)


def test_a_feature_cannot_go_beyond_what_brokers_can_do(admin: Admin) -> None:
    with pytest.raises(KafkaError) as caught:
        admin.update_features({"transaction.version": 99})
    assert caught.value.code in (ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FEATURE_UPDATE_FAILED)
    admin.update_features({"group.version": 1}, validate_only=True)
    with pytest.raises(ValueError, match="not one of upgrade"):
        admin.update_features({"group.version": 1}, kind="sideways")


def test_log_directories_show_how_large_partitions_are(admin: Admin, bootstrap: str) -> None:
    name = unique("large")
    create(admin, name, 2)
    ready(bootstrap, name, 2)
    write(bootstrap, name, 0, 1_700_000_000_000)
    wanted = [TopicPartition(name, 0), TopicPartition(name, 1)]
    (directories,) = admin.describe_log_dirs(partitions=wanted).values()
    (directory,) = directories
    assert directory.error is None
    assert directory.total_bytes > directory.usable_bytes > 0
    assert {each.partition: replica.size_bytes > 0 for each, replica in directory.replicas.items()} == {
        0: True,
        1: False,
    }


def test_a_broker_that_does_not_exist_is_not_unregistered(admin: Admin) -> None:
    with pytest.raises(KafkaError, match="BROKER_ID_NOT_REGISTERED"):
        admin.unregister_broker(4711)


# The faces


def test_the_async_face_has_the_same_methods(bootstrap: str) -> None:
    async def story() -> None:
        async with headrace.aio.Admin(bootstrap) as admin:
            name = unique("async")
            assert (await admin.create_topic(name, 2)).partitions == 2
            assert (await admin.describe_cluster()).brokers

    asyncio.run(story())


def test_every_method_of_the_async_face_has_a_blocking_one() -> None:
    methods = {name for name in dir(AsyncAdmin) if not name.startswith("_")}
    assert methods == {name for name in dir(Admin) if not name.startswith("_")}
    for name in methods:
        assert getattr(Admin, name).__doc__


def test_without_a_broker_it_tries_as_often_as_it_is_told() -> None:
    with headrace.Admin("127.0.0.1:1", retries=0) as admin, pytest.raises(BrokerRefusedError) as caught:
        admin.list_topics()
    assert "attempts" not in caught.value.tried
    with headrace.Admin("127.0.0.1:1") as admin, pytest.raises(BrokerRefusedError):
        admin.ping()
    impatient = headrace.Admin("127.0.0.1:1", retries=2, retry_backoff_ms=1)
    with impatient as admin, pytest.raises(BrokerRefusedError, match="Tried: 3 attempts"):
        admin.list_topics()


def test_a_closed_client_says_so() -> None:
    admin = headrace.Admin("127.0.0.1:1")
    admin.close()
    with pytest.raises(ClosedError):
        admin.list_topics()
