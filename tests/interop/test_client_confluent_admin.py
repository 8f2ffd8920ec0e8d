"""confluent-kafka (librdkafka) administers a cluster."""

from collections.abc import Callable

import pytest
from confluent_kafka import ElectionType, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.support.clients_confluent import SECONDS, admin, create_topic, outcomes, sender
from tests.support.waiting import wait_until

NOON_MS = 1_700_000_000_000


def partition_count(address: str, topic: str) -> int | None:
    """As metadata has it; None if the topic is not there. All topics are asked for, since that creates none."""
    found = admin(address).list_topics(timeout=SECONDS).topics.get(topic)
    return None if found is None else len(found.partitions)


def wait_for_value(describe: Callable[[], dict[str, ConfigEntry]], name: str, value: str) -> None:
    """A broker of Apache Kafka hears of a change a moment after whoever made it."""
    wait_until(lambda: describe()[name].value == value, f"{name} is {value}")


def test_topics_are_created_described_extended_and_deleted(address: str, topic: str) -> None:
    client = admin(address)
    wanted = [NewTopic(topic, 3, 1), NewTopic("bad name", 1, 1), NewTopic(f"{topic}-wide", 1, 5)]
    assert outcomes(client.create_topics(wanted)) == {
        topic: None,
        "bad name": "TOPIC_EXCEPTION",
        f"{topic}-wide": "INVALID_REPLICATION_FACTOR",
    }
    assert outcomes(client.create_topics([NewTopic(topic, 3, 1)])) == {topic: "TOPIC_ALREADY_EXISTS"}
    assert outcomes(client.create_topics([NewTopic(f"{topic}-not", 3, 1)], validate_only=True)) == {
        f"{topic}-not": None
    }
    assert outcomes(client.create_partitions([NewPartitions(topic, 5)])) == {topic: None}
    assert outcomes(client.create_partitions([NewPartitions(topic, 2)])) == {topic: "INVALID_PARTITIONS"}
    wait_until(lambda: partition_count(address, topic) == 5, "the topic has five partitions")
    assert partition_count(address, f"{topic}-not") is None

    described = outcomes(client.describe_topics(TopicCollection([topic]), include_authorized_operations=True))[topic]
    assert (described.name, described.is_internal) == (topic, False)
    assert [(each.id, each.leader.id, len(each.replicas), len(each.isr)) for each in described.partitions] == [
        (index, 1, 1, 1) for index in range(5)
    ]
    assert AclOperation.WRITE in described.authorized_operations

    assert outcomes(client.delete_topics([topic])) == {topic: None}
    wait_until(lambda: partition_count(address, topic) is None, "the topic is gone")


def test_a_topic_that_comes_again_is_another_topic(address: str, topic: str) -> None:
    client = admin(address)

    def topic_id() -> str:
        create_topic(address, topic)
        wait_until(lambda: partition_count(address, topic) == 1, "the topic is there")
        return str(outcomes(client.describe_topics(TopicCollection([topic])))[topic].topic_id)

    first = topic_id()
    assert outcomes(client.delete_topics([topic])) == {topic: None}
    wait_until(lambda: partition_count(address, topic) is None, "the topic is gone")
    assert topic_id() != first


