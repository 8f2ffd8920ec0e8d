"""The admin client against both brokers: groups and transactions that confluent-kafka's clients make."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import pytest

import headrace
from headrace.client.admin import Admin
from headrace.client.admin_groups import CommittedOffset, GroupDescription
from headrace.client.errors import KafkaError, UnknownGroupError
from headrace.client.topic_partition import TopicPartition
from headrace.protocol.error_codes import ErrorCode
from tests.support.both_brokers import eventually, unique


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    with headrace.Admin(bootstrap) as made:
        yield made


@contextmanager
def consumer(bootstrap: str, group: str, topic: str, **configs: Any) -> Iterator[confluent_kafka.Consumer]:
    """A member of the group that has its partitions."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    member = confluent_kafka.Consumer(
        {**settings, **{name.replace("_", "."): value for name, value in configs.items()}}
    )
    member.subscribe([topic])
    eventually(lambda: member.poll(0.05) is None and bool(member.assignment()))
    try:
        yield member
    finally:
        member.close()


def described(admin: Admin, group: str) -> GroupDescription:
    eventually(lambda: len(admin.describe_group(group).members) == 1)
    return admin.describe_group(group)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_listed_and_described_with_its_members(admin: Admin, bootstrap: str, protocol: str) -> None:
    topic, group = unique("read"), unique(protocol)
    admin.create_topic(topic, 2)
    partitions = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    with consumer(bootstrap, group, topic, group_protocol=protocol, group_instance_id="one", client_id="me"):
        eventually(lambda: set(described(admin, group).members[0].assignment) == partitions)
        found = admin.describe_group(group)
        assert (found.id, found.type, found.state, found.protocol_type) == (group, protocol, "Stable", "consumer")
        (member,) = found.members
        assert (member.instance_id, member.client_id) == ("one", "me")
        assert (member.target is None) == (protocol == "classic")
        assert found.coordinator == admin.describe_cluster().brokers[0].id
        assert group in [each.id for each in admin.list_groups(states=["Stable"], types=[protocol])]
        assert group not in [each.id for each in admin.list_groups(states=["Empty"])]
        with pytest.raises(KafkaError, match=f"Group '{group}' has members"):
            admin.delete_groups([group])
        if protocol == "classic":
            with pytest.raises(KafkaError, match=f"Group '{group}' has members"):
                admin.alter_group_offsets(group, {TopicPartition(topic, 0): 0})
            admin.remove_members(group, ["one"], reason="test")
            with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
                admin.remove_members(group, ["two"])


def test_what_a_group_has_committed_is_listed_changed_and_deleted(admin: Admin, bootstrap: str) -> None:
    topic, group = unique("read"), unique("g")
    admin.create_topic(topic, 3)
    partitions = [TopicPartition(topic, number) for number in range(3)]
    eventually(lambda: len(admin.describe_topic(topic).partitions) == 3)
    admin.alter_group_offsets(group, {partitions[0]: 5, partitions[2]: CommittedOffset(7, 0, "note")})
    both = {partitions[0]: CommittedOffset(5, -1, ""), partitions[2]: CommittedOffset(7, 0, "note")}
    assert admin.list_group_offsets(group, require_stable=True) == both
    assert admin.list_group_offsets(group, partitions[:2]) == {partitions[0]: both[partitions[0]]}
    admin.delete_group_offsets(group, [partitions[0]])
    assert list(admin.list_group_offsets(group)) == [partitions[2]]
    admin.delete_groups([group])
    with pytest.raises(UnknownGroupError):
        admin.describe_group(group)
    with pytest.raises(UnknownGroupError, match=f"There is no group '{group}'"):
        admin.delete_groups([group])


def test_transactions_are_listed_described_and_fenced(admin: Admin, bootstrap: str) -> None:
    topic, name = unique("paid"), unique("tx")
    admin.create_topic(topic)
    eventually(lambda: len(admin.describe_topic(topic).partitions) == 1)
    partition = TopicPartition(topic, 0)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"value")
    producer.flush()
    found = admin.describe_transactions([name])[name]
    assert (found.state, found.partitions) == ("Ongoing", (partition,))
    assert found.started_ms > 0
    (listed,) = [each for each in admin.list_transactions(states=["Ongoing"]) if each.id == name]
    assert (listed.producer_id, listed.state) == (found.producer_id, "Ongoing")
    assert name not in [each.id for each in admin.list_transactions(older_than_ms=3_600_000)]
    (state,) = admin.describe_producers([partition])[partition]
    assert (state.producer_id, state.transaction_start_offset) == (found.producer_id, 0)
    _, epoch = admin.fence_producers([name])[name]
    assert epoch > found.producer_epoch
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        producer.commit_transaction(30)
    assert caught.value.args[0].fatal()
    with pytest.raises(KafkaError, match="knows the transactional id 'nobody'") as missing:
        admin.describe_transactions(["nobody"])
    assert missing.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    with pytest.raises(ValueError, match="knows no state Sleeping"):
        admin.list_transactions(states=["Sleeping"])


def test_when_a_transaction_began_is_known_until_the_next_one_begins(admin: Admin, bootstrap: str) -> None:
    topic, name = unique("paid"), unique("tx")
    admin.create_topic(topic)
    eventually(lambda: len(admin.describe_topic(topic).partitions) == 1)
    started: list[int] = []

    def look(state: str) -> None:
        eventually(lambda: admin.describe_transactions([name])[name].state == state)
        started.append(admin.describe_transactions([name])[name].started_ms)

    with headrace.Producer(bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        look("Empty")
        with producer.transaction():
            producer.send(topic, "value")
            producer.flush()
            look("Ongoing")
        look("CompleteCommit")
    assert started[0] == -1
    assert started[1] > 0
    assert started[2] == started[1]


def test_a_transaction_that_hangs_is_aborted_at_its_partition(admin: Admin, bootstrap: str) -> None:
    topic = unique("hanging")
    admin.create_topic(topic)
    eventually(lambda: len(admin.describe_topic(topic).partitions) == 1)
    partition = TopicPartition(topic, 0)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("tx")})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"value")
    producer.flush()
    (state,) = admin.describe_producers([partition])[partition]
    admin.abort_transaction(
        partition,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        coordinator_epoch=state.coordinator_epoch,
    )
    (state,) = admin.describe_producers([partition])[partition]
    assert state.transaction_start_offset == -1
