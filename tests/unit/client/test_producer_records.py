"""Records that no broker could be sent: whoever sends one is told at once, and others of its batch are not harmed."""

from collections.abc import Iterator
from typing import Any

import pytest

import headrace
from headrace.client.errors import KafkaError
from headrace.client.pending_batch import PendingBatch
from headrace.client.producer_core import ProducerRecord
from tests.support.topic_reading import read_topic


@pytest.fixture
def broker() -> Iterator[headrace.Broker]:
    with headrace.Broker() as broker:
        broker.create_topic("t", partitions=1)
        yield broker


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        ({"headers": [("h", "text")]}, TypeError),
        ({"headers": [(b"h", b"1")]}, TypeError),
        ({"headers": [("\ud800", b"1")]}, ValueError),
        ({"headers": ["h"]}, TypeError),
        ({"headers": {"h": b"1"}}, TypeError),
        ({"timestamp": 1.5}, TypeError),
        ({"timestamp": -5}, ValueError),
        ({"timestamp": 1 << 63}, ValueError),
    ],
)
def test_a_record_that_cannot_be_encoded_is_refused_and_the_others_go(
    broker: headrace.Broker, bad: dict[str, Any], kind: type[Exception]
) -> None:
    with headrace.Producer(broker.address, linger_ms=10_000) as producer:
        good = producer.send("t", b"good")
        with pytest.raises(kind):
            producer.send("t", b"bad", **bad)
        producer.flush(30)
        assert good.result(0).offset == 0


def test_a_serializer_that_returns_no_bytes_is_told_so(broker: headrace.Broker) -> None:
    with headrace.Producer(broker.address, value_serializer=lambda _, value: value, linger_ms=10_000) as producer:
        good = producer.send("t", b"good")
        with pytest.raises(TypeError, match=r"value\.serializer returned a str for t"):
            producer.send("t", "bad")
        producer.send("t", bytearray(b"also good"))
        producer.flush(30)
        assert good.result(0).offset == 0
    assert [record.value for record in read_topic(broker.address, "t")] == [b"good", b"also good"]


def test_headers_are_those_of_the_moment_at_which_they_were_sent(broker: headrace.Broker) -> None:
    headers = [("h", b"1")]
    with headrace.Producer(broker.address, linger_ms=10_000) as producer:
        producer.send("t", b"a", headers=headers)
        headers[0] = ("h", b"2")
        producer.send("t", b"b", headers=iter(headers))  # type: ignore[arg-type]
    assert [list(record.headers) for record in read_topic(broker.address, "t")] == [[("h", b"1")], [("h", b"2")]]


def test_a_batch_that_cannot_be_encoded_fails_and_the_next_one_goes(
    broker: headrace.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(*_: object, **__: object) -> bytearray:
        raise MemoryError

    with headrace.Producer(broker.address) as producer:
        producer.send("t", b"a").result(30)
        with monkeypatch.context() as broken:
            broken.setattr(PendingBatch, "encoded", out_of_memory)
            with pytest.raises(KafkaError, match="MemoryError"):
                producer.send("t", b"b").result(30)
        producer.send("t", b"c").result(30)
    assert [record.value for record in read_topic(broker.address, "t")] == [b"a", b"c"]


class Broken:
    """An interceptor that fails at everything."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise ValueError(f"no {record.value!r}")

    def on_acknowledgement(self, metadata: object, error: object) -> None:
        raise ValueError("not even that")

    def on_consume(self, records: list[headrace.ConsumerRecord]) -> list[headrace.ConsumerRecord]:
        raise ValueError(f"not these {len(records)}")


def test_an_interceptor_that_fails_keeps_no_record_from_anybody(broker: headrace.Broker) -> None:
    told: list[Any] = []
    with headrace.Producer(broker.address, interceptor_classes=[Broken()]) as producer:
        producer.send("t", b"a", on_delivery=lambda metadata, _: told.append(metadata))
    assert [each.offset for each in told] == [0]
    with headrace.Consumer(
        broker.address, interceptor_classes=[Broken()], auto_offset_reset="earliest", group="g"
    ) as consumer:
        consumer.assign([("t", 0)])
        assert [record.value for record in consumer.poll(30)] == [b"a"]


class Forgetful:
    """An interceptor that returns nothing."""

    def on_send(self, record: ProducerRecord) -> None: ...

    def on_acknowledgement(self, metadata: object, error: object) -> None: ...

    def on_consume(self, records: list[headrace.ConsumerRecord]) -> None: ...


def test_an_interceptor_that_returns_nothing_is_passed_over_and_a_class_is_made_an_object_of(
    broker: headrace.Broker,
) -> None:
    with headrace.Producer(broker.address, interceptor_classes=[Forgetful]) as producer:
        assert producer.send("t", b"a").result(30).offset == 0
    with headrace.Consumer(broker.address, interceptor_classes=[Forgetful], auto_offset_reset="earliest") as consumer:
        consumer.assign([("t", 0)])
        assert [record.value for record in consumer.poll(30)] == [b"a"]


def test_what_is_no_interceptor_is_refused_at_once(broker: headrace.Broker) -> None:
    for wrong in ("com.example.Interceptor", [object()]):
        with pytest.raises(headrace.ConfigError, match=r"interceptor\.classes must be objects with on_send and on_ack"):
            headrace.Producer(broker.address, interceptor_classes=wrong)
        with pytest.raises(headrace.ConfigError, match=r"interceptor\.classes must be objects with on_consume, not"):
            headrace.Consumer(broker.address, interceptor_classes=wrong)


@pytest.mark.parametrize("wrong", [5, None, b"t", "\ud800"])
def test_a_topic_that_cannot_be_asked_for_spoils_nothing(broker: headrace.Broker, wrong: Any) -> None:
    with headrace.Producer(broker.address, max_block_ms=30_000) as producer:
        with pytest.raises((TypeError, UnicodeEncodeError)):
            producer.send(wrong, b"a")
        assert producer.send("not-asked-for-yet", b"a").result(30).offset == 0
    with headrace.Consumer(broker.address, group="g") as consumer:
        with pytest.raises((TypeError, UnicodeEncodeError)):
            consumer.subscribe([wrong])
        with pytest.raises((TypeError, UnicodeEncodeError)):
            consumer.partitions(wrong)
        assert len(consumer.partitions("t", 30)) == 1


def test_an_error_that_many_records_share_does_not_grow_with_them(broker: headrace.Broker) -> None:
    with headrace.Producer(broker.address, linger_ms=10_000) as producer:
        broker.faults.answer("Produce", error="INVALID_RECORD", times=1)
        sent = [producer.send("t", b"v") for _ in range(50)]
        producer.flush(30)
        depths = set()
        for each in sent:
            with pytest.raises(KafkaError) as raised:
                each.result(0)
            depths.add(len(raised.traceback))
        assert len(depths) == 1
