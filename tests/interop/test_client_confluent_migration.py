"""confluent-kafka moves a group from one protocol to the other while it runs, and back: nothing is lost or read twice.

Without cooperative-sticky: librdkafka keeps data of its own in the assignments, which no consumer group has a place
for, so that both brokers refuse such a group now and then.
"""

from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from tests.support.broker_process import BrokerProcess
from tests.support.clients_confluent import create_topic, sender
from tests.support.clients_confluent_groups import Crew, Member, Place, crew

PARTITIONS = 6
RECORDS = 60
CONFIGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.session.timeout.ms": "10000",
    "group.consumer.assignment.interval.ms": "0",
}


def everywhere(topic: str) -> list[Place]:
    return [(topic, index) for index in range(PARTITIONS)]


class Journey:
    """A group that works while it changes: at each stop everything is shared, read and committed."""

    def __init__(self, address: str, topic: str, group: Crew) -> None:
        self._address = address
        self._topic = topic
        self.group = group
        self.sent = 0

    def join(self, protocol: str, **configs: str) -> Member:
        member = self.group.join(protocol, self._topic, **configs)
        self.stop()
        return member

    def leave(self, member: Member) -> None:
        self.group.leave(member)
        self.stop()

    def stop(self) -> None:
        self.group.share(*everywhere(self._topic))
        producer = sender(self._address)
        for number in range(self.sent, self.sent + RECORDS):
            producer.send(self._topic, b"%d" % number, partition=number % PARTITIONS)
        producer.flush()
        self.sent += RECORDS
        self.group.until(lambda: len(set(self.read)) == self.sent, "everything is read")
        self.group.until(lambda: all(map(_commits, self.group.members)), "everything is committed")

    @property
    def read(self) -> list[int]:
        return sorted(int(value or b"") for member in self.group.everybody for value in member.values)


def _commits(member: Member) -> bool:
    try:
        member.consumer.commit(asynchronous=False)
    except KafkaException as error:
        return bool(error.args[0].name() == "_NO_OFFSET")  # it has read nothing since; else it has to join first
    return True


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_a_group_moves_to_the_new_protocol_and_back_while_it_works(address: str, topic: str, strategy: str) -> None:
    create_topic(address, topic, PARTITIONS)
    classic = {"partition_assignment_strategy": strategy}
    with crew(address, topic) as group:
        journey = Journey(address, topic, group)
        old = [journey.join("classic", **classic) for _ in range(2)]
        new = [journey.join("consumer")]
        journey.leave(old[0])
        new.append(journey.join("consumer"))
        journey.leave(old[1])
        old = [journey.join("classic", **classic)]
        journey.leave(new[0])
        old.append(journey.join("classic", **classic))
        journey.leave(new[1])
        assert journey.read == list(range(journey.sent))
        assert old[0].committed(*everywhere(topic)) == [journey.sent // PARTITIONS] * PARTITIONS


@pytest.mark.slow
@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
def test_a_broker_may_start_again_on_the_way(tmp_path: Path, topic: str, crash: bool) -> None:
    def again() -> None:
        if crash:
            broker.kill()
        else:
            broker.stop()
        broker.start()

    classic = {"partition_assignment_strategy": "range", "session_timeout_ms": "10000"}
    with BrokerProcess(tmp_path, configs=CONFIGS) as broker:
        create_topic(broker.bootstrap, topic, PARTITIONS)
        with crew(broker.bootstrap, topic) as group:
            journey = Journey(broker.bootstrap, topic, group)
            old = journey.join("classic", **classic)
            again()
            new = journey.join("consumer")
            again()
            journey.stop()
            journey.leave(old)
            again()
            old = journey.join("classic", **classic)
            again()
            journey.stop()
            journey.leave(new)
            again()
            journey.stop()
            assert set(journey.read) == set(range(journey.sent))
            assert old.committed(*everywhere(topic)) == [journey.sent // PARTITIONS] * PARTITIONS
        broker.check_log()
