"""kafka-python administers a cluster. It speaks nearly every API at its highest version."""

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import OffsetSpec, TopicPartition
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import (
    InvalidReplicationAssignmentError,
    NoReassignmentInProgressError,
    OffsetOutOfRangeError,
    SecurityDisabledError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.admin import ElectionType

from tests.support import clients_kafka_python as clients
from tests.support.both_brokers import ready
from tests.support.waiting import wait_until

NOON_MS = 1_700_000_000_000
EXISTS_ALREADY, BAD_NAME, TOO_MANY_REPLICAS, NO_INCREASE, ELECTION_NOT_NEEDED = 36, 17, 38, 37, 84


@pytest.fixture
def admin(address: str) -> Iterator[Any]:
    with clients.admin(address) as client:
        yield client


@pytest.fixture
def made(admin: Any, address: str, topic: str) -> str:
    """A topic with three partitions and a config of its own."""
    wanted = {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "77000"}}
    (row,) = admin.create_topics({topic: wanted}, wait_for_metadata=True)["topics"]
    assert (row["num_partitions"], row["replication_factor"]) == (3, 1)
    assert row["configs"]["retention.ms"]["value"] == "77000"
    assert row["configs"]["cleanup.policy"]["config_source"] == "DEFAULT_CONFIG"
    ready(address, topic, 3)
    return topic


def test_topics_are_created_described_extended_and_deleted(admin: Any, made: str) -> None:
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([made])
    refused = {made: {}, "bad name": {}, f"{made}-wide": {"num_partitions": 1, "replication_factor": 5}}
    rows = admin.create_topics(refused, raise_errors=False)["topics"]
    assert {row["name"]: row["error_code"] for row in rows} == {
        made: EXISTS_ALREADY,
        "bad name": BAD_NAME,
        f"{made}-wide": TOO_MANY_REPLICAS,
    }
    admin.create_topics([f"{made}-not"], validate_only=True)
    (row,) = admin.create_partitions({made: 5}).results
    assert row.error_code == 0
    (row,) = admin.create_partitions({made: 2}, raise_errors=False).results
    assert row.error_code == NO_INCREASE
    wait_until(lambda: len(admin.describe_topics([made])[0]["partitions"]) == 5, "the topic has five partitions")
    (described,) = admin.describe_topics([made])
    assert [(each["leader_id"], each["replica_nodes"], each["isr_nodes"]) for each in described["partitions"]] == [
        (1, [1], [1])
    ] * 5
    assert made in admin.list_topics()
    assert f"{made}-not" not in admin.list_topics()
    admin.delete_topics([made])
    wait_until(lambda: made not in admin.list_topics(), "the topic is gone")
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([made])


def test_a_topic_is_described_page_by_page(admin: Any, made: str) -> None:
    seen: list[int] = []
    cursor = None
    while True:
        page = admin.describe_topic_partitions([made], response_partition_limit=2, cursor=cursor)
        seen += [each["partition_index"] for row in page["topics"] for each in row["partitions"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [0, 1, 2]


def test_the_cluster_its_quorum_and_its_features_are_described(admin: Any, address: str) -> None:
    cluster = admin.describe_cluster()
    (broker,) = cluster["brokers"]
    assert (broker["broker_id"], f"{broker['host']}:{broker['port']}", cluster["controller_id"]) == (1, address, 1)
    (quorum,) = admin.describe_metadata_quorum()["topics"][0]["partitions"]
    assert (quorum["leader_id"], quorum["error"]) == (1, None)
    assert [voter["replica_id"] for voter in quorum["current_voters"]] == [1]
    assert quorum["high_watermark"] > 0
    features = admin.describe_features()
    assert {name: (each["supported"], each.get("finalized")) for name, each in features.items()} == {
        "metadata.version": ((7, 30), (30, 30)),
        "kraft.version": ((0, 1), (1, 1)),
        "transaction.version": ((0, 2), (2, 2)),
        "group.version": ((0, 1), (1, 1)),
        "eligible.leader.replicas.version": ((0, 1), (1, 1)),
        "share.version": ((0, 1), (1, 1)),
        "streams.version": ((0, 1), (1, 1)),
    }
    assert admin.update_features({"group.version": 1}, validate_only=True) == {"group.version": "OK"}


def test_configs_of_topics_are_described_and_altered(admin: Any, made: str) -> None:
    def own() -> dict[str, str]:
        found = admin.describe_configs([ConfigResource("TOPIC", made)])["topic"][made]
        return {name: entry["value"] for name, entry in found.items()}

    def alter(**changes: Any) -> str:
        named = {name.replace("_", "."): change for name, change in changes.items()}
        outcome: str = admin.alter_configs([ConfigResource("TOPIC", made, named)])["topic"][made]
        return outcome

    wait_until(lambda: own() == {"retention.ms": "77000"}, "the topic's own config is described")
    assert alter(cleanup_policy=("APPEND", "compact"), retention_ms=("DELETE", None), segment_bytes="2000000") == "OK"
    wait_until(lambda: own() == {"cleanup.policy": "delete,compact", "segment.bytes": "2000000"}, "it is altered")
    assert alter(cleanup_policy=("SUBTRACT", "delete")) == "OK"
    wait_until(lambda: own() == {"cleanup.policy": "compact", "segment.bytes": "2000000"}, "one policy is left")
    assert alter(segment_bytes="many").startswith("[Error 40] InvalidConfigurationError")
    with pytest.raises(ValueError, match="Unrecognized configs"):
        alter(nope="1")
    whole = ConfigResource("TOPIC", made, {"segment.ms": "100000"})
    assert admin.alter_configs([whole], incremental=False)["topic"][made] == "OK"
    wait_until(lambda: own().get("segment.ms") == "100000", "it is altered by the old request")
    admin.reset_configs([ConfigResource("TOPIC", made, ["segment.ms", "segment.bytes", "cleanup.policy"])])
    wait_until(lambda: own() == {}, "nothing of its own is left")

    wanted = ConfigResource("TOPIC", made, ["cleanup.policy"])
    found = admin.describe_configs([wanted], include_synonyms=True, config_filter="all")["topic"][made]
    assert found == {
        "cleanup.policy": {
            "value": "delete",
            "read_only": False,
            "config_source": "DEFAULT_CONFIG",
            "is_sensitive": False,
            "synonyms": [{"name": "log.cleanup.policy", "value": "delete", "source": "DEFAULT_CONFIG"}],
            "config_type": "LIST",
            "documentation": None,
        }
    }


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("BROKER", "message.max.bytes", "2000000"),
        ("BROKER_LOGGER", "root", "WARN"),
        ("GROUP", "consumer.session.timeout.ms", "46000"),
        ("CLIENT_METRICS", "interval.ms", "5000"),
    ],
)
def test_configs_of_other_things_than_topics(admin: Any, topic: str, kind: str, key: str, value: str) -> None:
    name = "1" if kind.startswith("BROKER") else topic

    def describe() -> str | None:
        found = admin.describe_configs([ConfigResource(kind, name)], config_filter="all")[kind.lower()][name]
        return found[key]["value"] if key in found else None

    def alter(change: Any) -> None:
        resource = ConfigResource(kind, name, {key: change})
        assert admin.alter_configs([resource], raise_on_unknown=False) == {kind.lower(): {name: "OK"}}

    before = describe()
    alter(value)
    wait_until(lambda: describe() == value, f"{key} is {value}")
    assert name in admin.list_config_resources([kind])[kind.lower()]
    # The root logger has one level or another, but never none.
    alter(before if kind == "BROKER_LOGGER" else ("DELETE", None))
    wait_until(lambda: describe() == before, f"{key} is {before} again")


