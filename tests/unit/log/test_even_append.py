"""Batches of one size that are written as a table: the log is as if they had come one by one, whatever happens."""

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.append import AppendResult
from headrace.log.config import LogConfig
from headrace.log.errors import StorageError
from headrace.log.memory_fs import Fault
from headrace.protocol.compression import Codec
from tests.support.log_batches import EPOCH, NOW_MS, append, end_transaction, values_of
from tests.support.one_log import (
    ATTRIBUTES_AT,
    CONFIG,
    COUNT_AT,
    DELTA_AT,
    NOT_PLAIN,
    PRODUCER,
    OneLog,
    changed,
    int32,
    of_producer,
    plain,
)

HEADER_BYTES = 61
LARGE_ENOUGH = {kind: batch for kind, batch in NOT_PLAIN.items() if len(batch) >= HEADER_BYTES}


def test_batches_of_one_size_are_written_by_one_system_call() -> None:
    one = OneLog()
    steps = one.fs.steps
    assert one.even(plain(b"a", b"1"), plain(b"b", b"2"), plain(b"c", b"3")) == [2, 4, 6]
    assert one.fs.steps == steps + 1
    assert values_of(one.log)[2:] == [b"a", b"1", b"b", b"2", b"c", b"3"]
    assert one.log.log_end_offset == 8


def test_batches_of_a_producer_are_written_together_if_they_continue_its_sequence() -> None:
    one = OneLog()
    assert one.even(of_producer(2, b"a", b"b"), of_producer(4, b"c", b"d")) == [2, 4]
    result = one.append_alone(of_producer(4, b"c", b"d"))
    assert isinstance(result, AppendResult)
    assert (result.base_offset, result.duplicate) == (4, True)
    assert one.even(of_producer(6), of_producer(7)) == [6, 7]


@pytest.mark.parametrize("times", [[0, 9, 0], [9, 0, 0], [0, 0, 9], [9, 9, 0], [0, 9, 9]])
def test_the_largest_timestamp_may_be_that_of_any_batch(times: list[int]) -> None:
    one, other = OneLog(LogConfig()), OneLog(LogConfig())
    batches = [plain(b"v", timestamps=[NOW_MS + time]) for time in times]
    assert one.even(*batches) == [2, 3, 4]
    for batch in batches:
        other.append_alone(batch)
    active = one.log.active
    assert (active.max_timestamp, active.max_timestamp_offset) == (NOW_MS + 9, 2 + times.index(9))
    assert one.known() == other.known()


# What is not plain, alone among others and all of them


@pytest.mark.parametrize("kind", LARGE_ENOUGH)
def test_a_batch_that_is_not_plain_is_not_taken_nor_those_around_it(kind: str) -> None:
    batch = LARGE_ENOUGH[kind]
    alike = next(each for size in range(len(batch)) if len(each := plain(bytes(size))) == len(batch))
    for others in ([alike, batch, alike], [batch, alike, alike], [alike, alike, batch], [batch] * 3):
        one = OneLog()
        assert one.even(*[bytearray(each) for each in others]) == []
        assert one.log.log_end_offset == 2


ATTRIBUTES = [bytes([0, codec.value]) for codec in Codec]


@pytest.mark.parametrize("attributes", ATTRIBUTES)
def test_all_codecs_are_plain_but_those_of_others(attributes: bytes) -> None:
    def batch(attributes: bytes) -> bytearray:
        return changed((ATTRIBUTES_AT, attributes))

    assert OneLog().even(batch(attributes), batch(attributes)) == [2, 3]
    for other in ATTRIBUTES:
        if other != attributes:
            assert OneLog().even(batch(attributes), batch(attributes), batch(other)) == []


def test_each_batch_has_as_many_records_as_it_says() -> None:
    two = changed((DELTA_AT, int32(1)), (COUNT_AT, int32(2)))
    assert OneLog().even(two, two) == [2, 4]
    assert OneLog().even(two, changed((DELTA_AT, int32(0)), (COUNT_AT, int32(2)))) == []
    assert OneLog().even(two, changed((DELTA_AT, int32(1)), (COUNT_AT, int32(1)))) == []


def test_what_was_expected_is_looked_at_again() -> None:
    """Batches that are like one another and not like the last ones may be plain, and need not be."""
    one = OneLog()
    two, gap = changed((DELTA_AT, int32(1)), (COUNT_AT, int32(2))), changed((DELTA_AT, int32(1)))
    assert one.even(changed(), changed()) == [2, 3]
    assert one.even(two, two) == [4, 6]
    assert one.even(gap, gap) == []
    assert one.even(gap, gap) == []
    assert one.even(changed(), changed()) == [8, 9]
    epochless = changed((12, int32(44)))
    assert one.even(epochless, epochless) == [10, 11]


# Producers


@pytest.mark.parametrize(
    "offered",
    [
        [of_producer(1), of_producer(2)],
        [of_producer(0), of_producer(1)],
        [of_producer(2), of_producer(2)],
        [of_producer(3), of_producer(4)],
        [of_producer(2), of_producer(4)],
        [of_producer(2, producer_epoch=1), of_producer(3, producer_epoch=1)],
        [of_producer(2), of_producer(3, producer_epoch=1)],
        [of_producer(2), plain(producer=8, sequence=3)],
        [of_producer(2), plain()],
        [plain(), of_producer(2)],
        [plain(producer=8, sequence=0), plain(producer=8, sequence=1)],
        [plain(producer=-2, sequence=0), plain(producer=-2, sequence=0)],
        [of_producer(2, producer_epoch=-1), of_producer(3, producer_epoch=-1)],
        [of_producer(2, transactional=True), of_producer(3, transactional=True)],
    ],
)
def test_what_does_not_continue_the_sequence_of_a_producer_is_not_taken(offered: list[bytearray]) -> None:
    one = OneLog()
    assert one.even(*offered) == []
    assert one.even(of_producer(2), of_producer(3)) == [2, 3]
    assert one.even(*offered) == []


