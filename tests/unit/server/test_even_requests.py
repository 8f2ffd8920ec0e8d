"""Produce requests of one size that come in one read, again and again, are served as if each had come alone."""

import errno
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.even_append import EvenBatches, append_even
from headrace.log.log import Log
from headrace.log.memory_fs import Fault
from headrace.log.producers import MAX_SEQUENCE
from headrace.log.run_append import MAX_RUN_BYTES
from headrace.protocol.compression import Codec
from headrace.protocol.messages.metadata_records import ClientQuotaRecord, EntityData, PartitionChangeRecord
from headrace.server import even_requests
from headrace.server import partition as partition_module
from headrace.server.even_requests import MAX_TABLES, EvenRequests, ExpectedRequests
from headrace.server.known_produce import KnownProduce
from tests.support.log_batches import NOW_MS, a_batch
from tests.support.produce_client import PRODUCER, Client, both, compare, fetch, five, of_producer, produce, spoil


class EvenWrites:
    """How many requests were written as a table."""

    def __init__(self) -> None:
        self.requests = 0

    def __call__(self, log: Log, buffer: bytearray, batches: EvenBatches, leader_epoch: int) -> range | None:
        offsets = append_even(log, buffer, batches, leader_epoch)
        self.requests += 0 if offsets is None else batches.count
        return offsets


@pytest.fixture
def even_writes(monkeypatch: pytest.MonkeyPatch) -> EvenWrites:
    writes = EvenWrites()
    monkeypatch.setattr(partition_module, "append_even", writes)
    return writes


def used_to(frames: Sequence[bytes], **configs: Any) -> tuple[Client, Client]:
    """Both have heard the same twice in one read: the first one serves the next ones like that as a table."""
    together, alone = both(**configs)
    for _ in range(2):
        compare(frames, together=together, alone=alone)
    return together, alone


@pytest.mark.parametrize("version", [9, 10, 11, 12, 13])
def test_what_came_twice_is_written_as_a_table(even_writes: EvenWrites, version: int) -> None:
    together, alone = used_to(five(version=version))
    compare(five(version=version), together=together, alone=alone)  # of a new version the first ones are decoded
    before = even_writes.requests
    assert compare(five(version=version), together=together, alone=alone)
    assert even_writes.requests == before + 5
    assert together.known() == alone.known()


def test_what_came_once_is_not(even_writes: EvenWrites) -> None:
    used_to(five())
    assert even_writes.requests == 0


