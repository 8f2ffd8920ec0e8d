"""Images and records: what each record changes, what it must not contradict, and what stays shared."""

import time
from typing import Any

import pytest

from headrace.cluster.delta import ReplayError
from headrace.cluster.image import (
    EMPTY_IMAGE,
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    ConfigResource,
    Image,
    Partition,
)
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.replay import Replay
from headrace.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    EntityData,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)

ORDERS = b"orders".rjust(16, b"\0")
USERS = b"users".rjust(16, b"\0")
DISK = b"disk".rjust(16, b"\1")


def created(topic_id: bytes = ORDERS, index: int = 0, **changes: Any) -> PartitionRecord:
    record = PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=(1, 2, 3),
        isr=(1, 2, 3),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=(DISK,) * 3,
    )
    return record._replace(**changes)


def image_of(*records: MetadataRecord) -> Image:
    return EMPTY_IMAGE.apply(records)


def is_open(replay: Replay) -> bool:
    return replay.in_transaction


def orders(image: Image) -> Partition:
    return image.topics[ORDERS].partitions[0]


def test_a_topic_is_found_by_name_and_by_id() -> None:
    image = image_of(TopicRecord("orders", ORDERS), created(), created(index=1))
    topic = image.topic("orders")
    assert topic is not None
    assert image.topics[ORDERS] == topic
    assert topic.name == "orders"
    assert list(topic.partitions) == [0, 1]
    assert image.topic("users") is None


def test_a_change_keeps_what_it_leaves_out() -> None:
    before = image_of(TopicRecord("orders", ORDERS), created())
    after = before.apply([PartitionChangeRecord(0, ORDERS, isr=(1, 2))])
    assert orders(after) == orders(before)._replace(isr=(1, 2), partition_epoch=1)
    assert orders(before).isr == (1, 2, 3)


def test_an_election_raises_the_leader_epoch_even_when_the_leader_stays() -> None:
    image = image_of(TopicRecord("orders", ORDERS), created())
    again = orders(image.apply([PartitionChangeRecord(0, ORDERS, leader=1)]))
    other = orders(image.apply([PartitionChangeRecord(0, ORDERS, leader=2, leader_recovery_state=1)]))
    assert (again.leader, again.leader_epoch, again.partition_epoch, again.recovering) == (1, 1, 1, False)
    assert (other.leader, other.leader_epoch, other.partition_epoch, other.recovering) == (2, 1, 1, True)


def test_records_from_before_directories_leave_them_unknown() -> None:
    image = image_of(TopicRecord("orders", ORDERS), created(directories=()))
    assert orders(image).directories == (MIGRATING_DIRECTORY,) * 3
    grown = image.apply([PartitionChangeRecord(0, ORDERS, replicas=(1, 2, 3, 4))])
    assert orders(grown).directories == (MIGRATING_DIRECTORY,) * 4


def test_deleting_a_topic_deletes_its_configs_and_no_others() -> None:
    image = image_of(
        TopicRecord("orders", ORDERS),
        TopicRecord("users", USERS),
        ConfigRecord(2, "orders", "retention.ms", "1"),
        ConfigRecord(2, "users", "retention.ms", "2"),
        ConfigRecord(4, "", "retention.ms", "3"),
        RemoveTopicRecord(ORDERS),
    )
    assert image.topic_ids == {"users": USERS}
    assert image.configs == {
        ConfigResource(2, "users"): {"retention.ms": "2"},
        ConfigResource(4, ""): {"retention.ms": "3"},
    }


def test_a_name_can_be_used_again_by_another_topic_in_the_same_batch() -> None:
    image = image_of(
        TopicRecord("orders", ORDERS),
        created(),
        ConfigRecord(2, "orders", "retention.ms", "1"),
        RemoveTopicRecord(ORDERS),
        TopicRecord("orders", USERS),
        created(USERS),
    )
    assert image.topic_ids == {"orders": USERS}
    assert image.configs == {}
    assert list(image.topics[USERS].partitions) == [0]


def test_what_was_deleted_leaves_nothing_behind_for_a_successor_in_the_same_batch() -> None:
    image = image_of(
        TopicRecord("orders", ORDERS),
        created(),
        created(index=1),
        ConfigRecord(2, "orders", "retention.ms", "1"),
        RemoveTopicRecord(ORDERS),
        TopicRecord("orders", ORDERS),
        created(),
        ConfigRecord(2, "orders", "segment.ms", "2"),
    )
    assert list(image.topics[ORDERS].partitions) == [0]
    assert image.config(ConfigResource(2, "orders")) == {"segment.ms": "2"}


def test_a_resource_exists_as_long_as_it_has_a_config() -> None:
    resource = ConfigResource(2, "orders")
    image = image_of(ConfigRecord(2, "orders", "a", "1"), ConfigRecord(2, "orders", "b", "2"))
    assert image.config(resource) == {"a": "1", "b": "2"}
    image = image.apply([ConfigRecord(2, "orders", "a", None), ConfigRecord(2, "orders", "missing", None)])
    assert image.config(resource) == {"b": "2"}
    image = image.apply([ConfigRecord(2, "orders", "b", None)])
    assert image.configs == {}
    assert image.config(resource) == {}


