"""After a restart the log recognises retries that its snapshot has forgotten."""

import pytest

from headrace.log.append import AppendResult, Origin
from headrace.log.config import LogConfig
from headrace.log.errors import InvalidProducerEpochError, OutOfOrderSequenceError, StorageError
from headrace.log.log import Log
from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.log.names import OFFSET_INDEX
from headrace.log.producer_recall import RECALLED_BATCHES, RECALLED_BYTES
from tests.support.compaction import CompactedLog, read_all
from tests.support.log_batches import EPOCH, NOW_MS, a_batch, append, end_transaction, run_chores

CONFIG = LogConfig(index_interval_bytes=100)
DIRECTORY = "/data/t-0"
PRODUCER = 7
MEGABYTE = 1 << 20


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_dir("/data")
    return fs


@pytest.fixture
def log(fs: MemoryFileSystem) -> Log:
    return Log.open(fs, DIRECTORY, CONFIG, clean=False, now_ms=NOW_MS)


def restarted(fs: MemoryFileSystem, log: Log, how: str = "killed") -> Log:
    """Its segment is rolled and synced, so that all before it is known by its snapshot alone."""
    if how == "killed":
        log.roll(now_ms=NOW_MS)
        run_chores(log)
    else:
        log.close()
    return Log.open(fs, DIRECTORY, log.config, clean=how == "stopped", now_ms=NOW_MS, recovery_point=log.recovery_point)


def send(log: Log, sequence: int, *, producer: int = PRODUCER, count: int = 2, **details: object) -> AppendResult:
    return append(log, *[b"v"] * count, producer=producer, sequence=sequence, **details)  # type: ignore[arg-type]


def assert_stored(log: Log, sequence: int, offset: int, *, producer: int = PRODUCER, count: int = 2) -> None:
    """It is a retry, and answered with the place that it got the first time."""
    result = send(log, sequence, producer=producer, count=count)
    assert result == (offset, offset + count - 1, NOW_MS, -1, True)


def assert_out_of_order(log: Log, sequence: int, *, producer: int = PRODUCER, count: int = 2) -> None:
    with pytest.raises(OutOfOrderSequenceError):
        send(log, sequence, producer=producer, count=count)


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_the_last_five_batches_are_recognised_after_a_restart(fs: MemoryFileSystem, log: Log, how: str) -> None:
    for number in range(7):
        send(log, 2 * number)
        append(log, b"of nobody")
    log = restarted(fs, log, how)
    for number in range(2, 7):
        assert_stored(log, 2 * number, 3 * number)
    assert_out_of_order(log, 2)
    assert_out_of_order(log, 16)
    assert send(log, 14).base_offset == 21


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_only_a_batch_that_does_not_go_on_is_looked_up(fs: MemoryFileSystem, log: Log, how: str) -> None:
    for number in range(3):
        send(log, 2 * number)
    log = restarted(fs, log, how)
    append(log, b"opens the segment")
    fs.faults.append(Fault("read", path_end=".log", times=1000))
    assert_stored(log, 4, 4)
    assert send(log, 6).base_offset == 7
    with pytest.raises(StorageError, match="reading older batches of producers"):
        send(log, 0)
    fs.faults.clear()
    assert_stored(log, 0, 0)


def test_the_batches_of_several_segments_are_one_window(fs: MemoryFileSystem, log: Log) -> None:
    for number in range(5):
        send(log, 2 * number)
        log.roll(now_ms=NOW_MS)
    log = restarted(fs, log)
    assert len(log.segments) == 6
    for number in range(5):
        assert_stored(log, 2 * number, 2 * number)


def test_batches_since_the_restart_count_among_the_five(fs: MemoryFileSystem, log: Log) -> None:
    for number in range(5):
        send(log, 2 * number)
    log = restarted(fs, log)
    for number in range(5, 8):
        send(log, 2 * number)
    assert_out_of_order(log, 4)
    for number in range(3, 8):
        assert_stored(log, 2 * number, 2 * number)
    send(log, 16)
    assert_out_of_order(log, 6)
    assert_stored(log, 8, 8)


def test_five_batches_since_the_restart_leave_nothing_to_look_up(fs: MemoryFileSystem, log: Log) -> None:
    for number in range(5):
        send(log, 2 * number)
    log = restarted(fs, log)
    for number in range(5, 9):
        send(log, 2 * number)
    fs.faults.append(Fault("read", path_end=".log", times=1000))
    assert_out_of_order(log, 6)
    assert_stored(log, 8, 8)


def test_a_new_epoch_has_no_batches_of_the_old_one(fs: MemoryFileSystem, log: Log) -> None:
    send(log, 0)
    send(log, 2)
    send(log, 0, producer_epoch=1)
    send(log, 2, producer_epoch=1)
    log = restarted(fs, log)
    assert send(log, 0, producer_epoch=1).duplicate
    with pytest.raises(InvalidProducerEpochError):
        send(log, 2)
    with pytest.raises(OutOfOrderSequenceError):
        send(log, 6, producer_epoch=1)
    assert [batch[2] for batch in next(iter(log.producers)).batches] == [4, 6]


