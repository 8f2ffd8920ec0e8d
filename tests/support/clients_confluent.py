"""confluent-kafka (librdkafka) in few words, for tests: every call has a deadline, and what goes wrong is raised."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.both_brokers import ready

SECONDS: Final = 120.0  # so long the machine may be busy; what needs it is broken
_COMMON: Final = {"log_level": 0}  # librdkafka writes its log past pytest's capture


def admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address, **_COMMON})


def outcomes(futures: Mapping[Any, Any]) -> dict[Any, Any]:
    """What each future gave: its result, or the error's name."""
    found = {}
    for key, future in futures.items():
        try:
            found[key] = future.result(SECONDS)
        except KafkaException as error:
            found[key] = error.args[0].name()
    return found


def create_topic(address: str, name: str, partitions: int = 1, **configs: str) -> str:
    """Its name. Configs by their names with underscores."""
    wanted = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in configs.items()})
    client = admin(address)  # futures of a client that is gone never end
    assert outcomes(client.create_topics([wanted])) == {name: None}
    ready(address, name, partitions)
    return name


@dataclass
class Sender:
    """A producer that keeps what its delivery reports said, in their order."""

    producer: Producer
    delivered: list[Message] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def send(self, topic: str, value: bytes | None, **options: Any) -> None:
        self.producer.produce(topic, value, on_delivery=self._report, **options)

    def flush(self) -> None:
        assert self.producer.flush(SECONDS) == 0, "not everything was delivered or refused in time"

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered.append(message)
        else:
            self.failed.append(error.name())


def sender(address: str, **configs: Any) -> Sender:
    """Configs by their names with underscores."""
    return Sender(Producer({"bootstrap.servers": address, "linger.ms": 1, **_COMMON, **_dotted(configs)}))


@contextmanager
def assigned(address: str, *partitions: TopicPartition, **configs: Any) -> Iterator[Consumer]:
    """A consumer that reads these partitions and belongs to no group that the broker knows."""
    settings = {"group.id": "nobody", "enable.auto.commit": False, "auto.offset.reset": "error", **_COMMON}
    consumer = Consumer({"bootstrap.servers": address, **settings, **_dotted(configs)})
    try:
        consumer.list_topics(timeout=SECONDS)  # librdkafka waits half a second for topics that it has not heard of
        consumer.assign(list(partitions))
        yield consumer
    finally:
        consumer.close()


def take(consumer: Consumer, count: int) -> list[Message]:
    """The next `count` messages. Raises what the consumer reports meanwhile."""
    messages: list[Message] = []
    while len(messages) < count:
        messages.append(take_one(consumer))
    return messages


def take_one(consumer: Consumer) -> Message:
    message = consumer.poll(SECONDS)
    assert message is not None, f"nothing came within {SECONDS} s"
    if (error := message.error()) is not None:
        raise KafkaException(error)
    return message


def read(address: str, topic: str, count: int, *, partition: int = 0, **configs: Any) -> list[Message]:
    """The first `count` messages of a partition."""
    with assigned(address, TopicPartition(topic, partition, OFFSET_BEGINNING), **configs) as consumer:
        return take(consumer, count)


def values(messages: Sequence[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def _dotted(configs: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in configs.items()}
