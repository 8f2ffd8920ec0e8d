"""Transactions: where readers of committed data stop, and what they must skip."""

import pytest

from headrace.log.aborted import AbortedTxn
from headrace.log.config import LogConfig
from headrace.log.log import Log
from headrace.log.memory_fs import Fault, MemoryFileSystem
from headrace.log.names import ABORTED_INDEX
from tests.support.log_batches import NOW_MS, append, end_transaction, run_chores

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=100)


@pytest.fixture
def log(fs: MemoryFileSystem) -> Log:
    return open_log(fs)


def open_log(fs: MemoryFileSystem, *, clean: bool = False, high_watermark: int = 0) -> Log:
    return Log.open(fs, "/data/t-0", CONFIG, clean=clean, now_ms=NOW_MS, high_watermark=high_watermark)


def test_without_transactions_the_last_stable_offset_is_the_high_watermark(log: Log) -> None:
    append(log)
    append(log)
    assert (log.last_stable_offset, log.first_unstable_offset) == (0, None)
    log.raise_high_watermark(1)
    assert log.last_stable_offset == 1


@pytest.mark.parametrize("is_reopened", [False, True])
def test_who_first_asks_for_it_reads_nothing_of_what_was_appended(fs: MemoryFileSystem, is_reopened: bool) -> None:
    log = open_log(fs, clean=True)
    if is_reopened:
        append(log)
        log.close()
        log = open_log(fs, clean=True)
    append(log)
    append(log)
    log.raise_high_watermark(log.log_end_offset)
    fs.faults.append(Fault("read", path_end=".log", times=1000))
    assert log.last_stable_offset == log.log_end_offset


def test_a_snapshot_that_cannot_be_read_keeps_nobody_from_appending(fs: MemoryFileSystem) -> None:
    log = open_log(fs)
    append(log, producer=7)
    log.close()
    log = open_log(fs, clean=True)
    fs.faults.append(Fault("read", path_end=".snapshot"))
    append(log)
    assert log.log_end_offset == 2
    assert [state.producer_id for state in log.producers] == [7]


def test_an_open_transaction_holds_readers_back(log: Log) -> None:
    append(log)
    append(log, producer=7, transactional=True)
    append(log)
    log.raise_high_watermark(3)
    assert (log.first_unstable_offset, log.last_stable_offset) == (1, 1)


def test_the_earliest_of_several_open_transactions_counts(log: Log) -> None:
    append(log, producer=7, transactional=True)
    append(log, producer=8, transactional=True)
    log.raise_high_watermark(2)
    end_transaction(log, commit=True, producer=8)
    log.raise_high_watermark(3)
    assert log.last_stable_offset == 0
    end_transaction(log, commit=True, producer=7)
    log.raise_high_watermark(4)
    assert log.last_stable_offset == 4


def test_an_ended_transaction_holds_readers_back_until_its_marker_is_replicated(log: Log) -> None:
    append(log, producer=7, transactional=True)
    log.raise_high_watermark(1)
    end_transaction(log, commit=True, producer=7)
    assert (log.first_unstable_offset, log.last_stable_offset) == (0, 0)
    log.raise_high_watermark(2)
    assert (log.first_unstable_offset, log.last_stable_offset) == (None, 2)


def test_the_high_watermark_stays_within_the_log_and_never_goes_back(log: Log) -> None:
    append(log)
    log.raise_high_watermark(99)
    assert log.high_watermark == 1
    append(log)
    log.raise_high_watermark(0)
    assert log.high_watermark == 1


def test_a_log_start_inside_a_transaction_is_the_first_unstable_offset(log: Log) -> None:
    append(log, producer=7, transactional=True)
    append(log)
    log.raise_high_watermark(2)
    log.advance_log_start(1)
    assert (log.first_unstable_offset, log.last_stable_offset) == (1, 1)


