"""kafka-python in groups: members share, leave and return, keep their place, and are administered."""

from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import MemberToRemove, OffsetSpec
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    NoError,
    UnknownMemberIdError,
)
from kafka.structs import OffsetAndMetadata

from tests.support.broker_process import BrokerProcess
from tests.support.clients_kafka_python import admin, assigned, create_topic, sending, take
from tests.support.clients_kafka_python_groups import PATIENT_MS, Place, crew
from tests.support.waiting import wait_until

PARTITIONS = 4


@pytest.fixture
def made(address: str, topic: str) -> str:
    return create_topic(address, topic, PARTITIONS)


def everywhere(topic: str, count: int = PARTITIONS) -> list[Place]:
    return [(topic, index) for index in range(count)]


def fill(address: str, topic: str, numbers: range) -> None:
    with sending(address) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        producer.flush()


def offset(number: int, note: str = "") -> OffsetAndMetadata:
    return OffsetAndMetadata(number, note, -1)


# Sharing


@pytest.mark.parametrize(
    "strategy",
    [RangePartitionAssignor, StickyPartitionAssignor, CooperativeStickyAssignor],
)
def test_members_share_the_partitions_and_take_over_where_others_stopped(
    address: str, made: str, strategy: type
) -> None:
    settings: dict[str, Any] = {"partition_assignment_strategy": [strategy]}
    with crew(address, made) as group:
        first = group.join(made, **settings)
        group.share(*everywhere(made))
        fill(address, made, range(100))
        wait_until(lambda: group.read == set(range(100)), "it reads everything")
        group.commit()
        group.join(made, **settings)
        group.share(*everywhere(made))
        fill(address, made, range(100, 200))
        wait_until(lambda: len(group.read) >= 100, "they read everything")
        assert group.read == set(range(100, 200))
        group.commit()
        group.leave(first)
        group.share(*everywhere(made))
        fill(address, made, range(200, 300))
        wait_until(lambda: len(group.read) >= 100, "the other one reads everything")
        assert group.read == set(range(200, 300))


def test_a_pattern_finds_topics_as_they_come(address: str, topic: str) -> None:
    first, second = create_topic(address, f"{topic}-a", 2), f"{topic}-b"
    fill(address, first, range(2))
    with crew(address, topic) as group:
        member = group.join(pattern=f"^{topic}-.*", metadata_max_age_ms=300, poll_ms=PATIENT_MS)
        group.share(*everywhere(first, 2))
        create_topic(address, second, 2)
        fill(address, second, range(4, 6))
        group.share(*everywhere(first, 2), *everywhere(second, 2))
        wait_until(lambda: group.read == {0, 1, 4, 5}, "it reads from both")
        group.leave(member, wake=lambda: fill(address, first, range(2)))


def test_static_members_return_and_the_old_one_of_two_is_fenced(address: str, made: str) -> None:
    with crew(address, made) as group:
        group.join(made, group_instance_id="here")
        gone = group.join(made, group_instance_id="gone")
        group.share(*everywhere(made))
        theirs = gone.owned
        group.leave(gone)
        back = group.join(made, group_instance_id="gone")
        group.share(*everywhere(made))
        assert back.owned == theirs
        again = group.join(made, group_instance_id="gone")
        group.members.remove(back)
        group.share(*everywhere(made))
        assert again.owned == theirs
        with pytest.raises(FencedInstanceIdError):
            back.commit({TopicPartition(*next(iter(theirs))): offset(0)})
        back.leave()


# Offsets


def test_offsets_are_committed_in_every_way(address: str, made: str) -> None:
    with crew(address, made) as group:
        member = group.join(made)
        group.share(*everywhere(made))
        assert member.committed((made, 0)) == [None]
        fill(address, made, range(40))
        wait_until(lambda: len(group.read) == 40, "everything is read")
        member.commit({TopicPartition(made, 0): offset(3, "why")})
        assert member.do(lambda consumer: consumer.committed(TopicPartition(made, 0), metadata=True))[:2] == (3, "why")
        told: list[object] = []
        member.do(lambda consumer: consumer.commit_async(callback=lambda rows, _: told.append(rows)))
        wait_until(lambda: bool(told), "the commit is reported")
        assert member.committed(*everywhere(made)) == [10] * PARTITIONS
    with crew(address, made) as group:
        group.join(made, enable_auto_commit=True, auto_commit_interval_ms=50)
        group.share(*everywhere(made))
        fill(address, made, range(40, 80))
        wait_until(lambda: len(group.read) == 40, "the rest is read")
        wait_until(lambda: group.members[0].committed(*everywhere(made)) == [20] * PARTITIONS, "it is committed")
    assert group.read == set(range(40, 80))