def test_a_sequence_that_happens_to_lead_into_a_new_epoch_is_still_of_the_old_one(
    fs: MemoryFileSystem, log: Log
) -> None:
    send(log, 0x7FFFFFFE)
    send(log, 0, producer_epoch=1)
    log = restarted(fs, log)
    with pytest.raises(OutOfOrderSequenceError):
        send(log, 0x7FFFFFFE, producer_epoch=1)


@pytest.mark.parametrize("has_data", [False, True])
def test_an_epoch_that_began_since_the_restart_forgets_what_was_before(
    fs: MemoryFileSystem, log: Log, has_data: bool
) -> None:
    for number in range(3):
        send(log, 2 * number)
    log = restarted(fs, log)
    if has_data:
        send(log, 0, producer_epoch=1)
    else:
        end_transaction(log, commit=True, producer=PRODUCER, producer_epoch=1)
    with pytest.raises(OutOfOrderSequenceError):
        send(log, 4, producer_epoch=1)


def test_a_transaction_that_ends_in_between_does_not_end_the_window(fs: MemoryFileSystem, log: Log) -> None:
    for number in range(3):
        send(log, 2 * number, transactional=True)
        end_transaction(log, commit=number != 1, producer=PRODUCER)
    log = restarted(fs, log)
    for number in range(3):
        assert_stored(log, 2 * number, 3 * number)


def test_a_transaction_that_raised_the_epoch_ends_the_window(fs: MemoryFileSystem, log: Log) -> None:
    send(log, 0, transactional=True)
    end_transaction(log, commit=True, producer=PRODUCER, producer_epoch=1)
    send(log, 0, transactional=True, producer_epoch=1)
    log = restarted(fs, log)
    with pytest.raises(OutOfOrderSequenceError):
        send(log, 4, transactional=True, producer_epoch=1)
    assert [batch[2] for batch in next(iter(log.producers)).batches] == [3]


def test_a_batch_that_compaction_has_removed_ends_the_window(fs: MemoryFileSystem, log: Log) -> None:
    kept = bytearray()
    for number in (0, 1, 3, 4):
        offset = 2 * number
        kept += a_batch(b"v", b"v", producer=PRODUCER, sequence=offset, base_offset=offset, leader_epoch=EPOCH)
    log.append(kept, leader_epoch=EPOCH, now_ms=NOW_MS, origin=Origin.REPLICATION)
    log = restarted(fs, log)
    assert_stored(log, 6, 6)
    assert_out_of_order(log, 4)
    assert_out_of_order(log, 2)
    assert_out_of_order(log, 0)


def test_batches_of_a_segment_that_retention_has_removed_are_gone(fs: MemoryFileSystem, log: Log) -> None:
    send(log, 0)
    log.roll(now_ms=NOW_MS)
    send(log, 2)
    send(log, 4)
    log.roll(now_ms=NOW_MS)
    run_chores(log)
    log.raise_high_watermark(log.log_end_offset)
    log.delete_segments([log.segments[0]])
    log = restarted(fs, log)
    assert_out_of_order(log, 0)
    assert_stored(log, 2, 2)


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_batches_that_retention_removes_after_the_restart_are_still_recognised(
    fs: MemoryFileSystem, log: Log, how: str
) -> None:
    for number in range(4):
        send(log, 2 * number)
        log.roll(now_ms=NOW_MS)
    log = restarted(fs, log, how)
    log.raise_high_watermark(log.log_end_offset)
    log.delete_segments(log.segments.sealed)
    assert len(log.segments) == 1
    for number in range(4):
        assert_stored(log, 2 * number, 2 * number)


@pytest.mark.parametrize("is_clean", [False, True])
def test_batches_that_compaction_removes_after_the_restart_are_still_recognised(is_clean: bool) -> None:
    story = CompactedLog()
    for value in (b"1", b"2", b"3"):
        story.append((b"a", value), producer=PRODUCER)
    story.roll()
    story.run_chores()
    story.reopen(clean=is_clean)
    assert story.clean() is not None
    assert [record.offset for record in read_all(story.log)] == [2]
    assert append(story.log, b"1", producer=PRODUCER, sequence=0).duplicate


