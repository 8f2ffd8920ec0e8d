"""Batches that are written together: the log is as if they had come one by one, whatever happens."""

import errno

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.log.append import AppendResult
from headrace.log.config import LogConfig
from headrace.log.errors import StorageError
from headrace.log.log import Log
from headrace.log.memory_fs import Fault
from headrace.log.run_append import MAX_RUN_BYTES, append_run
from headrace.protocol.batch import unpack_header
from headrace.protocol.compression import Codec
from tests.support.log_batches import EPOCH, NOW_MS, append, end_transaction, values_of
from tests.support.one_log import CONFIG, DIRECTORY, NOT_PLAIN, PRODUCER, OneLog, of_producer, offers, plain


def test_plain_batches_are_written_by_one_system_call() -> None:
    one = OneLog()
    steps = one.fs.steps
    assert one.run(plain(b"a"), plain(b"b", b"c"), plain(b"d", codec=Codec.GZIP)) == [2, 3, 5]
    assert one.fs.steps == steps + 1
    assert values_of(one.log)[2:] == [b"a", b"b", b"c", b"d"]
    assert one.log.log_end_offset == 6


def test_batches_of_a_producer_are_written_together_if_they_continue_its_sequence() -> None:
    one = OneLog()
    assert one.run(of_producer(2, b"a", b"b"), of_producer(4), of_producer(5)) == [2, 4, 5]
    result = one.append_alone(of_producer(4))
    assert isinstance(result, AppendResult)
    assert (result.base_offset, result.duplicate) == (4, True)
    assert one.run(of_producer(6)) == [6]


def test_the_largest_timestamp_may_be_that_of_any_batch_of_a_run() -> None:
    one = OneLog(LogConfig())
    times = [NOW_MS, NOW_MS + 9, NOW_MS]
    assert one.run(*(plain(b"v", timestamps=[time]) for time in times)) == [2, 3, 4]
    assert (one.log.active.max_timestamp, one.log.active.max_timestamp_offset) == (NOW_MS + 9, 3)


def test_the_sequence_after_the_last_one_is_zero() -> None:
    one = OneLog()
    last = 0x7FFFFFFF
    append(one.log, b"x", producer=8, sequence=last - 3)
    offered = [plain(b"x", producer=8, sequence=sequence) for sequence in (last - 2, last - 1, last, 0, 1)]
    assert one.run(*offered) == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("kind", NOT_PLAIN)
def test_a_run_ends_before_a_batch_that_is_not_plain(kind: str) -> None:
    one = OneLog()
    assert one.run(plain(b"a"), plain(b"b"), bytearray(NOT_PLAIN[kind]), plain(b"c")) == [2, 3]
    assert values_of(one.log)[2:] == [b"a", b"b"]
    assert one.run(bytearray(NOT_PLAIN[kind])) == [] or kind == "of a producer"


@pytest.mark.parametrize(
    "batch",
    [
        of_producer(1),
        of_producer(2),
        of_producer(4),
        of_producer(3, producer_epoch=1),
        plain(producer=8, sequence=3),
        plain(),
        of_producer(3, transactional=True),
    ],
)
def test_a_run_of_a_producer_ends_before_what_does_not_continue_its_sequence(batch: bytearray) -> None:
    assert OneLog().run(of_producer(2), batch) == [2]


@pytest.mark.parametrize(
    "batch",
    [
        plain(producer=8, sequence=0),
        of_producer(0, producer_epoch=1),
        of_producer(2, producer_epoch=-1),
        plain(producer=-2, sequence=0),
    ],
)
def test_a_producer_that_the_log_does_not_know_begins_no_run(batch: bytearray) -> None:
    assert OneLog().run(batch, bytearray(batch)) == []


def test_a_producer_without_an_epoch_begins_no_run() -> None:
    one = OneLog()
    one.log.producers.apply(unpack_header(plain(producer=9, producer_epoch=-1)), 0, NOW_MS)  # as a snapshot may say it
    batch = plain(producer=9, producer_epoch=-1, sequence=1)
    assert one.run(batch, bytearray(batch)) == []


def test_while_a_transaction_is_open_its_producer_begins_no_run() -> None:
    one = OneLog()
    append(one.log, producer=PRODUCER, sequence=2, transactional=True)
    assert one.run(of_producer(3), of_producer(4)) == []
    assert one.run(plain(), plain()) == [3, 4]
    end_transaction(one.log, commit=True, producer=PRODUCER)
    assert one.run(of_producer(3), of_producer(4)) == [6, 7]


def test_another_leader_begins_no_run_before_its_epoch_is_known() -> None:
    one = OneLog()
    assert append_run(one.log, [memoryview(plain())] * 2, EPOCH + 1) == []
    append(one.log, epoch=EPOCH + 1)
    assert len(append_run(one.log, [memoryview(plain()), memoryview(plain())], EPOCH + 1)) == 2
    assert one.run(plain()) == []