def test_the_last_sequence_is_for_those_who_count_one_by_one() -> None:
    one = OneLog()
    last = 0x7FFFFFFF
    append(one.log, b"x", producer=8, sequence=last - 6)

    def offer(*sequences: int) -> list[bytearray]:
        return [plain(b"x", producer=8, sequence=sequence) for sequence in sequences]

    assert one.even(*offer(last - 5, last - 4)) == [3, 4]
    assert one.even(*offer(last - 3, last - 2, last - 1, last)) == []
    assert one.even(*offer(last - 3, last - 2)) == [5, 6]
    assert one.run(*offer(last - 1, last, 0)) == [7, 8, 9]
    assert one.even(*offer(1, 2)) == [10, 11]


def test_while_a_transaction_is_open_its_producer_is_not_taken() -> None:
    one = OneLog()
    append(one.log, producer=PRODUCER, sequence=2, transactional=True)
    assert one.even(of_producer(3), of_producer(4)) == []
    assert one.even(plain(), plain()) == [3, 4]
    end_transaction(one.log, commit=True, producer=PRODUCER)
    assert one.even(of_producer(3), of_producer(4)) == [6, 7]


# Where


def test_another_leader_takes_nothing_before_its_epoch_is_known() -> None:
    one, other = OneLog(), OneLog()
    for log in (one, other):
        log.even(plain(), plain())
    assert one.even(plain(), plain(), epoch=EPOCH + 1) == []
    for log in (one, other):
        append(log.log, epoch=EPOCH + 1)
    assert one.even(plain(), plain(), epoch=EPOCH + 1) == [5, 6]
    assert one.even(plain(), plain()) == []
    for _ in range(2):
        other.log.append(plain(), leader_epoch=EPOCH + 1, now_ms=NOW_MS)
    assert one.known() == other.known()


@pytest.mark.parametrize(
    "config", [LogConfig(cleanup_policy=frozenset({"compact"})), LogConfig(message_timestamp_before_max_ms=1000)]
)
def test_where_records_are_looked_at_nothing_is_taken(config: LogConfig) -> None:
    assert OneLog(config).even(plain(), plain()) == []


def test_all_go_into_one_segment_or_none() -> None:
    one = OneLog()
    batch = plain(b"x" * 100)
    fitting = (CONFIG.segment_bytes - one.log.active.size) // len(batch)
    assert one.even(*[bytearray(batch) for _ in range(fitting + 1)]) == []
    while one.even(bytearray(batch), bytearray(batch)):
        assert one.log.active.size <= CONFIG.segment_bytes
    assert len(one.log.segments) == 1


# The same as one by one


def _batch(value: int, time: int, sequence: int, count: int) -> bytearray:
    """Of one size for each count, whatever else is in it."""
    values, times = [b"%d" % value] * count, [NOW_MS + time] * count
    if sequence < 0:
        return plain(*values, timestamps=times)
    return plain(*values, timestamps=times, producer=PRODUCER, sequence=sequence)


times = st.sampled_from([0, 0, 0, 1, -1, 5, 400, 900, 1100])
plain_offers = st.integers(1, 3).flatmap(
    lambda count: st.lists(
        st.builds(_batch, st.integers(0, 9), times, st.just(-1), st.just(count)), min_size=2, max_size=5
    )
)
any_offers = st.lists(
    st.builds(_batch, st.integers(0, 9), times, st.integers(-1, 9), st.just(1)), min_size=2, max_size=3
)
next_ones = st.tuples(st.integers(2, 5), st.integers(1, 3))  # of the producer: batches, and records of each


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(plain_offers, any_offers, next_ones), min_size=2, max_size=15),
    st.sampled_from([CONFIG, LogConfig(index_interval_bytes=0), LogConfig(index_interval_bytes=250)]),
)
def test_the_log_is_as_if_each_batch_had_come_alone(
    offered: list[list[bytearray] | tuple[int, int]], config: LogConfig
) -> None:
    together, alone = OneLog(config), OneLog(config)
    for offer in offered:
        if isinstance(offer, tuple):
            count, records = offer
            state = alone.log.producers.get(PRODUCER)
            assert state is not None
            offer = [_batch(1, 0, state.next_sequence + index * records, records) for index in range(count)]
        expected = [alone.append_alone(bytearray(batch)) for batch in offer]
        base_offsets = together.even(*[bytearray(batch) for batch in offer])
        if base_offsets:
            assert base_offsets == [result.base_offset for result in expected if isinstance(result, AppendResult)]
        else:
            assert [together.append_alone(bytearray(batch)) for batch in offer] == expected
    assert together.known() == alone.known()


# When the disk fails


@pytest.mark.parametrize("producer", [False, True])
@pytest.mark.parametrize("written_bytes", [0, 1, 61, 70, 100, 150, 190])
def test_a_write_that_fails_leaves_nothing_behind_and_can_be_tried_again(written_bytes: int, *, producer: bool) -> None:
    one, other = OneLog(), OneLog()
    batches = [of_producer(2 + index) if producer else plain() for index in range(3)]
    one.fs.faults = [Fault("append", errno.ENOSPC, ".log", written_bytes=written_bytes)]
    with pytest.raises(StorageError, match=r"No space left on device.*Nothing of it was kept"):
        one.even(*batches)
    assert (one.log.log_end_offset, one.log.failure) == (2, None)
    assert one.even(*batches) == other.even(*batches) == [2, 3, 4]
    assert one.known() == other.known()