def test_a_quota_belongs_to_the_set_of_its_entities_in_any_order() -> None:
    alice, program = EntityData("user", "alice"), EntityData("client-id", None)
    image = image_of(
        ClientQuotaRecord([alice, program], "producer_byte_rate", 1.0),
        ClientQuotaRecord([program, alice], "consumer_byte_rate", 2.0),
    )
    entity = (("client-id", None), ("user", "alice"))
    assert image.client_quotas == {entity: {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0}}
    image = image.apply([ClientQuotaRecord([alice, program], key, remove=True) for key in image.client_quotas[entity]])
    assert image.client_quotas == {}


def test_a_broker_is_fenced_unfenced_shut_down_and_loses_a_directory() -> None:
    two_disks = RegisterBrokerRecord(broker_id=1, broker_epoch=5, log_dirs=(DISK, USERS))
    image = image_of(two_disks)
    assert not image.is_active(1)
    image = image.apply([BrokerRegistrationChangeRecord(1, 5, fenced=-1)])
    assert image.is_active(1)
    assert image.brokers[1].default_directory() == UNASSIGNED_DIRECTORY
    image = image.apply([BrokerRegistrationChangeRecord(1, 5, log_dirs=(DISK,), cordoned_log_dirs=(DISK,))])
    assert image.brokers[1].default_directory() == DISK
    assert not image.brokers[1].takes_new_replicas()
    image = image.apply([BrokerRegistrationChangeRecord(1, 5, in_controlled_shutdown=1)])
    assert not image.is_active(1)
    image = image.apply([FenceBrokerRecord(1, 5)])
    assert image.brokers[1].fenced
    assert not image.apply([UnfenceBrokerRecord(1, 5)]).brokers[1].fenced
    assert image.apply([UnregisterBrokerRecord(1, 5)]).brokers == {}
    assert not image.is_active(1)


def test_a_replica_in_a_lost_or_unlisted_directory_is_offline() -> None:
    broker = image_of(RegisterBrokerRecord(broker_id=1, log_dirs=(DISK,))).brokers[1]
    online = [broker.has_online_directory(each) for each in (DISK, UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)]
    assert online == [True] * 3
    assert not broker.has_online_directory(LOST_DIRECTORY)
    assert not broker.has_online_directory(b"other".rjust(16, b"\1"))
    assert image_of(RegisterBrokerRecord(broker_id=1)).brokers[1].has_online_directory(DISK)


def test_clearing_the_eligible_leaders_of_one_topic_or_of_all() -> None:
    image = image_of(
        TopicRecord("orders", ORDERS),
        created(eligible_leader_replicas=(2,)),
        created(index=1),
        TopicRecord("users", USERS),
        created(USERS, last_known_elr=(3,)),
    )
    one = image.apply([ClearElrRecord("orders")])
    assert orders(one) == orders(image)._replace(elr=(), partition_epoch=1)
    assert one.topics[ORDERS].partitions[1] == image.topics[ORDERS].partitions[1]
    assert one.topics[USERS] is image.topics[USERS]
    everything = image.apply([ClearElrRecord("")])
    assert everything.topics[USERS].partitions[0].last_known_elr == ()


def test_a_feature_at_level_zero_is_off() -> None:
    image = image_of(FeatureLevelRecord("metadata.version", 30), FeatureLevelRecord("group.version", 1))
    assert image.metadata_version == 30
    assert image.apply([FeatureLevelRecord("group.version", 0)]).features == {"metadata.version": 30}


def test_security_records_come_and_go() -> None:
    added = image_of(
        UserScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 4096),
        AccessControlEntryRecord(ORDERS, 2, "orders", 3, "User:alice", "*", 3, 3),
        DelegationTokenRecord("alice", "alice", ["bob"], 1, 2, 3, "t1"),
    )
    assert added.scram_credentials["alice", 1].iterations == 4096
    assert added.acls[ORDERS].principal == "User:alice"
    assert added.delegation_tokens["t1"].renewers == ("bob",)
    gone = added.apply(
        [
            RemoveUserScramCredentialRecord("alice", 1),
            RemoveAccessControlEntryRecord(ORDERS),
            RemoveDelegationTokenRecord("t1"),
        ]
    )
    assert gone == EMPTY_IMAGE


