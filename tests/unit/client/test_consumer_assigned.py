"""A consumer of partitions that are assigned by hand, against both brokers: reading, places, commits."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import headrace
from headrace.client.consumer import Consumer
from headrace.client.fetch_leaders import FoundOffset
from headrace.client.topic_partition import TopicPartition
from tests.support.both_brokers import eventually, unique
from tests.support.consuming import fill, read, values

SECONDS = 120.0  # so long the machine may be busy; what needs it is broken


@pytest.fixture
def topic(bootstrap: str) -> str:
    """Three partitions with ten records each: 0-0 to 2-9."""
    name = unique("orders")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=3)
    fill(bootstrap, name, {number: [f"{number}-{place}" for place in range(10)] for number in range(3)})
    return name


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[Consumer]:
    with headrace.Consumer(bootstrap, auto_offset_reset="earliest") as made:
        yield made


def partitions(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def test_all_records_come_in_the_order_of_their_partition(consumer: Consumer, topic: str) -> None:
    consumer.assign(partitions(topic, 0, 1, 2))
    found: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for record in read(consumer, 30):
        found[record.partition].append(record.offset)
        assert record.value == f"{record.partition}-{record.offset}".encode()
    assert found == {number: list(range(10)) for number in range(3)}


def test_iterating_gives_the_same_and_can_be_left_and_gone_on_with(consumer: Consumer, topic: str) -> None:
    consumer.assign(partitions(topic, 0))
    first = []
    for record in consumer:
        first.append(record.offset)
        if len(first) == 4:
            break
    assert first == [0, 1, 2, 3]
    assert consumer.position(TopicPartition(topic, 0)) == 4
    second = []
    for record in consumer:
        second.append(record.offset)
        if len(second) == 2:
            break
    assert second == [4, 5]
    assert [record.offset for record in read(consumer, 4)] == [6, 7, 8, 9]


def test_poll_returns_no_more_than_it_may(bootstrap: str, topic: str) -> None:
    with headrace.Consumer(bootstrap, auto_offset_reset="earliest", max_poll_records=4) as consumer:
        consumer.assign(partitions(topic, 0))
        assert [record.offset for record in consumer.poll(SECONDS)] == [0, 1, 2, 3]
        assert [record.offset for record in consumer.poll(SECONDS, max_records=1)] == [4]
        assert consumer.position(TopicPartition(topic, 0)) == 5
        assert [record.offset for record in read(consumer, 5)] == [5, 6, 7, 8, 9]


def test_poll_without_records_returns_none_when_the_time_is_over(consumer: Consumer, topic: str) -> None:
    consumer.assign(partitions(topic, 0))
    consumer.seek_to_end()
    assert consumer.poll() == []
    assert consumer.poll(0.05) == []


def test_seek_goes_anywhere_and_what_was_fetched_before_is_dropped(consumer: Consumer, topic: str) -> None:
    place = TopicPartition(topic, 1)
    consumer.assign([place])
    assert len(consumer.poll(SECONDS, max_records=3)) == 3
    consumer.seek(place, 8)
    assert consumer.position(place) == 8
    assert values(read(consumer, 2)) == ["1-8", "1-9"]
    consumer.seek_to_beginning(place)
    assert values(read(consumer, 1)) == ["1-0"]
    consumer.seek_to_end()
    assert consumer.position(place) == 10
    with pytest.raises(ValueError, match="below zero"):
        consumer.seek(place, -1)
    with pytest.raises(headrace.WrongStateError, match="not assigned"):
        consumer.seek(TopicPartition(topic, 2), 0)


def test_a_seek_inside_an_iteration_holds_for_the_next_record(consumer: Consumer, topic: str) -> None:
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    found: list[int] = []
    for record in consumer:
        found.append(record.offset)
        if len(found) == 2:
            consumer.seek(place, 7)
        if len(found) == 5:
            break
    assert found == [0, 1, 7, 8, 9]


def test_a_pause_inside_an_iteration_holds_for_the_next_record(consumer: Consumer, topic: str) -> None:
    zero, one = partitions(topic, 0, 1)
    consumer.assign([zero, one])
    found: list[headrace.ConsumerRecord] = []
    for record in consumer:
        found.append(record)
        if len(found) == 2:
            place = TopicPartition(topic, record.partition)
            consumer.pause(place)
            assert consumer.position(place) == 2
            done = consumer._core.intake.progress.done(consumer._core.subscriptions.state(place))
            assert done is not None
            assert done.offset == 1, "an automatic commit would take the record for done that is worked at"
        if len(found) == 12:
            break
    assert [record.partition for record in found] == [found[0].partition] * 2 + [1 - found[0].partition] * 10
    consumer.resume(zero, one)
    assert [record.offset for record in read(consumer, 8)] == list(range(2, 10))


def test_paused_partitions_are_silent_and_lose_nothing(consumer: Consumer, topic: str) -> None:
    zero, one = partitions(topic, 0, 1)
    consumer.assign([zero, one])
    assert len(consumer.poll(SECONDS, max_records=1)) == 1
    consumer.pause(zero, one)
    assert consumer.paused() == {zero, one}
    assert consumer.poll(0.05) == []
    consumer.resume(one)
    consumer.resume(zero)
    assert consumer.paused() == set()
    found = values(read(consumer, 19))
    assert len(set(found)) == 19


def test_a_paused_partition_whose_records_wait_does_not_keep_others_from_being_fetched(bootstrap: str) -> None:
    """A broker is not asked for more while a partition of it has enough; one that is paused is never taken from."""
    name = unique("two")
    zero, one = partitions(name, 0, 1)
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=2)
    fill(bootstrap, name, {0: ["waits"]})
    with headrace.Consumer(bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=1) as consumer:
        consumer.assign([zero, one])
        eventually(lambda: consumer._core.subscriptions.state(zero).buffered_bytes > 0)
        consumer.pause(zero)
        fill(bootstrap, name, {1: ["comes"]})
        assert values(read(consumer, 1)) == ["comes"]
        consumer.resume(zero)
        assert values(read(consumer, 1)) == ["waits"]


def test_offsets_of_both_ends_and_by_time(consumer: Consumer, bootstrap: str, topic: str) -> None:
    zero, one = partitions(topic, 0, 1)
    assert consumer.beginning_offsets([zero, one]) == {zero: 0, one: 0}
    assert consumer.end_offsets([zero, one]) == {zero: 10, one: 10}
    later = time.time_ns() // 1_000_000 + 1_800_000
    fill(bootstrap, topic, {0: ["late"]}, timestamp=later)
    found = consumer.offsets_for_times({zero: later - 1000, one: later - 1000})
    assert found == {zero: FoundOffset(10, later, 0), one: None}
    with pytest.raises(ValueError, match="before 1970"):
        consumer.offsets_for_times({zero: -2})
    assert consumer.partitions(topic) == partitions(topic, 0, 1, 2)


def test_a_pair_names_a_partition_and_what_is_none_is_told(consumer: Consumer, topic: str) -> None:
    pair: Any = (topic, 0)
    consumer.assign([pair])
    assert consumer.beginning_offsets([pair]) == {pair: 0}
    assert consumer.end_offsets([pair]) == {pair: 10}
    assert consumer.offsets_for_times({pair: 0})[pair] is not None
    consumer.pause(pair)
    consumer.resume(pair)
    consumer.seek_to_end(pair)
    assert consumer.position(pair) == 10
    wrong: Any
    for wrong in (topic, [TopicPartition(topic, 0)], (topic, "0"), (0, topic), (topic,), None):
        for call in (consumer.pause, consumer.seek_to_beginning, consumer.position, consumer.lag):
            with pytest.raises(TypeError, match=r"is not a partition: write TopicPartition\(topic, number\)"):
                call(wrong)
        with pytest.raises(TypeError, match="is not a partition"):
            consumer.end_offsets([wrong])


def test_the_position_is_found_without_a_poll_and_lag_with_one(consumer: Consumer, topic: str) -> None:
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    assert consumer.position(place) == 0
    consumer.poll(SECONDS, max_records=4)
    assert consumer.lag(place) == 6
    consumer.poll(SECONDS)
    assert consumer.lag(place) == 0


@pytest.mark.parametrize(("policy", "expected"), [("earliest", 0), ("latest", 10), ("by_duration:PT1H", 0)])
def test_where_to_begin_without_an_offset(bootstrap: str, topic: str, policy: str, expected: int) -> None:
    with headrace.Consumer(bootstrap, auto_offset_reset=policy) as consumer:
        consumer.assign(partitions(topic, 0))
        assert consumer.position(TopicPartition(topic, 0)) == expected


def test_by_duration_begins_at_the_end_if_nothing_is_so_young(bootstrap: str) -> None:
    name = unique("old")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(name, configs={"message.timestamp.before.max.ms": 10**17, "retention.ms": -1})
    fill(bootstrap, name, {0: ["old"]}, timestamp=1_000)
    with headrace.Consumer(bootstrap, auto_offset_reset="by_duration:PT1S") as consumer:
        consumer.assign(partitions(name, 0))
        assert consumer.position(TopicPartition(name, 0)) == 1


def test_without_a_policy_a_missing_offset_is_an_error_until_the_user_seeks(bootstrap: str, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with headrace.Consumer(bootstrap, group=unique("g"), auto_offset_reset="none", retry_backoff_ms=1) as consumer:
        consumer.assign([place])
        with pytest.raises(headrace.NoOffsetError, match=f"no committed offset for {place}") as caught:
            consumer.poll(SECONDS)
        assert caught.value.partition == place
        with pytest.raises(headrace.NoOffsetError):
            consumer.position(place)
        consumer.seek(place, 9)
        assert values(_read_past_errors(consumer)) == ["0-9"]
        consumer.seek(place, 77)
        with pytest.raises(headrace.NoOffsetError, match="does not hold offset 77"):
            _read_past_errors(consumer, "no committed")


def _read_past_errors(consumer: Consumer, about: str = "no committed") -> Any:
    """The same error may have come a second time before the seek."""
    while True:
        try:
            return read(consumer, 1)
        except headrace.NoOffsetError as error:
            if about not in str(error):
                raise


def test_an_offset_that_is_out_of_range_is_reset(consumer: Consumer, topic: str) -> None:
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 1000)
    assert values(read(consumer, 1)) == ["0-0"]


def test_a_poll_that_waits_gets_what_is_produced_meanwhile(consumer: Consumer, bootstrap: str, topic: str) -> None:
    consumer.assign(partitions(topic, 0))
    consumer.seek_to_end()
    assert consumer.position(TopicPartition(topic, 0)) == 10
    producing = threading.Thread(target=fill, args=(bootstrap, topic, {0: ["new"]}))
    producing.start()
    assert values(read(consumer, 1)) == ["new"]
    producing.join()


def test_wakeup_interrupts_a_poll_that_waits_and_the_next_one_if_none_does(consumer: Consumer, topic: str) -> None:
    consumer.assign(partitions(topic, 0))
    consumer.seek_to_end()
    consumer.wakeup()
    with pytest.raises(headrace.WakeupError):
        consumer.poll(SECONDS)
    waking = threading.Timer(0.05, consumer.wakeup)
    waking.start()
    with pytest.raises(headrace.WakeupError):
        for _ in consumer:
            pass
    waking.join()
    assert consumer.poll() == []


# Commits without membership


def test_offsets_are_committed_and_a_later_consumer_begins_there(bootstrap: str, topic: str) -> None:
    group = unique("g")
    zero, one = partitions(topic, 0, 1)
    with headrace.Consumer(bootstrap, group=group, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.assign([zero])
        assert consumer.committed([zero]) == {zero: None}
        consumer.poll(SECONDS, max_records=3)
        consumer.commit()
        consumer.commit({one: headrace.OffsetAndMetadata(5, metadata="half")})
        assert consumer.committed([zero, one]) == {
            zero: headrace.OffsetAndMetadata(3, leader_epoch=0),
            one: headrace.OffsetAndMetadata(5, metadata="half"),
        }
    with headrace.Consumer(bootstrap, group=group) as consumer:
        consumer.assign([zero, one])
        assert (consumer.position(zero), consumer.position(one)) == (3, 5)


def test_an_iteration_commits_up_to_the_record_that_it_is_at(bootstrap: str, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with headrace.Consumer(bootstrap, group=unique("g"), auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        for record in consumer:
            if record.offset == 5:
                consumer.commit()
                break
        assert consumer.committed([place]) == {place: headrace.OffsetAndMetadata(6, 0)}


def test_commits_that_are_not_waited_for_tell_when_they_are_done(bootstrap: str, topic: str) -> None:
    place = TopicPartition(topic, 0)
    told: list[tuple[Any, Any]] = []
    with headrace.Consumer(bootstrap, group=unique("g")) as consumer:
        for offset in range(100):
            consumer.commit_async({place: offset}, on_done=lambda offsets, error: told.append((offsets[place], error)))
        eventually(lambda: len(told) == 100)
        assert told == [(headrace.OffsetAndMetadata(offset), None) for offset in range(100)]
        assert consumer.committed([place]) == {place: headrace.OffsetAndMetadata(99)}


def test_without_a_group_there_is_nothing_to_commit_to(consumer: Consumer, topic: str) -> None:
    with pytest.raises(headrace.WrongStateError, match="give it a group"):
        consumer.commit({TopicPartition(topic, 0): 1})
    with pytest.raises(headrace.WrongStateError, match="give it a group"):
        consumer.committed([TopicPartition(topic, 0)])


# What is in records


def test_deserializers_make_values_and_one_that_fails_says_where(bootstrap: str) -> None:
    name = unique("numbers")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(name)
    fill(bootstrap, name, {0: ["1", "2", "three", "4"]})
    place = TopicPartition(name, 0)
    configs: dict[str, Any] = {"value_deserializer": lambda _, data: int(data), "auto_offset_reset": "earliest"}
    with headrace.Consumer(bootstrap, **configs) as consumer:
        consumer.assign([place])
        assert [record.value for record in read(consumer, 2)] == [1, 2]
        for _ in range(2):  # it stays there
            with pytest.raises(headrace.DeserializationError, match=f"value of {name}-0 at offset 2") as caught:
                consumer.poll(SECONDS)
        assert caught.value.record.value == b"three"
        assert consumer.position(place) == 2
        consumer.seek(place, caught.value.record.offset + 1)
        assert [record.value for record in read(consumer, 1)] == [4]


def test_named_deserializers_and_interceptors(bootstrap: str, topic: str) -> None:
    class Even:
        def on_consume(self, records: list[headrace.ConsumerRecord]) -> list[headrace.ConsumerRecord]:
            return [record for record in records if record.offset % 2 == 0]

    configs: dict[str, Any] = {"interceptor_classes": [Even()], "value_deserializer": "str"}
    with headrace.Consumer(bootstrap, auto_offset_reset="earliest", **configs) as consumer:
        consumer.assign(partitions(topic, 2))
        assert [record.value for record in read(consumer, 5)] == ["2-0", "2-2", "2-4", "2-6", "2-8"]
        eventually(lambda: not consumer.poll() and consumer.position(TopicPartition(topic, 2)) == 10)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(bootstrap: str, codec: str) -> None:
    name = unique(codec)
    fill(bootstrap, name, {0: ["same " * 100] * 50}, compression_type=codec)
    with headrace.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions(name, 0))
        assert values(read(consumer, 50)) == ["same " * 100] * 50


def test_read_committed_leaves_out_what_was_aborted_and_waits_for_what_is_open(bootstrap: str) -> None:
    name = unique("payments")
    place = TopicPartition(name, 0)
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(name)
    with headrace.Producer(bootstrap, transactional_id=unique("tx")) as producer:
        producer.init_transactions()
        for value, is_committed in (("kept", True), ("dropped", False), ("kept, too", True)):
            producer.begin_transaction()
            producer.send(name, value)
            if is_committed:
                producer.commit_transaction()
            else:
                producer.flush()
                producer.abort_transaction()
        producer.begin_transaction()
        producer.send(name, "open").result(SECONDS)
        with headrace.Consumer(bootstrap, auto_offset_reset="earliest", isolation_level="read_committed") as committed:
            committed.assign([place])
            assert values(read(committed, 2)) == ["kept", "kept, too"]
            assert committed.end_offsets([place]) == {place: 6}
            eventually(lambda: committed.poll() == [] and committed.position(place) == 6)
            assert committed.lag(place) == 0
            with headrace.Consumer(bootstrap, auto_offset_reset="earliest") as everything:
                everything.assign([place])
                assert values(read(everything, 4)) == ["kept", "dropped", "kept, too", "open"]
            producer.commit_transaction()
            assert values(read(committed, 1)) == ["open"]


# The end


def test_a_closed_consumer_says_so(bootstrap: str, topic: str) -> None:
    consumer = headrace.Consumer(bootstrap)
    consumer.assign(partitions(topic, 0))
    consumer.close()
    consumer.close()
    for call in (consumer.poll, lambda: next(iter(consumer)), lambda: consumer.position(TopicPartition(topic, 0))):
        with pytest.raises(headrace.ClosedError, match="This consumer is closed"):
            call()


def test_a_topic_that_does_not_exist_yet_is_read_when_it_does(bootstrap: str) -> None:
    name = unique("later")
    configs: dict[str, Any] = {"auto_offset_reset": "earliest", "allow_auto_create_topics": False}
    with headrace.Consumer(bootstrap, retry_backoff_max_ms=50, **configs) as consumer:
        consumer.assign(partitions(name, 0))
        assert consumer.poll(0.05) == []
        with headrace.Admin(bootstrap) as admin:
            admin.create_topic(name)
        fill(bootstrap, name, {0: ["at last"]})
        assert values(read(consumer, 1)) == ["at last"]


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(headrace.ConfigError, match=r"auto\.offset\.reset must be"):
        headrace.Consumer("localhost:9092", auto_offset_reset="sometimes")
    with pytest.raises(headrace.ConfigError, match=r"value\.deserializer must be one of"):
        headrace.Consumer("localhost:9092", value_deserializer="xml")
    with pytest.raises(headrace.ConfigError, match=r"group\.id is given twice"):
        headrace.Consumer("localhost:9092", group="a", config={"group.id": "b"})


def test_assigning_again_keeps_the_places_of_what_stays(consumer: Consumer, topic: str) -> None:
    zero, one, two = partitions(topic, 0, 1, 2)
    consumer.assign([zero, one])
    consumer.seek(zero, 8)
    consumer.assign([zero, two])
    assert consumer.assignment() == {zero, two}
    assert set(values(read(consumer, 12))) == {"0-8", "0-9", *(f"2-{place}" for place in range(10))}
    consumer.unsubscribe()
    assert consumer.assignment() == set()
    started = time.monotonic()
    assert consumer.poll(0.05) == []
    assert time.monotonic() - started >= 0.05
