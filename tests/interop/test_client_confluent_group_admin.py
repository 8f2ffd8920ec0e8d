"""confluent-kafka (librdkafka) looks at groups and changes them, moves them between protocols, and loses members."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    TopicPartition,
)
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConsumerGroupDescription, ResourceType

from tests.support.clients_confluent import SECONDS, admin, assigned, create_topic, outcomes
from tests.support.clients_confluent_groups import PROTOCOLS, Place, crew, places

PARTITIONS = 4
TYPES = {"classic": ConsumerGroupType.CLASSIC, "consumer": ConsumerGroupType.CONSUMER}


@pytest.fixture
def made(address: str, topic: str) -> str:
    return create_topic(address, topic, PARTITIONS)


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def everywhere(topic: str) -> list[Place]:
    return [(topic, index) for index in range(PARTITIONS)]


def described(address: str, group: str) -> ConsumerGroupDescription:
    client = admin(address)
    found: ConsumerGroupDescription = outcomes(client.describe_consumer_groups([group]))[group]
    return found


def listed(address: str, group: str, **filters: object) -> list[tuple[ConsumerGroupState, ConsumerGroupType, bool]]:
    client = admin(address)
    result = client.list_consumer_groups(**filters).result(SECONDS)
    assert not result.errors
    return [(row.state, row.type, row.is_simple_consumer_group) for row in result.valid if row.group_id == group]


def offsets(address: str, group: str, *wanted: Place) -> list[int]:
    client = admin(address)
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(*place) for place in wanted] or None)
    found = outcomes(client.list_consumer_group_offsets([asked]))[group].topic_partitions
    return [row.offset for row in sorted(found, key=lambda row: (row.topic, row.partition))]


def alter(address: str, group: str, *wanted: tuple[str, int, int]) -> object:
    client = admin(address)
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(*each) for each in wanted])
    outcome = outcomes(client.alter_consumer_group_offsets([asked]))[group]
    if isinstance(outcome, str):
        return outcome
    return [None if row.error is None else row.error.name() for row in outcome.topic_partitions]


# Looking and changing


def test_groups_are_described_and_listed(address: str, made: str, protocol: str) -> None:
    with crew(address, made) as group:
        here = group.join(protocol, made, client_id="one", group_instance_id="i-one")
        group.join(protocol, made, client_id="two")
        group.share(*everywhere(made))
        told = described(address, made)
        assert (told.state, told.type) == (ConsumerGroupState.STABLE, TYPES[protocol])
        assert told.partition_assignor == ("range" if protocol == "classic" else "uniform")
        assert (told.coordinator.id, f"{told.coordinator.host}:{told.coordinator.port}") == (1, address)
        by_client = {each.client_id: each for each in told.members}
        assert sorted(by_client) == ["one", "two"]
        assert by_client["one"].member_id == here.consumer.memberid()
        assert by_client["one"].group_instance_id == "i-one"
        assert places(by_client["one"].assignment.topic_partitions) == here.owned
        assert by_client["one"].host.lstrip("/") == "127.0.0.1"
        row = (ConsumerGroupState.STABLE, TYPES[protocol], False)
        assert listed(address, made) == [row]
        assert listed(address, made, states={ConsumerGroupState.STABLE}, types={TYPES[protocol]}) == [row]
        assert listed(address, made, states={ConsumerGroupState.EMPTY}) == []
        other = TYPES["classic" if protocol == "consumer" else "consumer"]
        assert listed(address, made, types={other}) == []


def test_groups_are_deleted_when_nobody_is_in_them(address: str, made: str, protocol: str) -> None:
    with crew(address, made) as group:
        member = group.join(protocol, made)
        group.share(*everywhere(made))
        member.consumer.commit(offsets=[TopicPartition(made, 0, 0)], asynchronous=False)
        client = admin(address)
        assert outcomes(client.delete_consumer_groups([made, f"{made}-not"])) == {
            made: "NON_EMPTY_GROUP",
            f"{made}-not": "GROUP_ID_NOT_FOUND",
        }
    told = described(address, made)
    assert (told.state, told.members) == (ConsumerGroupState.EMPTY, [])
    assert outcomes(client.delete_consumer_groups([made])) == {made: None}
    assert listed(address, made) == []
    assert offsets(address, made, (made, 0)) == [OFFSET_INVALID]
    assert described(address, made).state == ConsumerGroupState.DEAD


def test_offsets_are_listed_and_altered(address: str, made: str, protocol: str) -> None:
    with crew(address, made) as group:
        member = group.join(protocol, made)
        group.share(*everywhere(made))
        rows = [TopicPartition(made, 0, 0), TopicPartition(made, 2, 0)]
        member.consumer.commit(offsets=rows, asynchronous=False)
        assert offsets(address, made) == [0, 0]
        assert offsets(address, made, *everywhere(made)) == [0, OFFSET_INVALID, 0, OFFSET_INVALID]
        assert alter(address, made, (made, 0, 7)) == ["UNKNOWN_MEMBER_ID"]
    assert alter(address, made, (made, 0, 7), (made, 1, 8)) == [None, None]
    assert alter(address, made, (f"{made}-not", 0, 1)) == ["UNKNOWN_TOPIC_OR_PART"]
    assert offsets(address, made) == [7, 8, 0]
    with assigned(address, group_id=f"{made}-new"):
        assert alter(address, f"{made}-new", (made, 3, 1)) == [None]
    assert listed(address, f"{made}-new") == [(ConsumerGroupState.EMPTY, ConsumerGroupType.CLASSIC, True)]


# From one protocol to the other


def test_a_group_moves_to_the_other_protocol_and_back_while_it_runs(address: str, made: str) -> None:
    with crew(address, made) as group:
        old = [group.join("classic", made), group.join("classic", made)]
        group.share(*everywhere(made))
        old[0].consumer.commit(offsets=[TopicPartition(made, 0, 0)], asynchronous=False)
        assert described(address, made).type == ConsumerGroupType.CLASSIC
        new = group.join("consumer", made)
        group.share(*everywhere(made))
        assert described(address, made).type == ConsumerGroupType.CONSUMER
        for member in old:
            group.leave(member)
            group.share(*everywhere(made))
        assert new.committed((made, 0)) == [0]
        back = group.join("classic", made)
        group.share(*everywhere(made))
        assert described(address, made).type == ConsumerGroupType.CONSUMER
        group.leave(new)
        group.share(*everywhere(made))
        assert described(address, made).type == ConsumerGroupType.CLASSIC
        assert back.committed((made, 0)) == [0]
        assert not any(member.errors for member in group.everybody)


# Members that do not say goodbye

MEMBER = """
import sys
from confluent_kafka import Consumer
address, group, topic, protocol = sys.argv[1:]
settings = {"bootstrap.servers": address, "group.id": group, "group.protocol": protocol, "log_level": 0}
if protocol == "classic":
    settings |= {"session.timeout.ms": 1000, "heartbeat.interval.ms": 50}