CONTRADICTIONS: list[tuple[MetadataRecord, str]] = [
    (created(USERS), "does not exist"),
    (PartitionChangeRecord(7, ORDERS), "orders-7 changes, but has only 1"),
    (PartitionChangeRecord(0, USERS), "AAAAAAAAAAAAAAB1c2Vycw changes partition 0, but does not exist"),
    (RemoveTopicRecord(USERS), "is deleted, but does not exist"),
    (TopicRecord("orders", USERS), "exists already"),
    (TopicRecord("users", ORDERS), "exists already"),
    (created(index=1, directories=(DISK,)), "orders-1 has 3 replicas in 1 directories"),
    (ClearElrRecord("users"), "'users' loses its eligible leaders"),
    (UnregisterBrokerRecord(9, 5), "broker 9 is unregistered, but is not registered"),
    (UnregisterBrokerRecord(1, 4), "at epoch 4, but is registered with 5"),
    (FenceBrokerRecord(1, 6), "is fenced at epoch 6"),
    (UnfenceBrokerRecord(2, 6), "broker 2 is unfenced, but is not"),
    (BrokerRegistrationChangeRecord(1, 4, fenced=1), "changes at epoch 4"),
    (BrokerRegistrationChangeRecord(1, 5, fenced=2), "mean nothing"),
    (RegisterBrokerRecord(broker_id=1, broker_epoch=4), "epoch 4 after it had 5"),
    (ProducerIdsRecord(next_producer_id=999), "goes back from 1000 to 999"),
    (FeatureLevelRecord("metadata.version", 31), "can do 7 to 30"),
    (FeatureLevelRecord("teleport.version", 1), "does not know it"),
    (RemoveAccessControlEntryRecord(USERS), "is removed, but does not exist"),
    (RemoveUserScramCredentialRecord("eve", 1), "'eve' is removed"),
    (RemoveDelegationTokenRecord("t9"), "'t9' is removed"),
    (EndTransactionRecord(), "for Replay"),
]


@pytest.mark.parametrize(("record", "complaint"), CONTRADICTIONS, ids=[str(each) for _, each in CONTRADICTIONS])
def test_a_record_that_contradicts_the_image_is_an_error_and_says_how(record: MetadataRecord, complaint: str) -> None:
    image = image_of(
        TopicRecord("orders", ORDERS),
        created(),
        RegisterBrokerRecord(broker_id=1, broker_epoch=5),
        ProducerIdsRecord(next_producer_id=1000),
    )
    with pytest.raises(ReplayError, match=complaint):
        image.apply([record])


def test_records_without_an_effect_leave_the_same_image() -> None:
    image = image_of(TopicRecord("orders", ORDERS))
    assert image.apply([NoOpRecord(), FeatureLevelRecord("kraft.version", 1)]) is image


def test_what_a_batch_does_not_touch_stays_shared() -> None:
    before = image_of(TopicRecord("orders", ORDERS), created(), TopicRecord("users", USERS), created(USERS))
    after = before.apply([PartitionChangeRecord(0, ORDERS, isr=(1,)), PartitionChangeRecord(0, ORDERS, isr=(1, 2))])
    assert after.topics[USERS] is before.topics[USERS]
    assert after.topic_ids is before.topic_ids
    assert after.brokers is before.brokers
    assert orders(before).partition_epoch == 0
    assert orders(after).partition_epoch == 2


def test_a_metadata_transaction_counts_at_its_end_or_not_at_all() -> None:
    replay = Replay()
    replay.apply([TopicRecord("orders", ORDERS), BeginTransactionRecord(), created()], base_offset=0)
    assert is_open(replay)
    assert replay.image.topics[ORDERS].partitions == {}
    replay.apply([created(index=1), EndTransactionRecord(), TopicRecord("users", USERS)], base_offset=3)
    assert not is_open(replay)
    assert list(replay.image.topics[ORDERS].partitions) == [0, 1]
    assert "users" in replay.image.topic_ids
    replay.apply([BeginTransactionRecord(), RemoveTopicRecord(USERS), AbortTransactionRecord()], base_offset=6)
    assert "users" in replay.image.topic_ids


def test_an_error_names_the_offset_also_inside_a_transaction_and_changes_nothing() -> None:
    replay = Replay()
    replay.apply([TopicRecord("orders", ORDERS), BeginTransactionRecord(), created(USERS)], base_offset=100)
    before = replay.image
    with pytest.raises(ReplayError, match="offset 102: "):
        replay.apply([TopicRecord("users", USERS), EndTransactionRecord()], base_offset=103)
    assert replay.image is before
    assert is_open(replay)
    with pytest.raises(ReplayError, match="offset 103: a metadata transaction begins inside another"):
        replay.apply([BeginTransactionRecord()], base_offset=103)
    with pytest.raises(ReplayError, match="offset 0: EndTransactionRecord without"):
        Replay().apply([EndTransactionRecord()], base_offset=0)


def test_one_change_among_ten_thousand_topics_costs_less_than_a_millisecond_of_cpu() -> None:
    ids = [number.to_bytes(16, "big") for number in range(10_000)]
    records: list[MetadataRecord] = []
    for number, topic_id in enumerate(ids):
        records += [TopicRecord(f"topic-{number}", topic_id), created(topic_id)]
    image = image_of(*records)
    change = [PartitionChangeRecord(0, ids[5000], isr=(1, 2))]

    def cost() -> float:
        start = time.process_time()
        for _ in range(20):
            image.apply(change)
        return (time.process_time() - start) / 20

    assert min(cost() for _ in range(5)) < 0.001
