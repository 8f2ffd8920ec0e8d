"""Drives a shard of groups as the broker does: write, replay, answer; and starts it again from what was written."""

from collections.abc import Callable, Mapping
from hashlib import md5
from typing import Any, NamedTuple

from headrace.cluster.config_resolution import broker_values
from headrace.cluster.features import GROUP_VERSION
from headrace.cluster.image import EMPTY_IMAGE, Image, Partition, Topic
from headrace.coordinator.group_settings import GroupSettings
from headrace.coordinator.groups import GroupShard
from headrace.coordinator.result import NO_PRODUCER_ID, Client, Producer, Step, Ticket
from headrace.protocol.apis import GROUP_RECORDS
from headrace.protocol.internal_records import decode_coordinator_record, encode_coordinator_record

START_MS = 1_000_000
NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}


class Written(NamedTuple):
    """One record of the log, as bytes."""

    key: bytes
    value: bytes | None
    producer_id: int


class Marked(NamedTuple):
    """The end of a transaction."""

    producer: Producer
    committed: bool


def partition() -> Partition:
    return Partition((1,), (1,), 1, 0, 0, (bytes(16),))


_TOPIC_NAMES: dict[bytes, str] = {}  # by id, of all topics that any test made


def topic_id_of(name: str, number: int = 0) -> bytes:
    """The id of the topic with this name, or of a later one after that was deleted."""
    topic_id = md5(f"{name} {number}".encode()).digest()
    name_topic(topic_id, name, number)
    return topic_id


def name_topic(topic_id: bytes, name: str, number: int = 0) -> None:
    _TOPIC_NAMES[topic_id] = name if not number else f"{name}#{number}"


def topic_name(topic_id: bytes) -> str:
    """For people to read."""
    return _TOPIC_NAMES[topic_id]


class GroupDriver:
    """A shard, its clock and its log. Answers are found by ticket, each once."""

    def __init__(self, configs: Mapping[str, str] = NO_DELAY) -> None:
        self.configure(configs)
        self.image: Image = EMPTY_IMAGE._replace(features={GROUP_VERSION: 1})
        self.now_ms = START_MS
        self.log: list[Written | Marked] = []
        self.answers: dict[Ticket, Any] = {}
        self.notices: list[str] = []
        self.steps: list[Step] = []  # that wrote, answered or said something
        self._tickets = iter(range(1, 1_000_000))
        self._ids = iter(range(1, 1_000_000))
        self.shard = self._new_shard()
        self.shard.loaded(self.now_ms)

    def configure(self, configs: Mapping[str, str]) -> None:
        """For the next shard."""
        self.settings = GroupSettings.from_configs(broker_values(static=configs))

    def _new_shard(self) -> GroupShard:
        return GroupShard(self.settings, self.image, lambda: str(next(self._ids)))

    # The road of a request

    def send(self, decide: Callable[[GroupShard, Ticket], Step]) -> Ticket:
        ticket = next(self._tickets)
        self.carry_out(decide(self.shard, ticket))
        return ticket

    def ask(self, decide: Callable[[GroupShard, Ticket], Step]) -> Any:
        """The answer to a request that need not wait."""
        return self.answers.pop(self.send(decide))

    def carry_out(self, step: Step) -> None:
        producer_id = NO_PRODUCER_ID if step.producer is None else step.producer.producer_id
        for record in step.records:
            key, value = encode_coordinator_record(record.type, record.key, record.value, record.version)
            self.log.append(Written(key, value, producer_id))
        for record in step.records:
            self.shard.replay(record, producer_id=producer_id)
        for ticket, response in step.answers:
            assert ticket not in self.answers, f"a second answer to {ticket}: {response}"
            self.answers[ticket] = response
        self.notices += step.notices
        if step.records or step.answers or step.notices:
            self.steps.append(step)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        producer = Producer(producer_id, 0)
        self.log.append(Marked(producer, committed))
        self.shard.replay_end(producer, committed=committed)

    # Time and world

    def move(self, delay_ms: int) -> None:
        """Let time pass, with everything happening when it is due."""
        end_ms = self.now_ms + delay_ms
        while (due_ms := self.shard.next_deadline_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            for step in self.shard.tick(self.now_ms):
                self.carry_out(step)
        self.now_ms = end_ms

    def restart(self) -> None:
        """Another coordinator takes over: all that it knows is the log."""
        self.shard = self.replayed()
        self.shard.loaded(self.now_ms)
        self.move(0)

    def replayed(self) -> GroupShard:
        """A shard from what was written, before it is told that this is all."""
        shard = self._new_shard()
        for entry in self.log:
            if isinstance(entry, Marked):
                shard.replay_end(entry.producer, committed=entry.committed)
            else:
                record = decode_coordinator_record(GROUP_RECORDS, entry.key, entry.value)
                shard.replay(record, producer_id=entry.producer_id)
        return shard

    def set_image(self, image: Image) -> None:
        self.image = image
        for step in self.shard.image_changed(image, self.now_ms):
            self.carry_out(step)

    def make_topic(self, name: str, partitions: int, number: int = 0) -> None:
        """A new topic, or one with another number of partitions."""
        topic_id = topic_id_of(name, number)
        topic = Topic(name, topic_id, {index: partition() for index in range(partitions)})
        self.set_image(
            self.image._replace(
                topics={**self.image.topics, topic_id: topic}, topic_ids={**self.image.topic_ids, name: topic_id}
            )
        )

    def delete_topic(self, name: str) -> None:
        topic_id = self.image.topic_ids[name]
        self.set_image(
            self.image._replace(
                topics={key: topic for key, topic in self.image.topics.items() if key != topic_id},
                topic_ids={key: each for key, each in self.image.topic_ids.items() if key != name},
            )
        )


def client_of(name: str) -> Client:
    return Client(name, "/127.0.0.1")
