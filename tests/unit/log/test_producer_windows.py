"""After a restart the log recognises retries of the last five batches of a producer."""

import pytest

from headrace.log.append import AppendResult, Origin
from headrace.log.config import LogConfig
from headrace.log.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from headrace.log.log import Log
from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.log.producers import ProducerStates
from headrace.log.snapshots import SnapshotEntry, pack_snapshot, unpack_snapshot
from tests.support.compaction import CompactedLog, read_all
from tests.support.log_batches import EPOCH, NOW_MS, a_batch, append, end_transaction, run_chores

CONFIG = LogConfig(index_interval_bytes=100)
DIRECTORY = "/data/t-0"
PRODUCER = 7


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


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_nothing_of_the_log_is_read_for_it(fs: MemoryFileSystem, log: Log, how: str) -> None:
    for number in range(3):
        send(log, 2 * number)
        send(log, 2 * number, producer=8)
    log = restarted(fs, log, how)
    append(log, b"opens the segment")
    fs.faults.append(Fault("read", path_end=".log", times=1000))
    for number in range(3):
        assert_stored(log, 2 * number, 4 * number)
        assert_stored(log, 2 * number, 4 * number + 2, producer=8)
    assert_out_of_order(log, 8)


@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("rolls_again", [False, True])
def test_batches_that_retention_removed_before_the_restart_are_recognised(
    fs: MemoryFileSystem, log: Log, how: str, rolls_again: bool
) -> None:
    for number in range(3):
        send(log, 2 * number)
        log.roll(now_ms=NOW_MS)
    run_chores(log)
    log.raise_high_watermark(log.log_end_offset)
    log.delete_segments(log.segments.sealed)
    if rolls_again:
        send(log, 6)
    log = restarted(fs, log, how)
    for number in range(4 if rolls_again else 3):
        assert_stored(log, 2 * number, 2 * number)


def test_of_a_snapshot_as_kafka_writes_it_the_last_batch_is_known(fs: MemoryFileSystem, log: Log) -> None:
    for number in range(3):
        send(log, 2 * number)
        send(log, 2 * number, producer=8)
    log.close()
    path = log.producer_history.path(log.log_end_offset)
    last_ones = {entry.producer_id: entry for entry in unpack_snapshot(fs.read_bytes(path))}
    fs.write_atomically(path, pack_snapshot(last_ones.values()))
    log = Log.open(fs, DIRECTORY, log.config, clean=True, now_ms=NOW_MS)
    assert_stored(log, 4, 8)
    assert_stored(log, 4, 10, producer=8)
    assert_out_of_order(log, 2)
    assert send(log, 6).base_offset == 12


LAST = SnapshotEntry(PRODUCER, 3, 9, 49, 1, NOW_MS, 0, 30)


@pytest.mark.parametrize(
    ("before", "count"),
    [
        (LAST._replace(last_sequence=7, last_offset=40), 2),
        (LAST._replace(last_sequence=6, last_offset=40), 1),
        (LAST._replace(last_sequence=9), 1),
        (LAST._replace(last_sequence=7, last_offset=40, producer_epoch=2), 1),
        (LAST._replace(last_sequence=7, last_offset=40, producer_id=8), 1),
        (LAST._replace(last_sequence=-1, last_offset=-1, offset_delta=0), 1),
    ],
    ids=["leads on", "leaves a gap", "is the same", "older epoch", "other producer", "no batch"],
)
def test_a_batch_belongs_to_the_window_if_it_leads_to_the_one_behind_it(before: SnapshotEntry, count: int) -> None:
    states = ProducerStates.from_snapshot(pack_snapshot([before, LAST]))
    state = states.get(PRODUCER)
    assert state is not None
    assert (len(state.batches), state.next_sequence, state.epoch) == (count, 10, 3)
    assert states.ongoing[30] == PRODUCER


def test_an_open_transaction_is_told_once(log: Log) -> None:
    for number in range(3):
        send(log, 2 * number, transactional=True)
    entries = unpack_snapshot(log.producers.to_snapshot())
    assert [entry.transaction_first_offset for entry in entries] == [-1, -1, 0]
    assert [entry.last_offset for entry in entries] == [1, 3, 5]