def test_content_times_and_numbers_may_differ(even_writes: EvenWrites) -> None:
    together, alone = used_to(five())
    for turn in range(30):  # with entries of the index among them
        batches = [a_batch(b"turn %03d %d" % (turn, index), timestamps=[NOW_MS + turn // 2]) for index in range(5)]
        frames = [produce(batch, number=1000 * turn + index) for index, batch in enumerate(batches)]
        compare(frames, together=together, alone=alone)
    assert even_writes.requests == 28 * 5
    assert together.known() == alone.known()


@pytest.mark.parametrize("codec", Codec)
def test_batches_may_have_several_records_and_be_compressed(even_writes: EvenWrites, codec: Codec) -> None:
    frames = [produce(a_batch(b"a", b"b", b"c", codec=codec), number=number) for number in range(3)]
    together, alone = used_to(frames)
    compare(frames, together=together, alone=alone)
    assert even_writes.requests == 3
    assert together.known() == alone.known()


def test_the_same_size_may_be_of_another_number_of_records(even_writes: EvenWrites) -> None:
    two, three = a_batch(b"123456789", b""), a_batch(b"1", b"", b"")
    assert len(two) == len(three)
    together, alone = used_to([produce(two)] * 4)
    compare([produce(three)] * 4, together=together, alone=alone)
    assert even_writes.requests == 4
    compare([produce(three)] * 3 + [produce(two)], together=together, alone=alone)
    assert even_writes.requests == 4
    assert together.known() == alone.known()


def test_the_number_of_requests_in_a_read_may_vary(even_writes: EvenWrites) -> None:
    together, alone = used_to(five())
    for count in (4, 5, 4, 3, 4, 3, 5, 3):
        compare(five()[:count], together=together, alone=alone)
    assert even_writes.requests == 5 + 4 + 5 + 3
    assert together.known() == alone.known()


def test_tables_are_bounded_and_the_oldest_is_forgotten(even_writes: EvenWrites) -> None:
    together, alone = used_to(five())
    for partition in range(2):
        for size in range(10, 10 + MAX_TABLES // 2):
            for _ in range(2):
                compare([produce(a_batch(bytes(size)), partition=partition)] * 2, together=together, alone=alone)
    assert even_writes.requests == 0
    compare(five(), together=together, alone=alone)
    assert even_writes.requests == 0
    repeated = together.connection.repeated_produce
    assert repeated is not None
    assert len(repeated._expected._tables) == MAX_TABLES
    compare([produce(a_batch(bytes(12)))] * 2, together=together, alone=alone)
    assert even_writes.requests == 2


def test_sizes_that_only_have_the_right_sum_are_no_table(even_writes: EvenWrites) -> None:
    frames = [produce(a_batch(bytes(size))) for size in (20, 18, 22)]
    together, alone = used_to(frames)
    compare([produce(a_batch(bytes(20)))] * 3, together=together, alone=alone)
    compare(frames, together=together, alone=alone)
    assert even_writes.requests == 0
    assert together.known() == alone.known()


def test_reads_may_take_turns(even_writes: EvenWrites) -> None:
    together, alone = both()
    for turn in range(6):
        for count, partition in ((5, 0), (4, 0), (5, 1)):
            compare(five(partition=partition)[:count], together=together, alone=alone)
            if turn >= 2:
                assert even_writes.requests > 0
    assert even_writes.requests == 4 * (5 + 4 + 5)
    assert together.known() == alone.known()


def test_what_was_seen_once_is_not_prepared_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    monkeypatch.setattr(even_requests, "EvenRequests", lambda *_: made.append(1))
    together, _ = both()
    for size in range(1, 40):
        together.say([produce(a_batch(bytes(size)))] * (2 + size % 3))
    assert made == []


def test_what_the_log_does_not_take_is_prepared_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def make(known: KnownProduce, size: int, count: int) -> EvenRequests:
        made.append(count)
        return EvenRequests(known, size, count)

    monkeypatch.setattr(even_requests, "EvenRequests", make)
    together, _ = both()
    mixed = [produce(a_batch(b"123456789", b"")), produce(a_batch(b"1", b"", b""))]
    for _ in range(6):
        together.say(mixed)
    assert made == [2]


@pytest.mark.parametrize("size", [MAX_RUN_BYTES // 5, MAX_RUN_BYTES // 5 + 1000])
def test_what_is_too_large_to_be_copied_together_goes_one_by_one(even_writes: EvenWrites, size: int) -> None:
    frames = [produce(a_batch(bytes(size - 100)))] * 5
    together, alone = both()
    together.connection._splitter.max_frame_bytes = alone.connection._splitter.max_frame_bytes = 1 << 20
    for _ in range(3):
        compare(frames, together=together, alone=alone)
    assert even_writes.requests == (5 if size * 5 <= MAX_RUN_BYTES else 0)


# What is not the same


@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_request_with_any_other_byte_is_answered_as_if_it_had_come_alone(place: int) -> None:
    frames = five()
    for at in range(len(frames[place])):
        together, alone = used_to(five())
        altered = [*frames[:place], spoil(frames[place], at, 0x81), *frames[place + 1 :]]
        compare(altered, together=together, alone=alone)
        assert together.known() == alone.known(), at


@pytest.mark.parametrize("at", range(4))
def test_a_frame_of_another_size_is_noticed(at: int) -> None:
    """The sizes of frames are no part of them."""
    together, _ = used_to(five())
    data = bytearray(b"".join(len(frame).to_bytes(4, "big") + frame for frame in five()))
    data[len(five()[0]) + 4 + at] ^= 0x41
    end = together.node.partition("t").log.log_end_offset
    together.sock.incoming = bytes(data)
    together.loop.turn()
    assert together.node.partition("t").log.log_end_offset == end + 1


def test_half_a_request_is_waited_for(even_writes: EvenWrites) -> None:
    together, alone = used_to(five())
    data = b"".join(len(frame).to_bytes(4, "big") + frame for frame in five())
    before = together.node.partition("t").log.log_end_offset
    for part in (data[:7], data[7:] + data[:7], data[7:]):
        together.sock.incoming = part
        together.loop.turn()
    assert together.node.partition("t").log.log_end_offset == before + 10
    assert even_writes.requests == 0
    for _ in range(2):
        alone.say_one_by_one(five())
    assert together.known() == alone.known()


def test_as_many_bytes_may_be_other_requests(even_writes: EvenWrites) -> None:
    together, alone = used_to(five())
    compare(five(partition=1), together=together, alone=alone)
    mixed = [*five()[:3], *five(partition=1)[3:]]
    compare(mixed, together=together, alone=alone)
    assert even_writes.requests == 0
    assert together.known() == alone.known()


def test_answers_wait_for_those_of_earlier_requests(even_writes: EvenWrites) -> None:
    client, _ = used_to(five())
    assert client.say([fetch(1, 77, offset=2, max_wait_ms=500)]) == b""
    assert client.say(five()) == b""
    client.node.clock.move(500)
    (answers,) = client.sock.sent
    assert answers[4:8] == (77).to_bytes(4, "big")
    assert even_writes.requests == 0


def test_a_client_that_never_reads_is_not_served_for_ever() -> None:
    client, _ = used_to(five())
    client.sock.is_full = True
    for _ in range(10_000):
        client.say(five())
    assert client.loop.readable is None


@pytest.mark.parametrize(("where", "name"), [(EvenRequests, "numbers"), (ExpectedRequests, "learn")])
def test_a_bug_closes_the_connection(monkeypatch: pytest.MonkeyPatch, where: type, name: str) -> None:
    client, _ = used_to(five()) if where is EvenRequests else both()

    def raise_it(*_: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr(where, name, raise_it)
    with pytest.raises(AssertionError, match="a bug"):
        client.say(five())
    assert client.connection.is_closed


# Idempotent producers


def in_sequence(first: int, *, count: int = 5, **how: Any) -> list[bytes]:
    return [of_producer(first + index, number=index, **how) for index in range(count)]


def test_batches_of_an_idempotent_producer_are_written_as_a_table(even_writes: EvenWrites) -> None:
    together, alone = both()
    for first in range(0, 40, 5):
        compare(in_sequence(first), together=together, alone=alone)
    assert even_writes.requests == 5 * 5  # the first read teaches the log, two more the connection
    assert together.known() == alone.known()


@pytest.mark.parametrize(
    "sequences",
    [
        [10, 11, 12, 13, 14],  # all of them again
        [13, 14, 15, 16, 17],  # some of them again
        [16, 17, 18, 19, 20],  # one is missing
        [15, 16, 18, 19, 20],
        [15, 16, 16, 17, 18],
        [15, 17, 16, 18, 19],
        [0, 1, 2, 3, 4],
    ],
)
def test_sequences_that_do_not_go_on_are_answered_one_by_one(even_writes: EvenWrites, sequences: list[int]) -> None:
    together, alone = both()
    for first in (0, 5, 10):
        compare(in_sequence(first), together=together, alone=alone)
    compare([of_producer(sequence) for sequence in sequences], together=together, alone=alone)
    assert even_writes.requests == 0
    assert together.known() == alone.known()


def test_behind_the_last_sequence_comes_the_first(even_writes: EvenWrites) -> None:
    together, alone = both()
    for client in (together, alone):
        client.say([of_producer(MAX_SEQUENCE - 17)])
    for first in (16, 11, 6, 1):
        sequences = [(MAX_SEQUENCE - first + index) % (MAX_SEQUENCE + 1) for index in range(5)]
        compare([of_producer(sequence) for sequence in sequences], together=together, alone=alone)
    assert even_writes.requests == 5
    assert together.known() == alone.known()


def test_another_producer_and_another_epoch_are_answered_one_by_one(even_writes: EvenWrites) -> None:
    together, alone = both()
    for first in (0, 5, 10):
        compare(in_sequence(first), together=together, alone=alone)
    strangers = [
        produce(a_batch(b"p", producer=PRODUCER + (index == 3), producer_epoch=int(index == 4), sequence=15 + index))
        for index in range(5)
    ]
    compare(strangers, together=together, alone=alone)
    assert even_writes.requests == 0
    assert together.known() == alone.known()


def test_batches_with_and_without_a_producer_may_have_one_size(even_writes: EvenWrites) -> None:
    plain = [produce(a_batch(b"p"))] * 5
    together, alone = used_to(plain)
    for first in range(0, 20, 5):
        compare(in_sequence(first), together=together, alone=alone)
        compare(plain, together=together, alone=alone)
        compare([*plain[:3], *in_sequence(first + 5, count=2)], together=together, alone=alone)
    assert together.known() == alone.known()


# When the disk fails


@pytest.mark.parametrize("written_bytes", [0, 1, 100, 300])
def test_requests_of_a_write_that_has_failed_are_served_one_by_one(written_bytes: int) -> None:
    together, alone = used_to(five())
    together.fs.faults = [Fault("append", errno.EIO, ".log", written_bytes=written_bytes)]
    compare(five(), together=together, alone=alone)
    compare(five(), together=together, alone=alone)
    assert together.known() == alone.known()


# What is asked each time


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flush.messages", "1"),
        ("compression.type", "gzip"),
        ("cleanup.policy", "compact"),
        ("message.timestamp.type", "LogAppendTime"),
        ("max.message.bytes", "70"),
        ("message.timestamp.after.max.ms", "1"),
    ],
)
def test_what_the_topic_wants_is_asked_each_time(even_writes: EvenWrites, name: str, value: str) -> None:
    together, alone = used_to(five())
    for client in (together, alone):
        client.node.set_config("t", name, value)
    frames = [produce(a_batch(b"value %d" % number, timestamps=[NOW_MS + 5000])) for number in range(5)]
    answers, expected = together.say(frames), alone.say_one_by_one(frames)
    assert answers == expected
    assert even_writes.requests == 0


def test_how_many_replicas_are_in_sync_is_asked_each_time(even_writes: EvenWrites) -> None:
    together, alone = used_to(five(), min_insync_replicas="2", replicas=(1, 2))
    for client in (together, alone):
        client.node.controller.write(PartitionChangeRecord(0, client.topic_id, isr=[1]))
    compare(five(), together=together, alone=alone)
    assert even_writes.requests == 0


def test_a_new_leader_epoch_is_stamped(even_writes: EvenWrites) -> None:
    together, alone = used_to(five())
    compare(five(), together=together, alone=alone)
    assert even_writes.requests == 5
    for client in (together, alone):
        client.node.controller.write(PartitionChangeRecord(0, client.topic_id, leader=1))
    for _ in range(3):
        compare(five(), together=together, alone=alone)
    assert even_writes.requests == 5 + 2 * 5  # the first of a new epoch goes the long way
    assert together.known() == alone.known()


def test_records_that_are_deleted_are_told(even_writes: EvenWrites) -> None:
    together, alone = used_to(five())
    for _ in range(2):
        compare(five(), together=together, alone=alone)
        for client in (together, alone):
            client.node.partition("t").log.advance_log_start(client.node.partition("t").log.log_end_offset)
    assert even_writes.requests == 10


def test_with_a_quota_each_request_is_counted(even_writes: EvenWrites) -> None:
    together, _ = used_to(five())
    together.node.controller.write(ClientQuotaRecord([EntityData("client-id", "client")], "producer_byte_rate", 1e9))
    assert together.writes_for(five()) == 5
    assert even_writes.requests == 0


def test_what_goes_around_handlers_sees_each_request(even_writes: EvenWrites) -> None:
    together, _ = used_to(five())
    seen = together.node.watch_handlers()
    together.say(five())
    assert len(seen) == 5
    assert even_writes.requests == 0


# Any mixture


def _values(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


def spoil_one(frames: list[bytes], place: int) -> list[bytes]:
    index = place % len(frames)
    return [*frames[:index], spoil(frames[index], place // len(frames), 0x40), *frames[index + 1 :]]


plain_reads = st.builds(
    lambda values, later: [produce(a_batch(value, timestamps=[NOW_MS + later])) for value in values],
    st.lists(_values(3), min_size=2, max_size=4),
    st.integers(-2, 2),
)
sequences = st.integers(0, 30)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            plain_reads,
            st.builds(spoil_one, plain_reads, st.integers(0, 1000)),
            st.builds(lambda first, count: in_sequence(first, count=count), sequences, st.integers(2, 4)),
            st.integers(2, 4),  # the next ones of the producer
        ),
        min_size=5,
        max_size=25,
    ),
    st.sampled_from(
        [{}, {"segment_bytes": "1024"}, {"index_interval_bytes": "0"}, {"index_interval_bytes": "300"}],
    ),
)
def test_any_mixture_is_answered_and_written_as_if_each_request_had_come_alone(
    said: list[list[bytes] | int], configs: dict[str, str]
) -> None:
    together, alone = both(**configs)
    next_sequence = 0
    for frames in said:
        if isinstance(frames, int):
            frames = in_sequence(next_sequence, count=frames)
            next_sequence += len(frames)
        if together.connection.is_closed:
            break
        compare(frames, together=together, alone=alone)
    assert together.known() == alone.known()