def test_segments_that_are_far_from_the_end_are_removed_without_a_look(fs: MemoryFileSystem, log: Log) -> None:
    send(log, 0)
    log.roll(now_ms=NOW_MS)
    for _ in range(RECALLED_BYTES // 900_000 + 1):
        append(log, b"x" * 900_000)
    send(log, 2)
    log = restarted(fs, log)
    log.raise_high_watermark(log.log_end_offset)
    fault = Fault("read", path_end=".log", times=1000)
    fs.faults.append(fault)
    log.delete_segments([log.segments[0]])
    assert fault.times == 1000, "something was read"
    fs.faults.clear()
    assert_out_of_order(log, 0)


def test_segments_go_though_they_cannot_be_read(fs: MemoryFileSystem, log: Log) -> None:
    send(log, 0)
    send(log, 2)
    log = restarted(fs, log)
    log.raise_high_watermark(log.log_end_offset)
    fault = Fault("read", path_end=".log")
    fs.faults.append(fault)
    log.delete_segments(log.segments.sealed)
    assert not fault.times, "nothing was read"
    assert log.failure is None
    assert_out_of_order(log, 0)


def test_what_a_truncation_has_removed_is_no_retry(fs: MemoryFileSystem, log: Log) -> None:
    for number in range(4):
        send(log, 2 * number)
        log.roll(now_ms=NOW_MS)
    log = restarted(fs, log)
    log.truncate_to(6)
    assert_stored(log, 0, 0)
    assert send(log, 6).base_offset == 6
    assert_stored(log, 2, 2)


def test_a_coordinators_batches_have_no_sequence_and_no_window(fs: MemoryFileSystem, log: Log) -> None:
    without = a_batch(b"v", producer=PRODUCER, sequence=-1)
    log.append(without, leader_epoch=EPOCH, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    log = restarted(fs, log)
    assert_out_of_order(log, 2)
    send(log, 0)
    log = restarted(fs, log)
    assert_out_of_order(log, 4)
    assert [batch[2] for batch in next(iter(log.producers)).batches] == [1]


def test_sequences_lead_on_over_their_largest_value(fs: MemoryFileSystem, log: Log) -> None:
    send(log, 0x7FFFFFFD)
    send(log, 0x7FFFFFFF)
    send(log, 1)
    log = restarted(fs, log)
    assert_stored(log, 0x7FFFFFFD, 0)
    assert_stored(log, 0x7FFFFFFF, 2)


def test_all_producers_are_served_by_one_walk(fs: MemoryFileSystem, log: Log) -> None:
    for number in range(3):
        send(log, 2 * number)
        send(log, 2 * number, producer=8)
    log = restarted(fs, log)
    assert_stored(log, 0, 0)
    fs.faults.append(Fault("read", path_end=".log", times=1000))
    assert_stored(log, 0, 2, producer=8)
    assert_out_of_order(log, 8, producer=8)


def test_another_producer_goes_on_where_the_first_walk_has_ended(fs: MemoryFileSystem, log: Log) -> None:
    send(log, 0, producer=8)
    send(log, 2, producer=8)
    append(log, b"x" * 900_000)
    for number in range(5):
        send(log, 2 * number)
    offset = log.log_end_offset
    log = restarted(fs, log)
    assert_stored(log, 0, offset - 10)
    older = log.producers.get(8)
    assert older is not None
    assert older.is_cut_short, "the first walk had no need to go so far"
    assert_stored(log, 0, 0, producer=8)


def test_an_index_that_lies_is_made_anew(fs: MemoryFileSystem, log: Log) -> None:
    send(log, 0)
    for _ in range(3):
        append(log, b"x" * 200_000)
    send(log, 2)
    log = restarted(fs, log)
    path = log.segments[0].path(OFFSET_INDEX)
    content = bytearray(fs.read_bytes(path))
    for at in range(0, len(content), 8):
        content[at + 7] ^= 1
    file = fs.open(path)
    file.truncate(0)
    file.append(content)
    assert_stored(log, 0, 0)


def test_a_file_that_is_damaged_ends_the_window(fs: MemoryFileSystem, log: Log) -> None:
    for number in range(3):
        send(log, 2 * number)
    log = restarted(fs, log)
    file = fs.open(log.segments[0].path(".log"))
    content = bytearray(file.read(0, file.size))
    content[16] = 9  # the magic of the first batch
    file.truncate(0)
    file.append(content)
    assert_out_of_order(log, 0)
    assert_stored(log, 4, 4)


@pytest.mark.parametrize("is_near", [True, False])
def test_no_more_bytes_are_read_than_the_bound_says(fs: MemoryFileSystem, log: Log, is_near: bool) -> None:
    log.update_config(LogConfig(max_message_bytes=2 * MEGABYTE))
    send(log, 0)
    for _ in range(RECALLED_BYTES // MEGABYTE - (1 if is_near else 0)):
        append(log, b"x" * MEGABYTE)
    send(log, 2)
    log = restarted(fs, log)
    if is_near:
        assert_stored(log, 0, 0)
    else:
        assert_out_of_order(log, 0)


def test_no_more_batches_are_read_than_the_bound_says(fs: MemoryFileSystem, log: Log) -> None:
    log.update_config(LogConfig())
    send(log, 0)
    batch = a_batch(b"small")
    for _ in range(RECALLED_BATCHES + 5000):
        log.append(batch, leader_epoch=EPOCH, now_ms=NOW_MS)
    send(log, 2)
    log = restarted(fs, log)
    assert_out_of_order(log, 0)