def tell(_, rows):
    print("owns", *sorted(row.partition for row in consumer.assignment() or rows), flush=True)
consumer = Consumer(settings)
consumer.subscribe([topic], on_assign=tell)
while True:
    consumer.poll(0.05)
"""


@contextmanager
def elsewhere(address: str, group: str, topic: str, protocol: str) -> Iterator["subprocess.Popen[str]"]:
    """A member in a process of its own, that says what it owns."""
    command = [sys.executable, "-c", MEMBER, address, group, topic, protocol]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def hear(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def test_what_a_member_had_that_hangs_or_is_killed_goes_to_the_others(address: str, made: str, protocol: str) -> None:
    client = admin(address)
    resource = ConfigResource(
        ResourceType.GROUP,
        made,
        incremental_configs=[
            ConfigEntry("consumer.session.timeout.ms", "1000", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    assert outcomes(client.incremental_alter_configs([resource])) == {resource: None}
    with crew(address, made) as group, elsewhere(address, made, made, protocol) as process:
        assert hear(process.stdout) == "owns 0 1 2 3\n"
        here = group.join(protocol, made)
        group.until(lambda: len(here.owned) == 2, "they share")
        process.send_signal(signal.SIGSTOP)
        group.until(lambda: len(here.owned) == 4, "it has everything")
        process.send_signal(signal.SIGCONT)
        group.until(lambda: len(here.owned) == 2, "they share again")
        process.kill()
        group.until(lambda: len(here.owned) == 4, "it has everything")
        assert not here.errors
        assert not here.lost