def abort(log: Log, producer: int, *, before: int = 1) -> AbortedTxn:
    """A transaction with plain batches inside; as the index should tell it."""
    state = log.producers.get(producer)
    first = append(log, producer=producer, sequence=state.next_sequence if state else 0, transactional=True)
    for _ in range(before):
        append(log)
    marker = end_transaction(log, commit=False, producer=producer)
    return AbortedTxn(producer, first.base_offset, marker.last_offset, marker.last_offset + 1)


def test_aborted_transactions_are_told_to_readers_whose_range_they_touch(log: Log) -> None:
    transactions = [abort(log, 7, before=size) for size in (1, 4, 2, 0)]
    assert len(log.segments) > 2, "they are spread over segments"
    end = log.log_end_offset
    assert log.aborted_transactions(0, end) == transactions
    for transaction in transactions:
        assert log.aborted_transactions(transaction.first_offset, transaction.first_offset + 1) == [transaction]
        assert log.aborted_transactions(transaction.last_offset, end)[0] == transaction
        assert transaction not in log.aborted_transactions(transaction.last_offset + 1, end)
        assert transaction not in log.aborted_transactions(0, transaction.first_offset)


def test_what_is_aborted_after_somebody_has_looked_is_told(log: Log) -> None:
    append(log)
    assert log.aborted_transactions(0, log.log_end_offset) == []
    transaction = abort(log, 7, before=0)
    assert len(log.segments) == 1
    assert log.aborted_transactions(0, log.log_end_offset) == [transaction]


def test_segments_in_which_nothing_was_aborted_are_looked_at_once(fs: MemoryFileSystem, log: Log) -> None:
    for _ in range(20):
        append(log)
    log.close()
    again = open_log(fs, clean=True)
    assert len(again.segments) > 4
    assert again.aborted_transactions(0, 1) == []
    fs.faults.append(Fault("read", path_end=ABORTED_INDEX, times=1000))
    assert again.aborted_transactions(0, 1) == []


def test_committed_transactions_are_not_told(log: Log) -> None:
    append(log, producer=7, transactional=True)
    end_transaction(log, commit=True, producer=7)
    end_transaction(log, commit=False, producer=7)  # a retry of the coordinator, with nothing to end
    assert log.aborted_transactions(0, 9) == []


def test_the_index_says_where_readers_stood_after_the_marker(log: Log) -> None:
    append(log, producer=7, transactional=True)
    append(log, producer=8, transactional=True)
    end_transaction(log, commit=False, producer=8)
    end_transaction(log, commit=False, producer=7)
    assert log.aborted_transactions(0, 9) == [AbortedTxn(8, 1, 2, 0), AbortedTxn(7, 0, 3, 4)]


@pytest.mark.parametrize("how", ["clean", "killed", "lost files", "damaged files"])
def test_transactions_are_known_after_reopening(fs: MemoryFileSystem, log: Log, how: str) -> None:
    aborted = [abort(log, 7), abort(log, 8, before=5)]
    append(log, producer=9, transactional=True)
    log.raise_high_watermark(log.log_end_offset)
    unstable = log.first_unstable_offset
    if how == "clean":
        log.close()
    elif how != "killed":
        run_chores(log)
        log.close()
        for name in fs.list_dir("/data/t-0"):
            if name.endswith(".snapshot") or (how == "lost files" and not name.endswith((".log", ABORTED_INDEX))):
                fs.remove(f"/data/t-0/{name}")
            elif name.endswith(ABORTED_INDEX):
                file = fs.open(f"/data/t-0/{name}")
                if how == "damaged files":
                    file.truncate(0)
                    file.append(b"\xff" * 34)
    again = open_log(fs, clean=how != "killed", high_watermark=log.high_watermark)
    assert again.aborted_transactions(0, again.log_end_offset) == aborted
    assert again.first_unstable_offset == unstable
    assert again.last_stable_offset == unstable
    end_transaction(again, commit=False, producer=9)
    assert len(again.aborted_transactions(0, again.log_end_offset)) == 3


def test_a_segment_without_aborted_transactions_has_no_file_for_them(fs: MemoryFileSystem, log: Log) -> None:
    append(log)
    log.close()
    assert not any(name.endswith(ABORTED_INDEX) for name in fs.list_dir("/data/t-0"))