def test_configs_are_described_and_altered(address: str, topic: str) -> None:
    client = admin(address)
    create_topic(address, topic, retention_ms="77000")

    def describe() -> dict[str, ConfigEntry]:
        entries: dict[str, ConfigEntry]
        (entries,) = outcomes(client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])).values()
        return entries

    def alter(*entries: tuple[str, str | None, AlterConfigOpType]) -> object:
        changes = [ConfigEntry(name, value, incremental_operation=how) for name, value, how in entries]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
        (outcome,) = outcomes(client.incremental_alter_configs([resource])).values()
        return outcome

    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    wait_for_value(describe, "retention.ms", "77000")
    entry = describe()["retention.ms"]
    assert (entry.source, entry.is_default, entry.is_read_only, entry.is_sensitive) == (own, False, False, False)
    assert describe()["cleanup.policy"].source == ConfigSource.DEFAULT_CONFIG.value
    assert "log.cleanup.policy" in describe()["cleanup.policy"].synonyms

    assert (
        alter(
            ("cleanup.policy", "compact", AlterConfigOpType.APPEND),
            ("retention.ms", None, AlterConfigOpType.DELETE),
            ("segment.bytes", "2000000", AlterConfigOpType.SET),
        )
        is None
    )
    wait_for_value(describe, "segment.bytes", "2000000")
    assert describe()["cleanup.policy"].value == "delete,compact"
    assert describe()["retention.ms"].source != own
    assert alter(("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)) is None
    wait_for_value(describe, "cleanup.policy", "compact")

    assert alter(("nope", "1", AlterConfigOpType.SET)) == "INVALID_CONFIG"
    assert alter(("segment.bytes", "many", AlterConfigOpType.SET)) == "INVALID_CONFIG"
    assert alter(("segment.bytes", "5", AlterConfigOpType.APPEND)) == "INVALID_CONFIG"

    whole = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.ms": "100000"})
    with pytest.deprecated_call():
        assert list(outcomes(client.alter_configs([whole])).values()) == [None]
    wait_for_value(describe, "segment.ms", "100000")
    assert describe()["cleanup.policy"].value == "delete"


def test_brokers_have_configs_and_the_cluster_is_described(address: str) -> None:
    client = admin(address)
    cluster = client.describe_cluster(include_authorized_operations=True).result(SECONDS)
    assert [(node.id, f"{node.host}:{node.port}") for node in cluster.nodes] == [(1, address)]
    assert cluster.controller.id == 1
    assert AclOperation.ALTER_CONFIGS in cluster.authorized_operations
    metadata = client.list_topics(timeout=SECONDS)
    assert (metadata.cluster_id, metadata.controller_id) == (cluster.cluster_id, 1)

    broker = ConfigResource(ResourceType.BROKER, "1")

    def describe() -> dict[str, ConfigEntry]:
        entries: dict[str, ConfigEntry]
        (entries,) = outcomes(client.describe_configs([broker])).values()
        return entries

    assert describe()["node.id"].value == "1"
    assert describe()["node.id"].is_read_only
    assert describe()["ssl.keystore.password"].is_sensitive
    limit = describe()["message.max.bytes"]
    assert (limit.value, limit.source, limit.is_read_only) == ("1048588", ConfigSource.DEFAULT_CONFIG.value, False)
    for value, how, expected in (
        ("2000000", AlterConfigOpType.SET, "2000000"),
        (None, AlterConfigOpType.DELETE, "1048588"),
    ):
        change = ConfigEntry("message.max.bytes", value, incremental_operation=how)
        altered = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[change])
        assert list(outcomes(client.incremental_alter_configs([altered])).values()) == [None]
        wait_for_value(describe, "message.max.bytes", expected)


def test_offsets_are_listed_and_records_deleted(address: str, topic: str) -> None:
    client = admin(address)
    create_topic(address, topic, message_timestamp_type="CreateTime")
    producer = sender(address)
    for n in range(10):
        producer.send(topic, b"%d" % n, partition=0, timestamp=NOON_MS + n * 1000)
    producer.flush()
    partition = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> tuple[int, int]:
        found = outcomes(client.list_offsets({partition: spec}))[partition]
        return found.offset, found.timestamp

    assert offset(OffsetSpec.earliest()) == (0, -1)
    assert offset(OffsetSpec.latest()) == (10, -1)
    assert offset(OffsetSpec.max_timestamp()) == (9, NOON_MS + 9000)
    assert offset(OffsetSpec.for_timestamp(NOON_MS + 3001)) == (4, NOON_MS + 4000)
    assert offset(OffsetSpec.for_timestamp(NOON_MS + 9001)) == (-1, -1)

    def delete(offset: int) -> object:
        (found,) = outcomes(client.delete_records([TopicPartition(topic, 0, offset)])).values()
        return getattr(found, "low_watermark", found)

    assert delete(4) == 4
    assert delete(2) == 4  # it never goes back
    assert delete(11) == "OFFSET_OUT_OF_RANGE"
    assert offset(OffsetSpec.earliest()) == (4, -1)
    assert delete(-1) == 10
    assert offset(OffsetSpec.earliest()) == (10, -1)


def test_leaders_are_elected_where_it_is_needed(address: str, topic: str) -> None:
    client = admin(address)
    create_topic(address, topic, 2)
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 7)]
    found = client.elect_leaders(ElectionType.PREFERRED, partitions).result(SECONDS)
    assert {(each.partition, error.name()) for each, error in found.items()} == {
        (0, "ELECTION_NOT_NEEDED"),
        (7, "UNKNOWN_TOPIC_OR_PART"),
    }


def test_credentials_are_kept_and_access_rules_need_an_authorizer(address: str, topic: str) -> None:
    client = admin(address)
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    user = f"user of {topic}"
    assert outcomes(
        client.alter_user_scram_credentials([UserScramCredentialUpsertion(user, credential, b"secret")])
    ) == {user: None}
    wait_until(lambda: user in client.describe_user_scram_credentials().result(SECONDS), "the user is known")
    (info,) = outcomes(client.describe_user_scram_credentials([user]))[user].scram_credential_infos
    assert (info.mechanism, info.iterations) == (ScramMechanism.SCRAM_SHA_256, 4096)
    deletion = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)
    assert outcomes(client.alter_user_scram_credentials([deletion])) == {user: None}
    wait_until(
        lambda: outcomes(client.describe_user_scram_credentials([user])) == {user: "RESOURCE_NOT_FOUND"}, "it is gone"
    )

    binding = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    assert outcomes(client.create_acls([binding])) == {binding: "SECURITY_DISABLED"}