def test_offsets_are_listed_records_deleted_and_producers_described(admin: Any, address: str, made: str) -> None:
    partition = TopicPartition(made, 0)
    with clients.sending(address, enable_idempotence=True) as producer:
        for n in range(10):
            producer.send(made, b"%d" % n, partition=0, timestamp_ms=NOON_MS + n * 1000)
        producer.flush()

    def offset(spec: Any) -> tuple[int, int]:
        found = admin.list_partition_offsets({partition: spec})[partition]
        return found.offset, found.timestamp

    assert offset(OffsetSpec.EARLIEST) == (0, -1)
    assert offset(OffsetSpec.EARLIEST_LOCAL) == (0, -1)
    assert offset(OffsetSpec.LATEST) == (10, -1)
    assert offset(OffsetSpec.LATEST_TIERED) == (-1, -1)
    assert offset(OffsetSpec.MAX_TIMESTAMP) == (9, NOON_MS + 9000)
    assert offset(NOON_MS + 3001) == (4, NOON_MS + 4000)
    assert offset(NOON_MS + 9001) == (-1, -1)
    (state,) = admin.describe_producers([partition])[partition].active_producers
    assert (state.last_sequence, state.producer_epoch) == (9, 0)
    assert state.current_transaction_start_offset in (-1, None)

    assert admin.delete_records({partition: 4})[partition]["low_watermark"] == 4
    assert offset(OffsetSpec.EARLIEST) == (4, -1)
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({partition: 11})
    (broker,) = admin.describe_log_dirs({made: [0, 1, 2]})
    (directory,) = broker["log_dirs"]
    sizes = {
        row["partition_index"]: row["partition_size"] for each in directory["topics"] for row in each["partitions"]
    }
    assert sizes[0] > 0
    assert (sizes[1], sizes[2]) == (0, 0)
    assert 0 < directory["usable_bytes"] <= directory["total_bytes"]


def test_replicas_stay_where_the_only_broker_is(admin: Any, made: str) -> None:
    first, second = TopicPartition(made, 0), TopicPartition(made, 1)
    assert admin.alter_partition_reassignments({first: [1]}) == {first: None}
    assert admin.alter_partition_reassignments({first: [7], second: None}) == {
        first: InvalidReplicationAssignmentError,
        second: NoReassignmentInProgressError,
    }
    assert admin.list_partition_reassignments() == {}
    (row,) = admin.elect_leaders(ElectionType.PREFERRED, {made: [0]}, raise_errors=False).replica_election_results
    assert [(each.partition_id, each.error_code) for each in row.partition_result] == [(0, ELECTION_NOT_NEEDED)]


def test_credentials_are_kept_and_access_rules_need_an_authorizer(admin: Any, topic: str) -> None:
    user = f"user of {topic}"
    assert admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(user, "SCRAM-SHA-512", b"secret", 4096)]
    ) == {user: None}
    wait_until(lambda: admin.describe_user_scram_credentials([user])[user]["error"] is None, "the user is known")
    (info,) = admin.describe_user_scram_credentials([user])[user]["credential_infos"]
    assert (info["mechanism"].name, info["iterations"]) == ("SCRAM_SHA_512", 4096)
    assert admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, "SCRAM-SHA-512")]) == {user: None}

    anything = ACLFilter(
        None,
        None,
        ACLOperation.ANY,
        ACLPermissionType.ANY,
        ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
    )
    with pytest.raises(SecurityDisabledError):
        admin.describe_acls(anything)
    rule = ACL("User:x", "*", ACLOperation.READ, ACLPermissionType.ALLOW, ResourcePattern(ResourceType.TOPIC, topic))
    outcome = admin.create_acls([rule])
    assert outcome["succeeded"] == []
    assert len(outcome["failed"]) == 1