@pytest.mark.parametrize(
    "config", [LogConfig(cleanup_policy=frozenset({"compact"})), LogConfig(message_timestamp_before_max_ms=1000)]
)
def test_where_records_are_looked_at_there_are_no_runs(config: LogConfig) -> None:
    assert OneLog(config).run(plain(), plain()) == []


def test_a_run_has_a_size_and_no_more() -> None:
    one = OneLog(LogConfig())
    batch = plain(bytes(40_000))
    count = MAX_RUN_BYTES // len(batch)
    assert len(one.run(*[bytearray(batch) for _ in range(count + 2)])) == count


def test_a_run_ends_with_the_segment() -> None:
    one = OneLog()
    batch = plain(b"x" * 100)
    fitting = (CONFIG.segment_bytes - one.log.active.size) // len(batch)
    assert len(one.run(*[bytearray(batch) for _ in range(fitting + 5)])) <= fitting
    assert len(one.log.segments) == 1


# The same as one by one


@settings(max_examples=150, deadline=None)
@given(offers)
@example([[plain(timestamps=[NOW_MS + index]) for index in range(30)]])
def test_the_log_is_as_if_each_batch_had_come_alone(offered: list[list[bytearray]]) -> None:
    together, alone = OneLog(), OneLog()
    for offer in offered:
        expected = [alone.append_alone(bytearray(batch)) for batch in offer]
        assert together.append_together([bytearray(batch) for batch in offer]) == expected
    assert together.known() == alone.known()


@settings(max_examples=100, deadline=None)
@given(offers, st.integers(0, 1500))
def test_a_full_disk_takes_as_much_as_if_each_batch_had_come_alone(offered: list[list[bytearray]], free: int) -> None:
    config = LogConfig(index_interval_bytes=150)
    together, alone = OneLog(config), OneLog(config)
    for one in (together, alone):
        one.fs.capacity_bytes = one.fs.used_bytes() + free
    for offer in offered:
        expected = [alone.append_alone(bytearray(batch)) for batch in offer]
        assert together.append_together([bytearray(batch) for batch in offer]) == expected
    for one in (together, alone):
        one.fs.capacity_bytes = None
    assert together.known() == alone.known()


# When the disk fails


@pytest.mark.parametrize("producer", [False, True])
@pytest.mark.parametrize("written_bytes", [0, 1, 61, 70, 100, 150, 190])
def test_a_run_that_fails_leaves_nothing_behind_and_can_be_tried_again(written_bytes: int, *, producer: bool) -> None:
    one, other = OneLog(), OneLog()
    run = [of_producer(2 + index) if producer else plain() for index in range(3)]
    size = one.log.active.size
    one.fs.faults = [Fault("append", errno.ENOSPC, ".log", written_bytes=written_bytes)]
    with pytest.raises(StorageError, match=r"No space left on device.*Nothing of it was kept"):
        one.run(*run)
    assert one.fs.size_of(one.log.active.path(".log")) == one.log.active.size == size
    assert (one.log.log_end_offset, one.log.failure) == (2, None)
    assert one.run(*run) == other.run(*run) == [2, 3, 4]
    assert one.known() == other.known()


@pytest.mark.parametrize("written_bytes", [1, 61, 70, 100, 150, 190])
def test_a_short_write_is_finished(written_bytes: int) -> None:
    one, other = OneLog(), OneLog()
    one.fs.faults = [Fault("append", error=0, path_end=".log", written_bytes=written_bytes)]
    assert one.run(plain(b"a"), plain(b"b"), plain(b"c")) == other.run(plain(b"a"), plain(b"b"), plain(b"c"))
    assert one.known() == other.known()


@pytest.mark.parametrize("written_bytes", [1, 61, 70, 100, 150, 190])
def test_a_short_write_that_cannot_be_finished_is_cut_off(written_bytes: int) -> None:
    one, other = OneLog(), OneLog()
    one.fs.faults = [
        Fault("append", error=0, path_end=".log", written_bytes=written_bytes),
        Fault("append", errno.ENOSPC, ".log", written_bytes=10),
    ]
    with pytest.raises(StorageError, match="No space left"):
        one.run(plain(b"a"), plain(b"b"), plain(b"c"))
    assert one.known() == other.known()


def test_a_part_that_cannot_be_cut_off_ends_all_writing_but_no_reading() -> None:
    one = OneLog()
    one.fs.faults = [Fault("append", path_end=".log", written_bytes=100), Fault("truncate", path_end=".log")]
    with pytest.raises(StorageError, match=r"takes no more writes: an append failed .* could not be cut off"):
        one.run(plain(b"a"), plain(b"b"))
    assert one.run(plain(), plain()) == []
    with pytest.raises(StorageError, match="Check the disk, then restart the broker"):
        append(one.log)
    assert values_of(one.log) == [b"before"] * 2
    again = Log.open(one.fs, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS)
    assert values_of(again)[:2] == [b"before"] * 2