def test_a_consumer_that_assigns_itself_commits_to_a_group_without_members(address: str, made: str) -> None:
    fill(address, made, range(40))
    place = TopicPartition(made, 0)
    settings = {"group_id": made, "enable_auto_commit": False}
    with assigned(address, place, **settings) as outsider:
        assert len(take(outsider, 5)) == 5
        outsider.commit({place: offset(5)})
        with crew(address, made) as group:
            group.join(made)
            group.share(*everywhere(made))
            with pytest.raises(CommitFailedError, match="UnknownMemberIdError"):
                outsider.commit({place: offset(6)})
        outsider.commit({place: offset(7)})
        assert outsider.committed(place) == 7


# Administering


def test_groups_are_described_listed_and_deleted(address: str, made: str) -> None:
    with crew(address, made) as group, admin(address) as client:
        group.join(made, client_id="one", group_instance_id="i-one")
        group.join(made, client_id="two")
        group.share(*everywhere(made))
        told = client.describe_groups([made])[made]
        assert (told["group_state"], told["protocol_type"], told["protocol_data"]) == ("Stable", "consumer", "range")
        by_client = {member["client_id"]: member for member in told["members"]}
        assert sorted(by_client) == ["one", "two"]
        assert (by_client["one"]["group_instance_id"], by_client["one"]["client_host"]) == ("i-one", "/127.0.0.1")
        (row,) = [row for row in client.list_groups() if row["group_id"] == made]
        assert (row["group_state"], row["group_type"]) == ("Stable", "classic")
        assert made not in {row["group_id"] for row in client.list_groups(states_filter=["Empty"])}
        assert made not in {row["group_id"] for row in client.list_groups(types_filter=["consumer"])}
        assert dict(client.delete_groups([made, f"{made}-not"])) == {
            made: "NonEmptyGroupError",
            f"{made}-not": "GroupIdNotFoundError",
        }
    with admin(address) as client:
        # A static member does not say goodbye when it is closed.
        leaving = [MemberToRemove(group_instance_id="i-one"), MemberToRemove(group_instance_id="nobody")]
        codes = client.remove_group_members(made, leaving)
        assert list(codes.values()) == [NoError, UnknownMemberIdError]
        assert client.describe_groups([made])[made]["group_state"] == "Empty"
        assert dict(client.delete_groups([made])) == {made: "OK"}
        assert made not in {row["group_id"] for row in client.list_groups()}


def test_offsets_are_listed_altered_reset_and_deleted(address: str, made: str) -> None:
    fill(address, made, range(40))
    places = [TopicPartition(made, index) for index in range(PARTITIONS)]
    with admin(address) as client:
        with crew(address, made) as group:
            member = group.join(made)
            group.share(*everywhere(made))
            member.commit({places[0]: offset(1), places[1]: offset(2, "why")})
            assert client.alter_group_offsets(made, {places[0]: offset(5)}) == {places[0]: UnknownMemberIdError}
            assert client.delete_group_offsets(made, [places[0]]) == {places[0]: GroupSubscribedToTopicError}

        def known(name: str) -> dict[int, int]:
            found = client.list_group_offsets({name: None})[name]
            return {place.partition: row.offset for place, row in found.items()}

        assert known(made) == {0: 1, 1: 2}
        assert client.alter_group_offsets(made, {places[2]: offset(3)}) == {places[2]: NoError}
        specs = {places[0]: OffsetSpec.LATEST, places[1]: OffsetSpec.EARLIEST, places[2]: 1000, places[3]: 4}
        reset = client.reset_group_offsets(made, specs)
        assert {place.partition: row["offset"] for place, row in reset.items()} == {0: 10, 1: 0, 2: 10, 3: 4}
        client.alter_group_offsets(f"{made}-other", {places[0]: offset(9)})
        several = client.list_group_offsets({made: [places[0], places[3]], f"{made}-other": None})
        assert {name: [row.offset for row in found.values()] for name, found in several.items()} == {
            made: [10, 4],
            f"{made}-other": [9],
        }
        assert client.delete_group_offsets(made, places[:2]) == {places[0]: NoError, places[1]: NoError}
        assert known(made) == {2: 10, 3: 4}
        with pytest.raises(GroupIdNotFoundError):
            client.delete_group_offsets(f"{made}-not", places[:1])


# A broker that comes back


@pytest.mark.slow
@pytest.mark.usefixtures("forgotten_sockets")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_members_go_on_when_the_broker_comes_back(tmp_path: Path, topic: str) -> None:
    with BrokerProcess(tmp_path, configs={"group.initial.rebalance.delay.ms": "0"}) as broker:
        create_topic(broker.bootstrap, topic, PARTITIONS)
        with crew(broker.bootstrap, topic) as group:
            group.join(topic)
            group.join(topic)
            group.share(*everywhere(topic))
            fill(broker.bootstrap, topic, range(100))
            wait_until(lambda: group.read == set(range(100)), "everything is read")
            group.commit()
            broker.kill()
            broker.start()
            fill(broker.bootstrap, topic, range(100, 200))
            wait_until(lambda: len(group.read) >= 100, "everything is read")
            assert group.read == set(range(100, 200))
            group.commit()
            assert group.members[0].committed(*everywhere(topic)) == [50] * PARTITIONS
        broker.check_log()
